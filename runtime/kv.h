// SPDX-License-Identifier: MIT
/* runtime/kv.h - keys and values of the attention layers. Rows of head_dim per (slot, kv head,
 * position), in F32, F16 or Q8_0; a head's rows lie one after the other so that a block of keys is
 * one matrix. Internal to runtime/. */
#ifndef HONE_RUNTIME_KV_H
#define HONE_RUNTIME_KV_H

#include "core/err.h"
#include "kernels/kern.h"
#include "models/graph.h"

struct kv_slot {
    int64_t n_heads, k_dim, v_dim;
    uint64_t k_row, v_row; /* bytes */
    uint8_t *k, *v;        /* [n_heads][n_ctx] rows */
};
struct kv {
    enum qtype type;
    int64_t n_ctx;
    int n_slots;
    struct kv_slot *slot;
    uint64_t n_bytes;
};
int kv_init(struct kv *c, const struct graph *g, int64_t n_ctx, enum qtype type, struct err *e);
void kv_release(struct kv *c);
/* One f32 row into the cache. */
void kv_put(const struct kern *k, enum qtype type, const float *x, uint8_t *row, int64_t n);
/* n rows at `rows` as f32 [n][dim]: a pointer into the cache when it is f32, else decoded to
 * scratch. */
const float *kv_rows(const struct kern *k, enum qtype type, const uint8_t *rows, uint64_t row_bytes,
                     int64_t n, int64_t dim, float *scratch);

#endif
