// SPDX-License-Identifier: MIT
/* models/fit.h - what of a model fits into a device's memory: how much context, which blocks, which
 * experts stay outside. Arithmetic only. */
#ifndef HONE_MODELS_FIT_H
#define HONE_MODELS_FIT_H

#include "models/sizes.h"

struct fit_ask {
    uint64_t memory;  /* of the device */
    uint64_t reserve; /* kept free */
    int64_t n_ctx;    /* tokens per slot */
    int64_t n_slots;
    enum qtype kv_type;
    struct kv_rows rows; /* instead of kv_type, unless its function is NULL */
};
/* Returns the bytes that are kept free of a device unless somebody says otherwise: 1 GiB, of
 * devices under 8 GiB an eighth. */
uint64_t fit_reserve(uint64_t memory);
struct fit_use { /* bytes on the device */
    uint64_t weights, kv, state, compute, total;
};
/* Computes what lies on the device when it holds blocks [first, n), with the experts of the first
 * n_cpu_experts blocks outside. Returns false when the type of keys and values does not suit these
 * heads, or the sum is too large to count. */
bool fit_use(const struct sizes *z, const struct fit_ask *a, int first, int n_cpu_experts,
             struct fit_use *u);

enum fit_way {
    FIT_ALL,     /* everything on the device */
    FIT_EXPERTS, /* experts of the first `n` blocks in main memory */
    FIT_BLOCKS,  /* the last `n` blocks on the device, without their routed experts; no head */
    FIT_NONE
};
struct fit {
    enum fit_way way;
    int n;
    struct fit_use use;
    int64_t max_ctx; /* tokens per slot with everything on the device, at most as trained or as
                        asked for; 0: none */
};
bool fit_find(const struct sizes *z, const struct fit_ask *a, struct fit *f);
/* Returns the working memory, in bytes, that other engines' GPU backends need for a pass of 512
 * tokens: logits and a few activations. It is an estimate: measured buffers are within a tenth for
 * the models it was checked on. */
uint64_t fit_compute(const struct sizes *z);

#endif
