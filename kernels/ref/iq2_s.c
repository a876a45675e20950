// SPDX-License-Identifier: MIT
/* kernels/ref/iq2_s.c - IQ2_S: 256 weights in 82 bytes, 16 sub-blocks of 16.
 * w = d/8 * (2s+1) * level * sign. Per 8 weights: a 10-bit grid index and 8 explicit signs. */
#include "kernels/ops.h"
#include "kernels/ref/iq.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const void *blk, const struct kern_grid *g, int i) {
    const struct blk_IQ2_S *x = blk;
    const int h = i / 8, j = i % 8;
    const int index = x->qs[h] | ((x->qh[h / 4] >> (2 * (h % 4))) & 3) << 8;
    const int level = g->iq2_s[index][j];
    return (x->qs[32 + h] >> j) & 1 ? -level : level;
}

/* Returns the integer scale of part k of the block. */
static int scale(const void *blk, int k) {
    const struct blk_IQ2_S *x = blk;
    return 2 * ((x->scales[k / 2] >> (4 * (k % 2))) & 15) + 1;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ2_S), 16, 0.125f, dst, n, iq_first, scale, code);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ2_S), 16, 0.125f, a, n, iq_first, scale, code);
}

const struct kern_ops kern_ref_IQ2_S = {.decode = decode, .dot = dot};
