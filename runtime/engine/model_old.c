// SPDX-License-Identifier: MIT
/* runtime/engine/model_old.c - derivation of weights that older files store in a different form.
 * Conversions of DeepSeek V2 and V3 from before 2025 hold kv_b_proj as published: for each head the
 * key rows, then the value rows. Its two parts are created when the file is opened, with the same
 * values: keys transposed and as floats (16-bit if the file has 16-bit ones), values as the file's
 * blocks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "kernels/kern.h"
#include "runtime/engine/model.h"

struct split {
    const struct hparams *h;
    const struct weight *all; /* tensor to split, [heads * (nope + value)][rank] */
    int64_t heads, nope, value, rank;
    const struct kern *k;
};

/* Returns row `row` of a head in the joint matrix of keys and values. */
static const uint8_t *row_at(const struct split *s, int64_t head, int64_t row) {
    const int64_t at = head * (s->nope + s->value) + row;
    return (const uint8_t *)s->all->data + (uint64_t)at * s->all->row_bytes;
}

/* Writes the transposed key rows to `to` as [heads][rank][nope], for a file with plain values of
 * `size` bytes. */
static void transpose(const struct split *s, uint8_t *to, size_t size) {
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t r = 0; r < s->nope; r++) {
            const uint8_t *row = row_at(s, h, r);
            for (int64_t c = 0; c < s->rank; c++)
                memcpy(to + (size_t)((h * s->rank + c) * s->nope + r) * size,
                       row + (size_t)c * size, size);
        }
}
/* Decodes the key rows of all heads to floats, transposed: to [heads][rank][nope]. */
static void decode_turned(const struct split *s, float *to) {
    float *row = xcalloc((size_t)s->rank, sizeof *row);
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t r = 0; r < s->nope; r++) {
            s->k->op[s->all->type].decode(row_at(s, h, r), row, s->rank);
            for (int64_t c = 0; c < s->rank; c++) to[(h * s->rank + c) * s->nope + r] = row[c];
        }
    free(row);
}

/* Returns a copy of the value rows of all heads, freed by the caller; NULL: out of memory. */
static void *value_rows(const struct split *s, struct err *e) {
    const size_t n = (size_t)s->value * s->all->row_bytes;
    uint8_t *v = try_realloc(NULL, (size_t)s->heads, n, "values of MLA", e);
    for (int64_t h = 0; v && h < s->heads; h++) memcpy(v + (size_t)h * n, row_at(s, h, s->nope), n);
    return v;
}
/* Returns the transposed key rows of all heads, freed by the caller; NULL: out of memory. */
static void *key_rows(const struct split *s, enum qtype type, struct err *e) {
    const size_t size = (size_t)qtype_info(type)->block_bytes;
    void *v = try_calloc((size_t)(s->heads * s->rank * s->nope), size, "keys of MLA", e);
    if (!v) return NULL;
    if (type == s->all->type)
        transpose(s, v, size);
    else
        decode_turned(s, v);
    return v;
}

/* Adds a computed weight to m, which takes ownership of `data`, even on error. data NULL: only its
 * shape. */
static int add_weight(struct model *m, const char *name, int block, const int64_t ne[4],
                      enum qtype type, void *data, struct err *e) {
    struct made_weight *w = &m->made[m->n_made];
    const struct weight like = {.ne = {ne[0], ne[1], ne[2], 1}};
    snprintf(w->name, sizeof w->name, "blk.%d.%s.weight", block, name);
    const int rc = weight_given(&w->w, &like, w->name, data, type, data ? free : NULL, e);
    if (rc) {
        free(data);
        return rc;
    }
    w->t = (struct gguf_tensor){.name = w->name, .type = type, .n_dims = 3};
    memcpy(w->t.ne, w->w.ne, sizeof w->t.ne);
    m->n_made++;
    return 0;
}

/* Splits a block's joint MLA matrix into attn_k_b and attn_v_b; data false: only shapes. */
static int split_block(struct model *m, int block, const struct weight *all, enum qtype floats,
                       const struct kern *k, bool data, struct err *e) {
    const int64_t *d = m->hp.d;
    const struct split s = {&m->hp,        all, d[HD_HEADS], d[HD_NOPE], d[HD_VALUE_MLA],
                            d[HD_KV_RANK], k};
    const bool plain = qtype_info(all->type)->block_elems == 1;
    const enum qtype type = plain ? all->type : floats;
    const int64_t key[4] = {s.nope, s.rank, s.heads}, value[4] = {s.rank, s.value, s.heads};
    if (all->ne[0] != s.rank || all->ne[1] != d[HD_KV_B] || all->ne[2] != 1 ||
        !kern_has(k, all->type))
        return err_set(e, ERR_DATA,
                       "tensor blk.%d.attn_kv_b.weight must have %" PRId64 " rows of %" PRId64
                       " values and a supported type",
                       block, d[HD_KV_B], s.rank);
    void *k_b = data ? key_rows(&s, type, e) : NULL;
    if (data && !k_b) return ERR_SYS;
    TRY(add_weight(m, "attn_k_b", block, key, type, k_b, e));
    void *v_b = data ? value_rows(&s, e) : NULL;
    if (data && !v_b) return ERR_SYS;
    return add_weight(m, "attn_v_b", block, value, all->type, v_b, e);
}

int model_make_weights(struct model *m, bool data, struct err *e) {
    const int n = (int)m->hp.d[HD_LAYERS];
    int rc = 0;
    if (!m->hp.d[HD_KV_B]) return 0;
    m->made = xcalloc(2 * (size_t)n, sizeof *m->made);
    struct kern *k = xcalloc(1, sizeof *k);
    kern_init(k, KERN_REF);
    for (int i = 0; i < n && !rc; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_kv_b.weight", i);
        const struct gguf_tensor *t = gguf_find_tensor(m->gguf, name);
        snprintf(name, sizeof name, "blk.%d.attn_kv_a_norm.weight", i);
        const struct gguf_tensor *norm = gguf_find_tensor(m->gguf, name);
        /* Dequantized keys get the type of the file's norms. */
        const struct qtype_info *floats = norm ? qtype_info(norm->type) : NULL;
        if (!t || !floats || floats->block_elems != 1 || floats->block_bytes != sizeof(float))
            rc = err_set(e, ERR_DATA,
                         "block %d lacks attn_kv_b, or an f32 norm before it: the file is "
                         "incomplete",
                         i);
        else
            rc = split_block(m, i, &m->tensor[t - gguf_tensor_at(m->gguf, 0)], norm->type, k, data,
                             e);
    }
    free(k);
    return rc;
}
