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
/* Returns whether the codes of this type's blocks can be learned. */
bool learn_can_codes(enum qtype type);
/* Lets codes follow gradients as well (learn_codes.h). */
int learn_codes(struct learned *l, struct err *e);
/* Sets the original weights x of blocks b0 to b1 - 1; call it for all blocks before the first
 * step. */
void learn_codes_begin(struct learned *l, int64_t b0, int64_t b1, const float *x,
                       const void *blocks);
struct learn_rate {
    double scale; /* relative step of d and dmin */
    double code;  /* step of codes, in levels; learn_codes */
};
/* Changes blocks b0 to b1 - 1 of the tensor at `blocks` against g, the gradient of these blocks'
 * weights. step: 1 for the first call for these blocks, then 2, 3 and so on. The bytes do not
 * depend on how blocks are divided. */
void learn_step(struct learned *l, int64_t b0, int64_t b1, const float *g, struct learn_rate rate,
                int step, void *blocks);

#endif
