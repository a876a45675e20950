// SPDX-License-Identifier: MIT
/* lib/gguf.c - reader of GGUF files: keys and tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/gguf.h"
#include "base/num.h"
#include "lib/handles.h"

int hone_gguf_open(struct hone_gguf **out, const char *path, const struct hone_opts *o,
                   struct hone_error *e) {
    NEED(path, e);
    struct call c;
    *out = NULL;
    struct hone_gguf *g = lib_new(sizeof *g, e);
    int rc = g ? owner_new(&g->owner, o, path, e) : HONE_SYSTEM;
    if (rc) {
        free(g);
        return rc;
    }
    g->owned = true;
    rc = call_begin(&c, g->owner, e);
    if (!rc) rc = call_end(&c, gguf_open(&g->g, path, GGUF_TOLERANT, &c.err), e);
    if (rc)
        hone_gguf_close(g);
    else
        *out = g;
    return rc;
}

/* Closes the file; g may be NULL. A file that belongs to a model stays open. */
void hone_gguf_close(struct hone_gguf *g) {
    if (!g || !g->owned) return;
    if (g->g) gguf_close(g->g);
    owner_drop(g->owner);
    free(g);
}

uint64_t hone_gguf_bytes(const struct hone_gguf *g) {
    return gguf_file_bytes(g->g);
}

/* Returns the number of files (shards) that the model consists of. */
int hone_gguf_n_files(const struct hone_gguf *g) {
    return gguf_n_shards(g->g);
}

/* ---- keys ---- */

int64_t hone_gguf_n_keys(const struct hone_gguf *g) {
    return gguf_n_kv(g->g);
}

/* Fills the caller's struct, as far as its size goes, from the key. */
static int give_key(const struct gguf_kv *kv, struct hone_key *out, struct hone_error *e) {
    const struct hone_key k = {.name = kv->key,
                               .type = (int)kv->type,
                               .elem = (int)(kv->type == GV_ARR ? kv->elem : kv->type),
                               .count = kv->count,
                               .data = kv->data,
                               .n_bytes = kv->n_bytes};
    return lib_give(out, &k, sizeof k, "hone_key", e);
}

/* Fills *out with key i, from 0; HONE_USAGE if there is no such key. */
int hone_gguf_key(const struct hone_gguf *g, int64_t i, struct hone_key *out,
                  struct hone_error *e) {
    if (i < 0 || i >= gguf_n_kv(g->g))
        return lib_error(e, HONE_USAGE, "the file has %lld keys, but no key number %lld",
                         (long long)gguf_n_kv(g->g), (long long)i);
    return give_key(gguf_kv_at(g->g, i), out, e);
}

int hone_gguf_find_key(const struct hone_gguf *g, const char *name, struct hone_key *out,
                       struct hone_error *e) {
    NEED(name, e);
    const struct gguf_kv *kv = gguf_find(g->g, name);
    return kv ? give_key(kv, out, e)
              : lib_error(e, HONE_USAGE, "the file has no key '%.200s'", name);
}

/* Fills kv with the whole key. Returns false if it has no element i or does not hold numbers. */
static bool number_of(const struct hone_key *k, uint64_t i, struct gguf_kv *kv) {
    *kv = (struct gguf_kv){.key = k->name,
                           .type = (enum gguf_vtype)k->type,
                           .elem = (enum gguf_vtype)k->elem,
                           .count = k->count,
                           .data = k->data,
                           .n_bytes = k->n_bytes};
    return k->elem != HONE_TEXT && k->elem != HONE_ARRAY && i < k->count;
}

/* Returns whether the GGUF value type is HONE_F32 or HONE_F64. */
static bool is_float(int type) {
    return type == HONE_F32 || type == HONE_F64;
}

int64_t hone_key_int(const struct hone_key *k, uint64_t i) {
    struct gguf_kv kv;
    return number_of(k, i, &kv) && !is_float(k->elem) ? gguf_kv_i64(&kv, i) : 0;
}

/* Returns element i as a double; 0 if it is not a number or does not exist. */
double hone_key_float(const struct hone_key *k, uint64_t i) {
    struct gguf_kv kv;
    if (!number_of(k, i, &kv)) return 0;
    return is_float(k->elem) ? gguf_kv_f64(&kv, i) : (double)gguf_kv_i64(&kv, i);
}

