// SPDX-License-Identifier: MIT
/* kernels/ref/iq3_xxs.c - IQ3_XXS: 256 weights in 98 bytes, 8 sub-blocks of 32.
 * w = d/4 * (2s+1) * level * sign. An 8-bit grid index per 4 weights, a 7-bit sign index per 8. */
#include "kernels/ops.h"
#include "kernels/ref/iq.h"

static uint32_t word(const struct blk_IQ3_XXS *x, int k) {
    return load_u32(x->qs + 64 + 4 * k);
}

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const void *blk, const struct kern_grid *g, int i) {
    const struct blk_IQ3_XXS *x = blk;
    const int level = g->iq3_xxs[x->qs[i / 4]][i % 4];
    const uint8_t signs = g->sign[(word(x, i / 32) >> (7 * (i % 32 / 8))) & 127];
    return (signs >> (i % 8)) & 1 ? -level : level;
}

/* Returns the integer scale of part k of the block. */
static int scale(const void *blk, int k) {
    const struct blk_IQ3_XXS *x = blk;
    return (int)(2 * (word(x, k) >> 28) + 1);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ3_XXS), 32, 0.25f, dst, n, iq_first, scale, code);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ3_XXS), 32, 0.25f, a, n, iq_first, scale, code);
}

const struct kern_ops kern_ref_IQ3_XXS = {.decode = decode, .dot = dot};
