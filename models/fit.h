// SPDX-License-Identifier: MIT
/* models/fit.h - which context, blocks and experts fit in the memory of a device. Pure
 * arithmetic. */
#ifndef HONE_MODELS_FIT_H
#define HONE_MODELS_FIT_H

#include "models/sizes.h"

struct fit_ask {
    uint64_t memory;  /* bytes on the device */
    uint64_t reserve; /* bytes to keep free */
    int64_t n_ctx;    /* tokens per slot */
    int64_t n_slots;
    enum qtype kv_type;
    struct kv_rows rows; /* replaces kv_type, unless its function is NULL */
};
/* Returns how much device memory to keep free by default: 1 GiB, or 1/8 on devices under 8 GiB. */
uint64_t fit_reserve(uint64_t memory);
struct fit_use { /* bytes on the device */
    uint64_t weights, kv, state, compute, total;
};
/* Computes the device memory used by blocks [first, n), the MTP blocks and the head, if the experts
 * of the first n_cpu_experts blocks stay in main memory. Returns false if the type of keys and
 * values does not suit these heads, or on overflow. */
bool fit_use(const struct sizes *z, const struct fit_ask *a, int first, int n_cpu_experts,
             struct fit_use *u);

enum fit_way {
    FIT_ALL,     /* everything on the device */
    FIT_EXPERTS, /* experts of the first `n` blocks in main memory */
    FIT_BLOCKS,  /* head and last `n` blocks on the device, without their routed experts */
    FIT_NONE
};
struct fit {
    enum fit_way way;
    int n;
    struct fit_use use;
    uint64_t host; /* bytes in main memory: the rest of the weights, of the cache and of states */
    /* Most tokens per slot with everything on the device, limited to the trained or requested
     * context; 0: none. */
    int64_t max_ctx;
};
/* Finds the best way to fit the model on the card (*f). False: sizes overflow. */
bool fit_find(const struct sizes *z, const struct fit_ask *a, struct fit *f);
/* Estimates the working memory in bytes of other engines' GPU backends during a pass of 512 tokens:
 * logits and a few activations. The estimate is within 10 % of the buffers measured on the models
 * tested. */
uint64_t fit_compute(const struct sizes *z);

#endif
