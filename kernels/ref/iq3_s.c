// SPDX-License-Identifier: MIT
/* kernels/ref/iq3_s.c - IQ3_S: 256 weights in 110 bytes, 8 sub-blocks of 32.
 * w = d * (2s+1) * level * sign. A 9-bit grid index per 4 weights, 8 explicit signs per 8. */
#include "kernels/ops.h"
#include "kernels/ref/iq.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const void *blk, const struct kern_grid *g, int i) {
    const struct blk_IQ3_S *x = blk;
    const int h = i / 4;
    const int index = x->qs[h] | ((x->qh[h / 8] >> (h % 8)) & 1) << 8;
    const int level = g->iq3_s[index][i % 4];
    return (x->signs[i / 8] >> (i % 8)) & 1 ? -level : level;
}

/* Returns the integer scale of part k of the block. */
static int scale(const void *blk, int k) {
    const struct blk_IQ3_S *x = blk;
    return 2 * ((x->scales[k / 2] >> (4 * (k % 2))) & 15) + 1;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ3_S), 32, 1.0f, dst, n, iq_first, scale, code);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ3_S), 32, 1.0f, a, n, iq_first, scale, code);
}

const struct kern_ops kern_ref_IQ3_S = {.decode = decode, .dot = dot};
