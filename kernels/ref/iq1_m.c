// SPDX-License-Identifier: MIT
/* kernels/ref/iq1_m.c - IQ1_M: 256 weights in 56 bytes, 16 sub-blocks of 16.
 * w = d/8 * (2s+1) * (8v +- 1), v of -1, 0, 1. Per 8 weights: an 11-bit grid index and the sign
 * of the shift. s has 3 bits; d is split over the top nibbles of the four scale words. */
#include "kernels/codebook.h"
#include "kernels/ops.h"
#include "kernels/ref/iq.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const void *blk, const struct kern_grid *g, int i) {
    const struct blk_IQ1_M *x = blk;
    const int h = i / 8, high = x->qh[h / 2] >> (4 * (h % 2)) & 15;
    return g->iq1[(x->qs[h] | (high & 7) << 8) + (high & 8 ? KERN_IQ1 : 0)][i % 8];
}

/* Returns the integer scale of part k of the block. */
static int scale(const void *blk, int k) {
    const struct blk_IQ1_M *x = blk;
    return 2 * (load_u16(x->scales + 2 * (k / 4)) >> (3 * (k % 4)) & 7) + 1;
}

/* Returns the block's scale, whose f16 bits are spread over the block. */
static uint16_t super(const void *blk) {
    return kern_iq1_m_d(blk);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ1_M), 16, 0.125f, dst, n, super, scale, code);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ1_M), 16, 0.125f, a, n, super, scale, code);
}

const struct kern_ops kern_ref_IQ1_M = {.decode = decode, .dot = dot};
