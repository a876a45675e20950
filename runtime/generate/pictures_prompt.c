// SPDX-License-Identifier: MIT
/* runtime/generate/pictures_prompt.c - prompts of conversations with images
 * (pictures_prompt.h). */
#include "runtime/generate/pictures_prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"

/* ---- the projector file ---- */

/* A projector file that fits the model. */
struct fitting {
    char *path; /* NULL: none */
    uint64_t size;
    bool same_name; /* general.name is the model's */
    size_t n_same;  /* equal leading characters of the file names */
};

/* Returns the number of equal leading characters of two file names, apart from case and from
 * "mmproj-" at the start of the first. */
static size_t same_start(const char *projector, const char *model) {
    size_t n = 0;
    if (strncasecmp(projector, "mmproj-", 7) == 0) projector += 7;
    while (projector[n] && strncasecmp(projector, model, n + 1) == 0) n++;
    return n;
}

/* Opens a projector file, and makes it the best of its kind if it belongs to the model and is
 * larger. Takes the path. kind[1]: projectors of Qwen 2.5 VL, whose files are those of Qwen 2 VL
 * in everything but name. */
static void look_at(char *path, const struct model *m, const char *model_path,
                    struct fitting kind[2]) {
    struct gguf *g = NULL;
    struct err ignored;
    struct vision_params params;
    struct fitting *to = NULL;
    if (gguf_open(&g, path, GGUF_TOLERANT, &ignored)) g = NULL;
    if (g &&
        !pictures_fit(g, m, (int64_t)gguf_u64_or(g, "clip.vision.projection_dim", 0), &ignored) &&
        !vision_params_read(g, &params, &ignored)) {
        to = &kind[params.type == PROJ_QWEN25VL];
        if (gguf_file_bytes(g) <= to->size) to = NULL;
    }
    if (to) {
        const char *name = gguf_str_or(g, "general.name", "");
        free(to->path);
        *to = (struct fitting){path, gguf_file_bytes(g),
                               *name && strcmp(name, gguf_str_or(m->gguf, "general.name", "")) == 0,
                               same_start(io_base(path), io_base(model_path))};
    } else
        free(path);
    gguf_close(g);
}

/* Returns the folder of a path; the caller frees it. */
static char *folder_of(const char *path) {
    const size_t n = (size_t)(io_base(path) - path);
    return n ? xstrndup(path, n) : xstrdup("./");
}

/* Chooses between projectors of two kinds by their names. ERR_USAGE: none, or both are as likely.
 */
static int choose(const struct fitting kind[2], const char *dir, int *which, struct err *e) {
    const struct fitting *a = &kind[0], *b = &kind[1];
    if (!a->path && !b->path)
        return err_set(e, ERR_USAGE,
                       "%s: no projector file of this model (mmproj-*.gguf), which images need; "
                       "--mmproj FILE names one, `hone convert SRC --mmproj FILE` writes one",
                       dir);
    *which = !a->path;
    if (!a->path || !b->path) return 0;
    *which = a->same_name == b->same_name ? b->n_same > a->n_same : b->same_name;
    if (a->same_name == b->same_name && a->n_same == b->n_same)
        return err_set(e, ERR_USAGE,
                       "%s and %s may both belong to this model: name the right one with "
                       "--mmproj FILE",
                       a->path, b->path);
    return 0;
}

