// SPDX-License-Identifier: MIT
/* kernels/ref/q4_1.c - Q4_1: 32 weights in 20 bytes.
 * w = d * q + m, q 0..15.   (docs/formats/legacy-blocks.md) */
#include "base/fp.h"
#include "kernels/ops.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_Q4_1 *x, int i) {
    const int q = i < 16 ? x->qs[i] & 15 : x->qs[i - 16] >> 4;
    return q;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q4_1 *x = blk;
    for (int64_t b = 0; b < n / 32; b++, x++, dst += 32) {
        const float d = fp_f16_to_f32(x->d);
        const float m = fp_f16_to_f32(x->m);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)code(x, i) + m;
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q4_1 *x = w;
    const struct blk_Q8_1 *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / 32; b++, x++, y++) {
        int s = 0;
        for (int i = 0; i < 32; i++) s += code(x, i) * y->qs[i];
        const double d = (double)fp_f16_to_f32(x->d) * (double)fp_f16_to_f32(y->d);
        sum += d * s + (double)fp_f16_to_f32(x->m) * (double)fp_f16_to_f32(y->s);
    }
    return (float)sum;
}

const struct kern_ops kern_ref_Q4_1 = {.decode = decode, .dot = dot};
