// SPDX-License-Identifier: MIT
/* runtime/engine/kv.c - shapes of key and value slots, and access to their rows (kv.h). */
#include "runtime/engine/kv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* Sets *out to the size of n values of type t. ERR_USAGE: n is not a multiple of its block. */
static int row_bytes(const struct kv_type *t, int64_t n, uint64_t *out, struct err *e) {
    *out = n % t->block == 0 ? t->row_bytes(t, n) : 0;
    if (*out) return 0;
    return err_set(e, ERR_USAGE,
                   "KV cache type %s requires heads of a multiple of %" PRId32
                   " values, but these have %" PRId64 ": use --kv-type f16 or f32",
                   t->name, t->block, n);
}

/* Sets the shape and row sizes of a slot and adds the bytes of n_ctx tokens to c. */
static int slot_shape(struct kv *c, struct kv_slot *s, const struct gr_kv *shape, struct err *e) {
    s->n_heads = shape->top && c->n_ctx <= shape->top ? 0 : shape->n_heads;
    s->k_dim = shape->k_dim;
    s->v_dim = shape->v_dim;
    s->window = shape->window;
    TRY(row_bytes(s->kt, s->k_dim, &s->k_row, e));
    if (s->v_dim) TRY(row_bytes(s->vt, s->v_dim, &s->v_row, e)); /* an indexer has no values */
    uint64_t rows, kb, vb;
    if (!mul_ok((uint64_t)s->n_heads, (uint64_t)c->n_ctx, &rows) || !mul_ok(rows, s->k_row, &kb) ||
        !mul_ok(rows, s->v_row, &vb))
        return err_set(e, ERR_USAGE, "a context of %" PRId64 " tokens is too large", c->n_ctx);
    c->n_bytes += kb + vb;
    return 0;
}

int kv_init(struct kv *c, const struct graph *g, int64_t n_ctx, const struct kv_plan *plan,
            struct err *e) {
    memset(c, 0, sizeof *c);
    c->n_ctx = n_ctx;
    c->n_slots = g->n_attn_slots;
    c->slot = xcalloc((size_t)c->n_slots + 1, sizeof *c->slot);
    for (int i = 0; i < c->n_slots; i++) {
        bool edge = i < plan->n_edge || i >= c->n_slots - plan->n_edge;
        c->slot[i].kt = edge ? plan->edge_k : plan->k;
        c->slot[i].vt = edge ? plan->edge_v : plan->v;
        /* Rounded keys of an indexer would select others, and they are a small part of the cache.
         */
        if (g->facts.kv[i].top && c->slot[i].kt->type != QT_F32)
            c->slot[i].kt = kv_type_find(KV_USUAL);
        TRY(slot_shape(c, &c->slot[i], &g->facts.kv[i], e));
    }
    return 0;
}

void kv_release(struct kv *c) {
    free(c->slot);
    memset(c, 0, sizeof *c);
}

void kv_put(const struct kern *k, const struct kv_type *t, const float *x, uint8_t *row, int64_t n,
            bool is_value) {
    float turned[KV_MAX_DIM];
    if (t->rotated) { /* row_bytes has rejected longer rows */
        memcpy(turned, x, (size_t)n * sizeof *x);
        kv_turn(t, turned, n, is_value);
        x = turned;
    }
    t->put(t, k, x, row, n, is_value);
}

const float *kv_rows(const struct kern *k, const struct kv_type *t, const uint8_t *rows,
                     uint64_t stride, int64_t n, int64_t dim, bool is_value, float *scratch) {
    if (t->type == QT_F32) return (const float *)(const void *)rows;
    for (int64_t i = 0; i < n; i++)
        t->get(t, k, rows + (uint64_t)i * stride, scratch + i * dim, dim, is_value);
    return scratch;
}
