// SPDX-License-Identifier: MIT
/* serve/images.c - images in requests (images.h). */
#include "serve/images.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/generate/pictures_prompt.h"
#include "serve/server.h"

/* "<image:KEY:HASH>", with 16 and 32 hex digits. */
enum { MARK_HEAD = 24, MARK = MARK_HEAD + 33 };
static const char mark_begin[] = "<image:";

/* ---- reading ---- */

/* Remembers an image, unless the request has it already. Takes over the bytes. */
static const struct ask_image *add_image(struct ask *a, struct buf *bytes, const char *path) {
    struct ask_image new = {.bytes = *bytes, .index = -1};
    snprintf(new.path, sizeof new.path, "%.150s", path);
    hash_xxh128_hex(new.hash, bytes->data, bytes->len);
    for (int i = 0; i < a->n_images; i++)
        if (strcmp(a->image[i].hash, new.hash) == 0) {
            buf_release(bytes);
            return &a->image[i];
        }
    a->image = xreallocarray(a->image, (size_t)a->n_images + 1, sizeof *a->image);
    a->image[a->n_images] = new;
    return &a->image[a->n_images++];
}

int images_read(struct ask *a, const struct json *part, const char *path, struct buf *out,
                struct fault *f) {
    char *source = chat_image_source(part);
    struct buf bytes = {0};
    struct err e;
    int rc = 0;
    if (!source)
        rc = fault_set(f, 400, NULL, path, "the image has no data");
    else if (!chat_image_is_data(source))
        rc = fault_set(f, 400, NULL, path, "images are not fetched: send the image itself as a %s",
                       json_type(json_get(part, "source")) == JSON_OBJ
                           ? "source of type base64, with media_type and data"
                           : "data URL (data:image/png;base64,...)");
    else if (chat_image_decode(source, &bytes, &e))
        rc = fault_set(f, 400, NULL, path, "%s", e.msg);
    free(source);
    if (rc)
        buf_release(&bytes);
    else
        buf_fmt(out, "%s%016" PRIx64 ":%s>", mark_begin, a->image_key,
                add_image(a, &bytes, path)->hash);
    return rc;
}

const char *images_kinds(const struct ask *a) {
    return a->sees ? "text and images" : "text";
}

bool images_at_end(const struct buf *text) {
    return text->len >= MARK &&
           memcmp(text->data + text->len - MARK, mark_begin, sizeof mark_begin - 1) == 0 &&
           text->data[text->len - 1] == '>';
}

void images_release(struct ask *a) {
    for (int i = 0; i < a->n_images; i++) {
        if (a->image[i].index >= 0) pictures_let_go(a->pictures, a->image[i].index);
        buf_release(&a->image[i].bytes);
    }
    free(a->image);
    a->image = NULL;
    a->n_images = 0;
}

/* ---- computing ---- */

bool images_possible(const struct served *d) {
    return d->mmproj && session_info(d->core.s).takes_images;
}

/* Opens the projector file at the first image. */
static int open_pictures(struct served *d, const char *path, struct fault *f) {
    const struct session_opts *o = session_get_opts(d->core.s);
    struct err e;
    if (d->pictures) return 0;
    if (!session_info(d->core.s).takes_images)
        return fault_set(f, 400, NULL, path,
                         "images of this model are computed on the CPU only: start the server with "
                         "--device cpu");
    if (!d->mmproj)
        return fault_set(f, 400, NULL, path,
                         "this model does not see images: the server has no projector file "
                         "(mmproj-*.gguf) for it");
    if (pictures_open(&d->pictures, d->mmproj, d->core.m, o->pool, o->isa, &e))
        return fault_set(f, 500, NULL, NULL, "%s", e.msg);
    pictures_limit(d->pictures, 0, session_get_opts(d->core.s)->n_ctx, "shrink it");
    log_info("images are read by %s", d->mmproj);
    return 0;
}

int images_compute(struct served *d, struct ask *a, struct fault *f) {
    struct err e;
    if (a->n_images) TRY(open_pictures(d, a->image[0].path, f));
    a->pictures = d->pictures;
    for (int i = 0; i < a->n_images; i++) {
        struct ask_image *im = &a->image[i];
        if (im->index >= 0) continue;
        const int rc = pictures_add(d->pictures, im->bytes.data, im->bytes.len, &im->index, &e);
        if (rc) im->index = -1;
        if (rc) return fault_set(f, rc == ERR_SYS ? 500 : 400, NULL, im->path, "%s", e.msg);
        buf_release(&im->bytes);
    }
    return 0;
}

