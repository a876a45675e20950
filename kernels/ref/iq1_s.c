// SPDX-License-Identifier: MIT
/* kernels/ref/iq1_s.c - IQ1_S: 256 weights in 50 bytes, 8 sub-blocks of 32.
 * w = d/8 * (2s+1) * (8v +- 1), v of -1, 0, 1. Per 32 weights: four 11-bit grid indices, whose
 * high bits share a word with s (3 bits) and the sign of the shift. */
#include "kernels/ops.h"
#include "kernels/ref/iq.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const void *blk, const struct kern_grid *g, int i) {
    const struct blk_IQ1_S *x = blk;
    const int k = i / 32, l = i % 32 / 8, word = x->qh[k];
    const int index = x->qs[i / 8] | ((word >> (3 * l)) & 7) << 8;
    return g->iq1[index + (word >> 15 ? KERN_IQ1 : 0)][i % 8];
}

/* Returns the integer scale of part k of the block. */
static int scale(const void *blk, int k) {
    const struct blk_IQ1_S *x = blk;
    return 2 * ((x->qh[k] >> 12) & 7) + 1;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ1_S), 32, 0.125f, dst, n, iq_first, scale, code);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ1_S), 32, 0.125f, a, n, iq_first, scale, code);
}

const struct kern_ops kern_ref_IQ1_S = {.decode = decode, .dot = dot};
