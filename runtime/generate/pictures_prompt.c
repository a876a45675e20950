// SPDX-License-Identifier: MIT
/* runtime/generate/pictures_prompt.c - prompts of conversations with images
 * (pictures_prompt.h). */
#include "runtime/generate/pictures_prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"

/* ---- reading images ---- */

struct picture_file {
    char *path;
    struct buf bytes;
};

/* Returns what is kept of a file; NULL: nothing. */
static const struct buf *kept(const struct picture_files *f, const char *path) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->v[i].path, path) == 0) return &f->v[i].bytes;
    return NULL;
}

bool picture_files_keep(struct picture_files *f, const char *path, const char *bytes, size_t n) {
    const struct buf *b = kept(f, path);
    if (b) return b->len == n && (!n || memcmp(b->data, bytes, n) == 0);
    f->v = xreallocarray(f->v, (size_t)f->n + 1, sizeof *f->v);
    f->v[f->n] = (struct picture_file){.path = xstrdup(path)};
    buf_add(&f->v[f->n++].bytes, bytes, n);
    return true;
}

void picture_files_release(struct picture_files *f) {
    for (int i = 0; i < f->n; i++) {
        free(f->v[i].path);
        buf_release(&f->v[i].bytes);
    }
    free(f->v);
    memset(f, 0, sizeof *f);
}

/* Appends an image's bytes from a data URL or a file. */
static int read_source(const char *source, struct picture_files *files, struct buf *out,
                       struct err *e) {
    const struct buf *b = kept(files, source);
    char *data = NULL;
    size_t n = 0;
    if (b) buf_add(out, b->data ? b->data : "", b->len);
    if (b) return 0;
    if (chat_image_is_data(source)) return chat_image_decode(source, out, e);
    if (strstr(source, "://") != NULL)
        return err_set(e, ERR_USAGE,
                       "images are not fetched: send the image itself as a data URL "
                       "(data:image/png;base64,...)");
    TRY(io_read_file(&data, &n, source, IMAGE_MAX_BYTES, e));
    buf_add(out, data, n);
    picture_files_keep(files, source, data, n);
    free(data);
    return 0;
}

/* Adds the image and sets *index to its number. */
static int add_image(struct pictures *p, const char *source, struct picture_files *files,
                     int *index, struct err *e) {
    struct buf bytes = {0};
    int rc = read_source(source, files, &bytes, e);
    if (!rc) rc = pictures_add(p, bytes.data ? bytes.data : "", bytes.len, index, e);
    buf_release(&bytes);
    if (rc == ERR_DATA) e->code = ERR_USAGE; /* the user's data, not the model's */
    return rc ? err_wrap(e, "%.60s", chat_image_is_data(source) ? "an image" : source) : 0;
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

int pictures_tokens(struct pictures *p, const struct chat_images *im, struct picture_files *files,
                    const struct pictures_prompt *how, const char *conv, size_t len,
                    struct chat_prompt *out, struct err *e) {
    int *index = xcalloc((size_t)im->n, sizeof *index), rc = 0;
    for (int i = 0; i < im->n && !rc; i++) rc = add_image(p, im->source[i], files, &index[i], e);
    if (!rc) rc = pictures_render(p, index, im->n, how, conv, len, out, e);
    free(index);
    return rc;
}
