// SPDX-License-Identifier: MIT
/* chat/images.c - images in the messages of a conversation (images.h). */
#include "chat/images.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/mem.h"
#include "text/base64.h"

/* ---- finding them ---- */

/* Appends a copy of an image's source: its address or path. */
static int add_source(struct chat_images *im, const char *text, struct err *e) {
    const size_t n = strlen(text);
    TRY(arena_reserve(&im->mem, n + 1, "an image", e));
    if (im->n == im->cap) {
        im->cap = im->cap ? 2 * im->cap : 8;
        im->source = xreallocarray(im->source, (size_t)im->cap, sizeof *im->source);
    }
    im->source[im->n++] = arena_strndup(&im->mem, text, n);
    return 0;
}

bool chat_image_is(const struct json *part) {
    static const char *const types[] = {"image", "image_url", "input_image", "computer_screenshot"};
    const char *type = json_str(json_get(part, "type"));
    for (size_t i = 0; type && i < COUNT_OF(types); i++)
        if (strcmp(type, types[i]) == 0) return true;
    return false;
}

bool chat_image_is_data(const char *source) {
    return strncasecmp(source, "data:", 5) == 0;
}

/* Returns base64 as a data URL, unless it is one. */
static char *data_url(const char *text) {
    return xasprintf("%s%s", chat_image_is_data(text) ? "" : "data:;base64,", text);
}

char *chat_image_source(const struct json *part) {
    static const char *const names[] = {"image_url", "image", "url", "path", "source"};
    const char *data = json_str(json_get(part, "base64"));
    if (json_str(part)) data = json_str(part);
    for (size_t i = 0; !data && i < COUNT_OF(names); i++) {
        const struct json *v = json_get(part, names[i]);
        const char *url = json_str(v) ? json_str(v) : json_str(json_get(v, "url"));
        if (url) return xstrdup(url);
        data = json_str(json_get(v, "data"));
    }
    return data ? data_url(data) : NULL;
}

/* Lists the source of an image: a part, or a text in base64. */
static int take_part(struct chat_images *im, const struct json *part, struct err *e) {
    char *source = chat_image_source(part);
    const int rc = source ? add_source(im, source, e)
                          : err_set(e, ERR_USAGE,
                                    "an image has no source: expected a member image_url, image, "
                                    "url, path, base64 or source");
    free(source);
    return rc;
}

/* ---- writing the conversation without them ---- */

/* Returns a new content part {"type": "image"}. */
static const struct json *image_part(struct arena *a) {
    struct json *part = json_new(a, JSON_OBJ);
    json_put(a, part, "type", 4, json_new_str(a, "image", 5));
    return part;
}

/* Appends a message's content to parts, with its images replaced. */
static int take_content(struct chat_images *im, const struct json *content, struct json *parts,
                        struct err *e) {
    struct arena *a = &im->mem;
    if (json_str(content)) {
        struct json *part = json_new(a, JSON_OBJ);
        size_t n;
        const char *s = json_strn(content, &n);
        json_put(a, part, "type", 4, json_new_str(a, "text", 4));
        json_put(a, part, "text", 4, json_new_str(a, s, n));
        json_push(a, parts, part);
    }
    if (json_type(content) != JSON_ARR) return 0;
    for (const struct json *p = json_first(content); p; p = json_next(p)) {
        if (chat_image_is(p)) TRY(take_part(im, p, e));
        json_push(a, parts, chat_image_is(p) ? image_part(a) : p);
    }
    return 0;
}

/* Returns whether a message has images: parts of its content, or Ollama's list next to it. */
static bool has_images(const struct json *message) {
    const struct json *content = json_get(message, "content");
    if (json_first(json_get(message, "images"))) return true;
    for (const struct json *p = json_type(content) == JSON_ARR ? json_first(content) : NULL; p;
         p = json_next(p))
        if (chat_image_is(p)) return true;
    return false;
}

/* Copies a message with its images replaced. */
static int take_message(struct chat_images *im, const struct json *message, struct json *list,
                        struct err *e) {
    struct arena *a = &im->mem;
    struct json *copy = json_new(a, JSON_OBJ), *parts = json_new(a, JSON_ARR);
    for (const struct json *i = json_first(json_get(message, "images")); i; i = json_next(i)) {
        TRY(take_part(im, i, e));
        json_push(a, parts, image_part(a));
    }
    TRY(take_content(im, json_get(message, "content"), parts, e));
    for (const struct json *m = json_first(message); m; m = json_next(m)) {
        size_t n;
        const char *name = json_namen(m, &n);
        if (strcmp(name, "images") != 0 && strcmp(name, "content") != 0)
            json_put(a, copy, name, n, m);
    }
    json_put(a, copy, "content", 7, parts);
    json_push(a, list, copy);
    return 0;
}

/* Moves all image sources of the messages to im and writes the messages without them. */
static int take_all(struct chat_images *im, const struct json *root, struct buf *out,
                    struct err *e) {
    struct arena *a = &im->mem;
    const bool bare = json_type(root) == JSON_ARR;
    const struct json *messages = bare ? root : json_get(root, "messages");
    struct json *list = json_new(a, JSON_ARR), *doc = json_new(a, JSON_OBJ);
    bool any = false;
    if (json_type(messages) != JSON_ARR) return 0;
    for (const struct json *m = json_first(messages); m; m = json_next(m)) {
        if (has_images(m))
            TRY(take_message(im, m, list, e));
        else
            json_push(a, list, m);
        any = any || has_images(m);
    }
    if (!any) return 0;
    for (const struct json *m = bare ? NULL : json_first(root); m; m = json_next(m)) {
        size_t n;
        const char *name = json_namen(m, &n);
        json_put(a, doc, name, n, m == messages ? list : m);
    }
    json_write_spaced(out, bare ? list : doc);
    return 0;
}

int chat_images_take(const char *conv, size_t len, struct chat_images *im, struct buf *out,
                     struct err *e) {
    struct json *root;
    memset(im, 0, sizeof *im);
    arena_init(&im->mem);
    if (!memmem(conv, len, "image", 5)) return 0;
    TRY(json_parse(&root, conv, len, "conversation", e));
    const int rc = take_all(im, root, out, e);
    json_free(root);
    return rc;
}

void chat_images_release(struct chat_images *im) {
    arena_release(&im->mem);
    free(im->source);
    memset(im, 0, sizeof *im);
}

/* ---- data URLs ---- */

int chat_image_decode(const char *source, struct buf *out, struct err *e) {
    const char *data = strchr(source, ',');
    const size_t n = data ? strlen(++data) : 0;
    char *digits = try_calloc(n + 4, 1, "an image in base64", e);
    size_t k = 0;
    if (!digits) return (int)e->code;
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", data[i]))
            digits[k++] = (char)(data[i] == '-' ? '+' : data[i] == '_' ? '/' : data[i]);
    while (k % 4) digits[k++] = '=';
    int rc = buf_try_reserve(out, k, "an image", e);
    const int64_t len = rc ? 0 : base64_decode(digits, out->data + out->len, k);
    free(digits);
    if (rc) return rc;
    if (len < 1) return err_set(e, ERR_USAGE, "the data of an image are not base64");
    out->len += (size_t)len;
    return 0;
}