int hone_key_next_text(const struct hone_key *k, uint64_t *at, const char **text, size_t *len) {
    struct gguf_kv kv;
    const uint8_t *pos;
    uint64_t n;
    (void)number_of(k, 0, &kv);
    if (k->elem != HONE_TEXT) return 0;
    if (*at >= k->n_bytes) return 0;
    if (k->type == HONE_TEXT) { /* a single text, without a length prefix */
        *text = k->data;
        *len = (size_t)k->count;
        *at = k->n_bytes;
        return 1;
    }
    pos = (const uint8_t *)k->data + *at;
    gguf_kv_str_next(&kv, &pos, text, &n);
    *at = (uint64_t)(pos - (const uint8_t *)k->data);
    *len = (size_t)n;
    return 1;
}

int64_t hone_gguf_int(const struct hone_gguf *g, const char *name, int64_t otherwise) {
    const struct gguf_kv *kv = name ? gguf_find(g->g, name) : NULL;
    bool number = kv && kv->type != GV_STR && kv->type != GV_ARR && !is_float((int)kv->type);
    return number ? gguf_kv_i64(kv, 0) : otherwise;
}

/* Returns the key as a double; `otherwise` if it is missing or has another type. */
double hone_gguf_float(const struct hone_gguf *g, const char *name, double otherwise) {
    return name ? gguf_f64_or(g->g, name, otherwise) : otherwise;
}

const char *hone_gguf_text(const struct hone_gguf *g, const char *name, const char *otherwise) {
    return name ? gguf_str_or(g->g, name, otherwise) : otherwise;
}

/* ---- tensors ---- */

int64_t hone_gguf_n_tensors(const struct hone_gguf *g) {
    return gguf_n_tensors(g->g);
}

/* Fills the caller's struct, as far as its size goes, from the tensor. */
static int give_tensor(const struct gguf_tensor *t, struct hone_tensor *out, struct hone_error *e) {
    struct hone_tensor v = {.name = t->name,
                            .type = (int)t->type,
                            .n_dims = t->n_dims,
                            .data = t->data,
                            .n_bytes = t->n_bytes};
    memcpy(v.ne, t->ne, sizeof v.ne);
    return lib_give(out, &v, sizeof v, "hone_tensor", e);
}

/* Fills *out with tensor i, from 0; HONE_USAGE if there is no such tensor. */
int hone_gguf_tensor(const struct hone_gguf *g, int64_t i, struct hone_tensor *out,
                     struct hone_error *e) {
    if (i < 0 || i >= gguf_n_tensors(g->g))
        return lib_error(e, HONE_USAGE, "the file has %lld tensors, but no tensor number %lld",
                         (long long)gguf_n_tensors(g->g), (long long)i);
    return give_tensor(gguf_tensor_at(g->g, i), out, e);
}

/* Adds file and tensor to an error. Returns status. */
static int about(struct hone_error *e, const struct hone_gguf *g, const char *tensor, int status) {
    if (e && g) snprintf(e->file, sizeof e->file, "%s", gguf_path(g->g));
    if (e) snprintf(e->tensor, sizeof e->tensor, "%s", tensor);
    return status;
}

int hone_gguf_find_tensor(const struct hone_gguf *g, const char *name, struct hone_tensor *out,
                          struct hone_error *e) {
    NEED(name, e);
    const struct gguf_tensor *t = gguf_find_tensor(g->g, name);
    if (t) return give_tensor(t, out, e);
    lib_error(e, HONE_USAGE, "the file has no tensor '%.100s'", name);
    return about(e, g, name, HONE_USAGE);
}

int hone_tensor_read(const struct hone_tensor *t, int64_t row, int64_t n_rows, float *out,
                     struct hone_error *e) {
    /* The product was checked when the file was opened. */
    const int64_t have = t->ne[1] * t->ne[2] * t->ne[3];
    if (row < 0 || n_rows < 0 || row > have || n_rows > have - row) {
        lib_error(e, HONE_USAGE, "tensor %s has %lld rows, but not %lld from row %lld", t->name,
                  (long long)have, (long long)n_rows, (long long)row);
        return about(e, NULL, t->name, HONE_USAGE);
    }
    const uint64_t bytes = hone_type_row_bytes(t->type, t->ne[0]);
    const uint8_t *first = (const uint8_t *)t->data + bytes * (uint64_t)row;
    int rc = hone_decode(t->type, first, n_rows, t->ne[0], out, e);
    return rc ? about(e, NULL, t->name, rc) : rc;
}

int hone_gguf_check(const struct hone_gguf *g, const struct hone_tensor *t, struct hone_error *e) {
    struct call c;
    const struct gguf_tensor *own = gguf_find_tensor(g->g, t->name);
    if (!own) return lib_error(e, HONE_USAGE, "the file has no tensor '%.100s'", t->name);
    int rc = call_begin(&c, g->owner, e);
    return rc ? rc : call_end(&c, gguf_check_data(g->g, own, &c.err), e);
}
