// SPDX-License-Identifier: MIT
/* kernels/ref/tq2_0.c - TQ2_0: 256 weights in 66 bytes, each -d, 0 or d; code 3 decodes to 2*d. */
#include "base/fp.h"
#include "kernels/ops.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_TQ2_0 *x, int i) {
    return ((x->qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3) - 1;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_TQ2_0 *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK)
        for (int i = 0; i < QK; i++) dst[i] = fp_f16_to_f32(x->d) * (float)code(x, i);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_TQ2_0 *x = w;
    const struct blk_Q8_K *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        int s = 0;
        for (int i = 0; i < QK; i++) s += code(x, i) * y->qs[i];
        sum += (double)fp_f16_to_f32(x->d) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_TQ2_0 = {.decode = decode, .dot = dot};
