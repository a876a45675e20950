// SPDX-License-Identifier: MIT
/* runtime/generate/pictures_prompt.c - prompts of conversations with images
 * (pictures_prompt.h). */
#include "runtime/generate/pictures_prompt.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"

/* ---- the projector file ---- */

/* Returns the size of a projector file whose embeddings are `width` wide; 0: another file. */
static uint64_t projector_size(const char *path, int64_t width) {
    struct gguf *g = NULL;
    struct err ignored;
    uint64_t n = 0;
    if (gguf_open(&g, path, GGUF_TOLERANT, &ignored)) return 0;
    if (gguf_u64_or(g, "clip.vision.projection_dim", 0) == (uint64_t)width) n = gguf_file_bytes(g);
    gguf_close(g);
    return n;
}

/* Returns the folder of a path; the caller frees it. */
static char *folder_of(const char *path) {
    const size_t n = (size_t)(io_base(path) - path);
    return n ? xstrndup(path, n) : xstrdup("./");
}

int pictures_find(const struct model *m, const char *model_path, char **out, struct err *e) {
    char *dir = folder_of(model_path);
    struct io_names l = {0};
    uint64_t best = 0;
    *out = NULL;
    int rc = io_list(&l, dir, e);
    io_names_sort(&l);
    for (int i = 0; i < l.n && !rc; i++) {
        if (!strcasestr(l.v[i], "mmproj") || !str_ends(l.v[i], ".gguf")) continue;
        char *path = xasprintf("%s%s", dir, l.v[i]);
        const uint64_t size = projector_size(path, m->hp.d[HD_EMBD]);
        if (size > best) {
            free(*out);
            *out = path;
            best = size;
        } else
            free(path);
    }
    if (!rc && !*out)
        rc = err_set(e, ERR_USAGE,
                     "%s: no projector file of this model (mmproj-*.gguf), which images need; "
                     "--mmproj FILE names one, `hone convert SRC --mmproj FILE` writes one",
                     dir);
    io_names_release(&l);
    free(dir);
    return rc;
}

/* ---- reading images ---- */

/* Appends an image's bytes from a data: address or, with `files`, a file. */
static int read_source(const char *source, bool files, struct buf *out, struct err *e) {
    char *data = NULL;
    size_t n = 0;
    if (strncmp(source, "data:", 5) == 0) return chat_image_decode(source, out, e);
    if (!files || strstr(source, "://") != NULL)
        return err_set(e, ERR_USAGE,
                       "images are not fetched: send the image itself as a data URL "
                       "(data:image/png;base64,...)");
    TRY(io_read_file(&data, &n, source, IMAGE_MAX_BYTES, e));
    buf_add(out, data, n);
    free(data);
    return 0;
}

/* Adds the image and sets *index to its number. */
static int add_image(struct pictures *p, const char *source, bool files, int *index,
                     struct err *e) {
    struct buf bytes = {0};
    int rc = read_source(source, files, &bytes, e);
    if (!rc) rc = pictures_add(p, bytes.data ? bytes.data : "", bytes.len, index, e);
    buf_release(&bytes);
    if (rc == ERR_DATA) e->code = ERR_USAGE; /* the user's data, not the model's */
    return rc ? err_wrap(e, "%.60s", strncmp(source, "data:", 5) == 0 ? "an image" : source) : 0;
}

int pictures_render(struct pictures *p, const int *index, int n, const struct pictures_prompt *how,
                    const char *conv, size_t len, struct chat_prompt *out, struct err *e) {
    char **text = xcalloc((size_t)n + 1, sizeof *text);
    for (int i = 0; i < n; i++) text[i] = pictures_text(p, index[i], i);
    const struct chat_media media = {n ? pictures_placeholder(p) : "", text, n};
    int rc = chat_tokens(how->chat, how->tok, conv, len, how->kwargs, how->gen, how->special,
                         n ? &media : NULL, out, e);
    if (rc && out->refused) err_wrap(e, "the model's chat template does not accept images");
    if (!rc && n) rc = pictures_expand(p, index, n, &out->ids, &out->n_head, e);
    for (int i = 0; i < n; i++) free(text[i]);
    free(text);
    return rc;
}

int pictures_tokens(struct pictures *p, const struct chat_images *im,
                    const struct pictures_prompt *how, const char *conv, size_t len,
                    struct chat_prompt *out, struct err *e) {
    int *index = xcalloc((size_t)im->n, sizeof *index), rc = 0;
    for (int i = 0; i < im->n && !rc; i++)
        rc = add_image(p, im->source[i], how->files, &index[i], e);
    if (!rc) rc = pictures_render(p, index, im->n, how, conv, len, out, e);
    free(index);
    return rc;
}
