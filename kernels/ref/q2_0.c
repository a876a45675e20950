// SPDX-License-Identifier: MIT
/* kernels/ref/q2_0.c - Q2_0: 64 weights in 18 bytes. w = d * (q - 1), q 0..3. */
#include "base/fp.h"
#include "kernels/ops.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_Q2_0 *x, int i) {
    return ((x->qs[i / 4] >> (2 * (i % 4))) & 3) - 1;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q2_0 *x = blk;
    for (int64_t b = 0; b < n / 64; b++, x++, dst += 64)
        for (int i = 0; i < 64; i++) dst[i] = fp_f16_to_f32(x->d) * (float)code(x, i);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q2_0 *x = w;
    const struct blk_Q8_0 *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / 32; b++, y++) {
        int s = 0;
        for (int i = 0; i < 32; i++) s += code(x + b / 2, (int)(b % 2) * 32 + i) * y->qs[i];
        sum += (double)fp_f16_to_f32(x[b / 2].d) * (double)fp_f16_to_f32(y->d) * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_Q2_0 = {.decode = decode, .dot = dot};
