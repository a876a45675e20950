// SPDX-License-Identifier: MIT
/* mix/learn_set.h - tensors of a model that are learned, with the sums of their gradients.
 * Internal to mix/learn*.c. */
#ifndef HONE_MIX_LEARN_SET_H
#define HONE_MIX_LEARN_SET_H

#include "base/num.h"
#include "grad/grad.h"
#include "kernels/kern.h"
#include "mix/learn.h"

/* Chunks per step; every HELD-th chunk is held out. */
enum { LEARN_BATCH = 2, LEARN_HELD = LEARN_LEAST_CHUNKS };

struct learn_one { /* a tensor */
    const struct gr_weight *w;
    struct learned *l;
    uint8_t *data, *best;    /* blocks: current, and of the best state so far */
    float *d;                /* gradient of the batch */
    int64_t n_blocks, block; /* blocks, and weights of each */
    uint64_t n_bytes;
};
struct learn_set {
    struct learn_one *v;
    int n;
    int64_t n_weights;
    struct kern kern;
    struct pool *pool;
    struct dev_product *products;
    float *scratch; /* [workers][panel][most tokens] */
    int64_t most;
};
/* Prepares for at most o->n_tensors tensors and texts of up to o->ctx tokens. */
void learn_set_init(struct learn_set *s, const struct learn_opts *o);
void learn_set_release(struct learn_set *s);
/* Adds an encoded tensor or a vector of model `now`, unless it cannot be learned, or is an
 * embedding or the head. With `base`, its codes are learned as well, if they can be. */
int learn_set_add(struct learn_set *s, const struct model *now, const struct model *base,
                  const struct learn_tensor *from, struct err *e);
/* Lets a text's gradients be added to those of the tensors, and the set's device compute products.
 */
void learn_set_observe(struct learn_set *s, struct grad *g);
/* Multiplies the gradients by `by`, changes all tensors against them, and clears them. */
void learn_set_step(struct learn_set *s, float by, struct learn_rate rate, int step);
/* Keeps the current state as the best one; or returns to the best one. */
void learn_set_keep(struct learn_set *s);
void learn_set_return(struct learn_set *s);

/* Returns whether a chunk is held out. */
static inline bool learn_is_held(int64_t chunk) {
    return chunk % LEARN_HELD == LEARN_HELD - 1;
}
/* Returns the n chunks that are not held out, in an order that depends only on their number. */
int64_t *learn_order(int64_t n_chunks, int64_t *n);

#endif
