// SPDX-License-Identifier: MIT
/* quantize/learn.h - scales of encoded blocks that follow gradients, while codes stay.
 *
 * A weight is d sc q - m mn. Only d and m change, two numbers per block: a step moves their
 * relative changes by Adam's rule and rounds to f16. Blocks keep their type and size. */
#ifndef HONE_QUANTIZE_LEARN_H
#define HONE_QUANTIZE_LEARN_H

#include "base/err.h"
#include "containers/qtype.h"

struct learned;
/* Returns whether blocks of this type can be learned: Q2_K and Q3_K. */
bool learn_can(enum qtype type);
/* Starts from the blocks of a tensor. */
int learn_new(struct learned **out, enum qtype type, const void *blocks, int64_t n_blocks,
              struct err *e);
void learn_free(struct learned *l);
/* Changes blocks b0 to b1 - 1 (at `blocks` + b0) against g, the gradient of their weights. rate:
 * relative step of d and m. step: 1 for the first call for these blocks, then 2, 3 and so on. The
 * bytes do not depend on how blocks are divided. */
void learn_step(struct learned *l, int64_t b0, int64_t b1, const float *g, double rate, int step,
                void *blocks);

#endif
