// SPDX-License-Identifier: MIT
/* runtime/kv.h - keys and values of the attention layers. Rows of head_dim per (slot, kv head,
 * position), stored as the slot's types say (kv_type.h); a head's rows lie one after the other so
 * that a block of keys is one matrix. Internal to runtime/. */
#ifndef HONE_RUNTIME_KV_H
#define HONE_RUNTIME_KV_H

#include "core/err.h"
#include "models/graph.h"
#include "runtime/kv_type.h"

struct kv_slot {
    const struct kv_type *kt, *vt;
    int64_t n_heads, k_dim, v_dim;
    uint64_t k_row, v_row; /* bytes */
    uint8_t *k, *v;        /* [n_heads][n_ctx] rows */
};
struct kv {
    int64_t n_ctx;
    int n_slots;
    struct kv_slot *slot;
    uint64_t n_bytes;
};
struct kv_plan { /* types of keys and values; the first and last n_edge slots have their own */
    const struct kv_type *k, *v, *edge_k, *edge_v;
    int64_t n_edge;
};
/* Shapes, types and n_bytes of every slot; kv_alloc the memory, in the caller's own (k and v are
 * NULL before it, and stay so when a device keeps them). */
int kv_init(struct kv *c, const struct graph *g, int64_t n_ctx, const struct kv_plan *plan,
            struct err *e);
int kv_alloc(struct kv *c, struct err *e);
void kv_release(struct kv *c);
/* One f32 row into the cache, rotated if the type is. */
void kv_put(const struct kern *k, const struct kv_type *t, const float *x, uint8_t *row, int64_t n,
            bool is_value);
/* n rows at `rows` as f32 [n][dim], as stored: rotated if the type is. A pointer into the cache
 * when it is f32, else decoded to scratch. */
const float *kv_rows(const struct kern *k, const struct kv_type *t, const uint8_t *rows,
                     uint64_t row_bytes, int64_t n, int64_t dim, bool is_value, float *scratch);

#endif
