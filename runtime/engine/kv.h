// SPDX-License-Identifier: MIT
/* runtime/engine/kv.h - shapes of the KV cache and access to its rows. A row is the key or value of
 * one head at one position, encoded by the slot's types (kv_type.h). The memory is owned by
 * runtime/engine/cache.h or a device. Internal to runtime/. */
#ifndef HONE_RUNTIME_ENGINE_KV_H
#define HONE_RUNTIME_ENGINE_KV_H

#include "base/err.h"
#include "models/graph.h"
#include "runtime/engine/kv_type.h"

struct kv_slot { /* n_heads 0: no layer stores keys in this slot */
    const struct kv_type *kt, *vt;
    int64_t n_heads, k_dim, v_dim;
    int64_t window;        /* visible positions including the query's own; 0: all */
    uint64_t k_row, v_row; /* bytes of a row */
};
struct kv {
    int64_t n_ctx; /* longest sequence */
    int n_slots;
    struct kv_slot *slot;
    uint64_t n_bytes; /* n_ctx rows in every slot */
};
struct kv_plan { /* types of keys and values; different ones for the first and last n_edge slots */
    const struct kv_type *k, *v, *edge_k, *edge_v;
    int64_t n_edge;
};
/* Initializes shapes and types of every slot. ERR_USAGE: a type does not fit the heads, or n_ctx is
 * too large. Call kv_release even after an error. */
int kv_init(struct kv *c, const struct graph *g, int64_t n_ctx, const struct kv_plan *plan,
            struct err *e);
void kv_release(struct kv *c);
/* Encodes one f32 row into the cache, rotating it if the type is rotated. */
void kv_put(const struct kern *k, const struct kv_type *t, const float *x, uint8_t *row, int64_t n,
            bool is_value);
/* Returns n rows at `rows` as f32 [n][dim], still rotated if the type is rotated. They are decoded
 * into scratch; for an f32 cache they are returned in place. */
const float *kv_rows(const struct kern *k, const struct kv_type *t, const uint8_t *rows,
                     uint64_t row_bytes, int64_t n, int64_t dim, bool is_value, float *scratch);

#endif