/* ---- rendering ---- */

struct split {
    const struct ask *a;
    struct arena mem;
    struct ids order; /* images by their place in the conversation */
    char head[MARK_HEAD + 1];
};

/* Appends a content part with n bytes of text. */
static void push_part(struct split *s, struct json *parts, const char *text, size_t n) {
    struct json *part = json_new(&s->mem, JSON_OBJ);
    json_put(&s->mem, part, "type", 4,
             json_new_str(&s->mem, text ? "text" : "image", text ? 4 : 5));
    if (text) json_put(&s->mem, part, "text", 4, json_new_str(&s->mem, text, n));
    json_push(&s->mem, parts, part);
}

/* Returns the image whose mark begins at `at`, of n bytes; -1: none. */
static int image_at(const struct split *s, const char *at, size_t n) {
    for (int i = 0; n >= MARK && i < s->a->n_images; i++)
        if (memcmp(at + MARK_HEAD, s->a->image[i].hash, 32) == 0 && at[MARK - 1] == '>') return i;
    return -1;
}

/* Splits a text at its marks; NULL: it has none. */
static struct json *split_text(struct split *s, const char *text, size_t n) {
    const char *end = text + n, *from = text, *at = text;
    struct json *parts = NULL;
    while ((at = memmem(at, (size_t)(end - at), s->head, MARK_HEAD)) != NULL) {
        const int i = image_at(s, at, (size_t)(end - at));
        if (i < 0) {
            at++;
            continue;
        }
        if (!parts) parts = json_new(&s->mem, JSON_ARR);
        if (at > from) push_part(s, parts, from, (size_t)(at - from));
        push_part(s, parts, NULL, 0);
        ids_add(&s->order, s->a->image[i].index);
        from = at += MARK;
    }
    if (parts && end > from) push_part(s, parts, from, (size_t)(end - from));
    return parts;
}

/* Writes the conversation with its marks replaced by parts, and lists the images. */
static int split_conv(struct split *s, const char *conv, struct buf *out, struct err *e) {
    struct json *root;
    TRY(json_parse(&root, conv, strlen(conv), "the conversation", e));
    struct json *list = json_new(&s->mem, JSON_ARR), *doc = json_new(&s->mem, JSON_OBJ);
    for (const struct json *m = json_first(json_get(root, "messages")); m; m = json_next(m)) {
        size_t n = 0;
        const char *text = json_strn(json_get(m, "content"), &n);
        struct json *parts = text ? split_text(s, text, n) : NULL, *copy = NULL;
        if (parts) {
            copy = json_new(&s->mem, JSON_OBJ);
            for (const struct json *x = json_first(m); x; x = json_next(x))
                json_put(&s->mem, copy, json_name(x), strlen(json_name(x)), x);
            json_put(&s->mem, copy, "content", 7, parts);
        }
        json_push(&s->mem, list, copy ? copy : m);
    }
    for (const struct json *x = json_first(root); x; x = json_next(x))
        json_put(&s->mem, doc, json_name(x), strlen(json_name(x)),
                 strcmp(json_name(x), "messages") == 0 ? list : x);
    json_write_spaced(out, doc);
    json_free(root);
    return 0;
}

int images_tokens(struct served *d, const struct ask *a, const char *conv, const char *kwargs,
                  bool gen, struct chat_prompt *p, struct err *e) {
    const struct pictures_prompt how = {d->chat, d->core.m->tok, kwargs, gen, d->server->o.special};
    struct split s = {.a = a};
    struct buf doc = {0};
    arena_init(&s.mem);
    snprintf(s.head, sizeof s.head, "%s%016" PRIx64 ":", mark_begin, a->image_key);
    int rc = split_conv(&s, conv, &doc, e);
    if (!rc)
        rc = pictures_render(a->pictures, s.order.v, (int)s.order.n, &how, doc.data, doc.len, p, e);
    buf_release(&doc);
    ids_release(&s.order);
    arena_release(&s.mem);
    return rc;
}
