// SPDX-License-Identifier: MIT
/* kernels/ref/iq2_xxs.c - IQ2_XXS: 256 weights in 66 bytes, 8 sub-blocks of 32.
 * w = d/8 * (2s+1) * level * sign. Per 32 weights: 4 grid indices, 4 sign indices and s, in 8
 * bytes. */
#include "kernels/ops.h"
#include "kernels/ref/iq.h"

/* Returns a word of sub-block k: 0 for the grid indices, 1 for signs and scale. */
static uint32_t word(const struct blk_IQ2_XXS *x, int k, int which) {
    return load_u32((const uint8_t *)x->qs + 8 * k + 4 * which);
}

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const void *blk, const struct kern_grid *g, int i) {
    const struct blk_IQ2_XXS *x = blk;
    const int k = i / 32, l = i % 32 / 8, j = i % 8;
    const uint8_t index = (uint8_t)(word(x, k, 0) >> (8 * l));
    const uint8_t signs = g->sign[(word(x, k, 1) >> (7 * l)) & 127];
    const int level = g->iq2_xxs[index][j];
    return (signs >> j) & 1 ? -level : level;
}

/* Returns the integer scale of part k of the block. */
static int scale(const void *blk, int k) {
    const struct blk_IQ2_XXS *x = blk;
    return (int)(2 * (word(x, k, 1) >> 28) + 1);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ2_XXS), 32, 0.125f, dst, n, iq_first, scale, code);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ2_XXS), 32, 0.125f, a, n, iq_first, scale, code);
}

const struct kern_ops kern_ref_IQ2_XXS = {.decode = decode, .dot = dot};
