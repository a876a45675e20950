// SPDX-License-Identifier: MIT
/* quantize/learn_codes.h - codes of encoded blocks that follow gradients, by a straight-through
 * estimate. Internal to quantize/learn*.c.
 *
 * Each weight has a latent: a code that may be between levels, in units of its block's step. Its
 * gradient is that of the weight. After each step, each code is set to the level nearest to its
 * latent. In grid types, the signs are those of the latents, and each entry is the nearest one of
 * the grid. The step is Adam's, but with one mean square per block instead of one per weight, so
 * that weights that hardly matter hardly move. */
#ifndef HONE_QUANTIZE_LEARN_CODES_H
#define HONE_QUANTIZE_LEARN_CODES_H

#include "quantize/learn.h"

/* Averages of Adam's rule: of gradients, and of their squares. */
#define KEEP_MEAN 0.9
#define KEEP_SQUARE 0.99
struct learn_pace { /* of one step */
    struct learn_rate rate;
    double mean, square; /* sums of the averages' coefficients so far, up to 1 */
};
struct codes;
/* Prepares for n_blocks blocks of a type with learn_can_codes. */
int codes_new(struct codes **out, enum qtype type, int64_t n_blocks, struct err *e);
void codes_free(struct codes *c);
/* Sets the latents of blocks b0 to b1 - 1 of the tensor at `blocks`, whose original weights are x,
 * close to these, but not past the point where a code would change. */
void codes_begin(struct codes *c, int64_t b0, int64_t b1, const float *x, const void *blocks);
/* Moves the latents of block b, which is at blk, against the gradients g of its weights, and sets
 * its codes. */
void codes_move(struct codes *c, int64_t b, const float *g, const struct learn_pace *p,
                uint8_t *blk);

#endif
