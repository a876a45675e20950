// SPDX-License-Identifier: MIT
/* kernels/ref/tq1_0.c - TQ1_0: 256 weights in 54 bytes, each -d, 0 or d, five per byte. */
#include "base/fp.h"
#include "kernels/ops.h"

/* Returns base-3 digit t of a byte, read as a fraction of 256: the carry of 3 * (3^t * byte mod
 * 256). */
static int trit(uint8_t byte, int t) {
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    const uint8_t rest = (uint8_t)(byte * pow3[t]);
    return (rest * 3) >> 8;
}

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_TQ1_0 *x, int i) {
    if (i < 160) return trit(x->qs[i % 32], i / 32) - 1;
    if (i < 240) return trit(x->qs[32 + (i - 160) % 16], (i - 160) / 16) - 1;
    return trit(x->qh[(i - 240) % 4], (i - 240) / 4) - 1;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_TQ1_0 *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK)
        for (int i = 0; i < QK; i++) dst[i] = fp_f16_to_f32(x->d) * (float)code(x, i);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_TQ1_0 *x = w;
    const struct blk_Q8_K *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        int s = 0;
        for (int i = 0; i < QK; i++) s += code(x, i) * y->qs[i];
        sum += (double)fp_f16_to_f32(x->d) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_TQ1_0 = {.decode = decode, .dot = dot};