int pictures_find(const struct model *m, const char *model_path, char **out, struct err *e) {
    char *dir = folder_of(model_path);
    struct io_names l = {0};
    struct fitting kind[2] = {0};
    int which = 0;
    *out = NULL;
    int rc = io_list(&l, dir, e);
    io_names_sort(&l);
    for (int i = 0; i < l.n && !rc; i++)
        if (strcasestr(l.v[i], "mmproj") && str_ends(l.v[i], ".gguf"))
            look_at(xasprintf("%s%s", dir, l.v[i]), m, model_path, kind);
    if (!rc) rc = choose(kind, dir, &which, e);
    if (!rc) {
        *out = kind[which].path;
        kind[which].path = NULL;
    }
    free(kind[0].path);
    free(kind[1].path);
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

/* ---- rendering ---- */

/* Appends a message with its content as one text, in which each image is a mark. */
static void flatten(struct arena *a, const struct json *message, const char *mark,
                    struct json *list) {
    const struct json *content = json_get(message, "content");
    struct json *copy = json_new(a, JSON_OBJ);
    struct buf text = {0};
    for (const struct json *p = json_first(content); p; p = json_next(p)) {
        const char *s = json_str(json_get(p, "text"));
        buf_str(&text, chat_image_is(p) ? mark : s ? s : "");
    }
    for (const struct json *m = json_first(message); m; m = json_next(m))
        json_put(a, copy, json_name(m), strlen(json_name(m)), m);
    json_put(a, copy, "content", 7, json_new_str(a, text.data ? text.data : "", text.len));
    json_push(a, list, copy);
    buf_release(&text);
}

/* Writes a conversation with each message's content as one text. */
static int flatten_all(const char *conv, size_t len, const char *mark, struct buf *out,
                       struct err *e) {
    struct json *root;
    struct arena a;
    TRY(json_parse(&root, conv, len, "conversation", e));
    arena_init(&a);
    const bool bare = json_type(root) == JSON_ARR;
    const struct json *messages = bare ? root : json_get(root, "messages");
    struct json *list = json_new(&a, JSON_ARR), *doc = json_new(&a, JSON_OBJ);
    for (const struct json *m = json_first(messages); m; m = json_next(m))
        if (json_type(json_get(m, "content")) == JSON_ARR)
            flatten(&a, m, mark, list);
        else
            json_push(&a, list, m);
    for (const struct json *m = bare ? NULL : json_first(root); m; m = json_next(m))
        json_put(&a, doc, json_name(m), strlen(json_name(m)), m == messages ? list : m);
    json_write_spaced(out, bare ? list : doc);
    arena_release(&a);
    json_free(root);
    return 0;
}

/* Renders once. mark: as in chat_media. */
static int render(struct pictures *p, const int *index, int n, const struct pictures_prompt *how,
                  const struct buf *conv, const char *mark, struct chat_prompt *out,
                  struct err *e) {
    char **text = xcalloc((size_t)n + 1, sizeof *text);
    for (int i = 0; i < n; i++)
        text[i] = mark ? pictures_text_around(p, index[i], i) : pictures_text(p, index[i], i);
    const struct chat_media media = {n ? pictures_placeholder(p) : "", text, n, mark};
    int rc = chat_tokens(how->chat, how->tok, conv->data, conv->len, how->kwargs, how->gen,
                         how->special, n ? &media : NULL, out, e);
    if (!rc && n) rc = pictures_expand(p, index, n, &out->ids, &out->n_head, e);
    for (int i = 0; i < n; i++) free(text[i]);
    free(text);
    return rc;
}

/* Renders with a template that knows no images, or none in some roles: marks in the messages' texts
 * become what other templates write. */
static int render_marked(struct pictures *p, const int *index, int n,
                         const struct pictures_prompt *how, const char *conv, size_t len,
                         struct chat_prompt *out, struct err *e) {
    struct buf flat = {0};
    char mark[48];
    uint64_t key;
    if (!os_random(&key, sizeof key)) return err_sys(e, "random numbers");
    snprintf(mark, sizeof mark, "<image-%016" PRIx64 ">", key);
    int rc = flatten_all(conv, len, mark, &flat, e);
    if (!rc) rc = render(p, index, n, how, &flat, mark, out, e);
    buf_release(&flat);
    return rc;
}

int pictures_render(struct pictures *p, const int *index, int n, const struct pictures_prompt *how,
                    const char *conv, size_t len, struct chat_prompt *out, struct err *e) {
    struct buf copy = {0};
    struct err second;
    buf_add(&copy, conv, len);
    int rc = render(p, index, n, how, &copy, NULL, out, e);
    const bool unknown = rc && n && (out->refused || out->n_media != n);
    if (unknown && render_marked(p, index, n, how, conv, len, out, &second) == 0) rc = 0;
    if (rc && unknown) err_wrap(e, "the model's chat template does not accept images");
    if (!rc) *e = (struct err){0};
    buf_release(&copy);
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
