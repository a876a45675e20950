// SPDX-License-Identifier: MIT
/* lib/lib_writer.c - writer of GGUF files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "lib/handles.h"

struct hone_writer {
    struct owner *owner;
    struct gguf_w *w;
};

/* Starts a GGUF file; *out is NULL on error, release it with hone_writer_free(). */
int hone_writer_new(struct hone_writer **out, const struct hone_opts *o, struct hone_error *e) {
    struct call c;
    *out = NULL;
    struct hone_writer *w = lib_new(sizeof *w, e);
    int rc = w ? owner_new(&w->owner, o, NULL, e) : HONE_SYSTEM;
    if (!rc) rc = call_begin(&c, w->owner, e);
    if (rc) {
        hone_writer_free(w);
        return rc;
    }
    w->w = gguf_w_new();
    *out = w;
    return call_end(&c, 0, e);
}

void hone_writer_free(struct hone_writer *w) {
    if (!w) return;
    if (w->w) gguf_w_free(w->w);
    owner_drop(w->owner);
    free(w);
}

/* ---- keys ---- */

static const struct {
    enum hone_value type;
    int64_t lo, hi;
} integers[] = {
    {HONE_U8, 0, UINT8_MAX},
    {HONE_I8, INT8_MIN, INT8_MAX},
    {HONE_U16, 0, UINT16_MAX},
    {HONE_I16, INT16_MIN, INT16_MAX},
    {HONE_U32, 0, UINT32_MAX},
    {HONE_I32, INT32_MIN, INT32_MAX},
    {HONE_U64, INT64_MIN, INT64_MAX},
    {HONE_I64, INT64_MIN, INT64_MAX},
    {HONE_BOOL, 0, 1},
};

int hone_writer_int(struct hone_writer *w, const char *key, enum hone_value type, int64_t v,
                    struct hone_error *e) {
    NEED(key, e);
    struct call c;
    size_t i = 0;
    while (i < COUNT_OF(integers) && integers[i].type != type) i++;
    if (i == COUNT_OF(integers))
        return lib_error(e, HONE_USAGE, "key %.200s: %s is not a type of integers", key,
                         type <= HONE_F64 ? gguf_vtype_name((enum gguf_vtype)type) : "?");
    if (v < integers[i].lo || v > integers[i].hi)
        return lib_error(e, HONE_USAGE, "key %.200s: %lld does not fit %s", key, (long long)v,
                         gguf_vtype_name((enum gguf_vtype)type));
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    gguf_w_int(w->w, key, (enum gguf_vtype)type, v);
    return call_end(&c, 0, e);
}

int hone_writer_float(struct hone_writer *w, const char *key, double v, struct hone_error *e) {
    NEED(key, e);
    struct call c;
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    gguf_w_f32(w->w, key, (float)v);
    return call_end(&c, 0, e);
}

/* Sets a key to len bytes of text; an existing value is replaced. */
int hone_writer_text(struct hone_writer *w, const char *key, const char *text, size_t len,
                     struct hone_error *e) {
    NEED(key, e);
    struct call c;
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    gguf_w_strn(w->w, key, text, len);
    return call_end(&c, 0, e);
}

/* Sets a key to n numbers of the type; HONE_USAGE if the type is not a number. */
int hone_writer_array(struct hone_writer *w, const char *key, enum hone_value elem, const void *v,
                      uint64_t n, struct hone_error *e) {
    NEED(key, e);
    struct call c;
    if (elem > HONE_F64 || gguf_vtype_bytes((enum gguf_vtype)elem) == 0)
        return lib_error(e, HONE_USAGE, "key %.200s: not a list of numbers", key);
    if (n > (uint64_t)INT64_MAX / sizeof(uint64_t) || (n && !v))
        return lib_error(e, HONE_USAGE, "key %.200s: cannot write a list of %llu numbers", key,
                         (unsigned long long)n);
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    gguf_w_arr(w->w, key, (enum gguf_vtype)elem, v, n);
    return call_end(&c, 0, e);
}

/* Sets a key to a list of n NUL-terminated texts. */
int hone_writer_texts(struct hone_writer *w, const char *key, const char *const *text, uint64_t n,
                      struct hone_error *e) {
    NEED(key, e);
    struct call c;
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    gguf_w_arr_str(w->w, key, text, n);
    return call_end(&c, 0, e);
}

int hone_writer_copy_keys(struct hone_writer *w, const struct hone_gguf *from, const char *key,
                          struct hone_error *e) {
    struct call c;
    const struct gguf_kv *one = key ? gguf_find(from->g, key) : NULL;
    if (key && !one) return lib_error(e, HONE_USAGE, "the file has no key '%.200s'", key);
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    if (one) gguf_w_copy_kv(w->w, one);
    for (int64_t i = 0; !key && i < gguf_n_kv(from->g); i++)
        gguf_w_copy_kv(w->w, gguf_kv_at(from->g, i));
    return call_end(&c, 0, e);
}

/* Removes a key; it is not an error if the key does not exist. */
int hone_writer_remove(struct hone_writer *w, const char *key, struct hone_error *e) {
    NEED(key, e);
    struct call c;
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    gguf_w_remove(w->w, key);
    return call_end(&c, 0, e);
}

/* ---- tensors ---- */

/* Announces a tensor. Its data follows with hone_writer_data(), in the order of the
 * announcements. */
int hone_writer_tensor(struct hone_writer *w, const char *name, int type, int n_dims,
                       const int64_t *ne, struct hone_error *e) {
    NEED(name, e);
    struct call c;
    if (!qtype_info(type))
        return lib_error(e, HONE_USAGE, "tensor %.100s: type %d does not exist", name, type);
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    rc = gguf_w_tensor(w->w, name, (enum qtype)type, n_dims, ne, &c.err);
    if (rc) err_about(&c.err, NULL, name);
    return call_end(&c, rc, e);
}

uint64_t hone_writer_bytes(const struct hone_writer *w) {
    return gguf_w_total_bytes(w->w);
}

/* Creates the file and writes keys and tensor list; overwrite 0: refuses an existing file. */
int hone_writer_begin(struct hone_writer *w, const char *path, int overwrite,
                      struct hone_error *e) {
    NEED(path, e);
    struct call c;
    int rc = call_begin(&c, w->owner, e);
    if (rc) return rc;
    rc = gguf_w_begin(w->w, path, overwrite != 0, &c.err);
    if (rc) err_about(&c.err, path, NULL);
    return call_end(&c, rc, e);
}

/* Appends n bytes to the tensors' data, in the order in which the tensors were announced. */
int hone_writer_data(struct hone_writer *w, const void *p, uint64_t n, struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, w->owner, e);
    return rc ? rc : call_end(&c, gguf_w_data(w->w, p, n, &c.err), e);
}

/* Completes the file and gives it its final name. */
int hone_writer_commit(struct hone_writer *w, struct hone_error *e) {
    struct call c;
    int rc = call_begin(&c, w->owner, e);
    return rc ? rc : call_end(&c, gguf_w_commit(w->w, &c.err), e);
}
