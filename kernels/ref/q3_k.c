// SPDX-License-Identifier: MIT
/* kernels/ref/q3_k.c - Q3_K: 256 weights in 110 bytes, 16 sub-blocks of 16.
 * w = d * sc[k] * q; q -4..3, sc -32..31.   (docs/formats/k-quants.md) */
#include "base/fp.h"
#include "kernels/ops.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_Q3_K *x, int i) {
    const int half = i / 128, plane = i % 128 / 32, l = i % 32;
    const int low = (x->qs[32 * half + l] >> (2 * plane)) & 3;
    const int high = (x->hmask[l] >> (i / 32)) & 1;
    return (low | high << 2) - 4;
}

/* Returns the integer scale of part k of the block. */
static int scale(const struct blk_Q3_K *x, int k) {
    const int low = k < 8 ? x->scales[k] & 15 : x->scales[k - 8] >> 4;
    const int high = (x->scales[8 + k % 4] >> (2 * (k / 4))) & 3;
    return (low | high << 4) - 32;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q3_K *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 16) * (float)code(x, i);
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q3_K *x = w;
    const struct blk_Q8_K *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        int s = 0;
        for (int k = 0; k < QK / 16; k++) {
            int sk = 0;
            for (int i = 16 * k; i < 16 * (k + 1); i++) sk += code(x, i) * y->qs[i];
            s += scale(x, k) * sk;
        }
        sum += (double)fp_f16_to_f32(x->d) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_Q3_K = {.decode = decode, .dot = dot};
