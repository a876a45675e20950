// SPDX-License-Identifier: MIT
/* quantize/learn.h - scales of encoded super-blocks that follow gradients, while codes stay.
 *
 * A weight is d a - dmin b, where a and b come from the block's other bits (b: only in types with
 * minima). Only d and dmin change, one or two numbers per 256 weights: a step moves their relative
 * changes by Adam's rule and rounds to f16. Blocks keep their type and size. */
#ifndef HONE_QUANTIZE_LEARN_H
#define HONE_QUANTIZE_LEARN_H

#include "base/err.h"
#include "containers/qtype.h"

struct learned;
/* Returns whether blocks of this type can be learned: they have 256 weights and scales in f16. */
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

#endif
