// SPDX-License-Identifier: MIT
/* quantize/learn.h - scales of encoded blocks that follow gradients, while codes stay.
 *
 * A weight is d a - dmin b, where a and b come from the block's other bits (b: only in types with
 * minima). Only d and dmin change, one or two numbers per block: a step moves their relative
 * changes by Adam's rule and rounds to f16. Blocks keep their type and size. An F32 vector (the
 * factors of a norm, a bias) is a tensor whose blocks are single values: each is its own scale. */
#ifndef HONE_QUANTIZE_LEARN_H
#define HONE_QUANTIZE_LEARN_H

#include "base/err.h"
#include "containers/qtype.h"

/* Range of a relative change. */
#define LEARN_LEAST (-0.5)
#define LEARN_MOST 1.0
/* Relative changes of a tensor's scales; a replay applies them to the same blocks. */
struct learn_changes {
    char *name; /* of the tensor */
    enum qtype type;
    float *v; /* [blocks][scales of a block] */
    int64_t n;
};
/* Returns whether a tensor is a vector whose values can be learned. */
bool learn_is_vector(enum qtype type, const int64_t ne[4]);
struct learned;
/* Returns whether blocks of this type can be learned: their scales are in f16, or they are single
 * F32 values. */
bool learn_can(enum qtype type);
/* Starts from the blocks of a tensor. ERR_USAGE: a type that cannot be learned. */
int learn_new(struct learned **out, enum qtype type, const void *blocks, int64_t n_blocks,
              struct err *e);
void learn_free(struct learned *l);
/* Changes blocks b0 to b1 - 1 of the tensor at `blocks` against g, the gradient of these blocks'
 * weights. rate: relative step of d and dmin. step: 1 for the first call for these blocks, then 2,
 * 3 and so on. The bytes do not depend on how blocks are divided. */
void learn_step(struct learned *l, int64_t b0, int64_t b1, const float *g, double rate, int step,
                void *blocks);

/* Sets out [blocks][scales of a block] to the changes so far. */
void learn_result(const struct learned *l, float *out);
/* Returns the number of scales in n_blocks blocks of a type that can be learned. */
int64_t learn_scales(enum qtype type, int64_t n_blocks);
/* Applies changes to the blocks from which learning started: gives the bytes of the last step. */
void learn_apply(enum qtype type, const float *change, int64_t n_blocks, void *blocks);

#endif
