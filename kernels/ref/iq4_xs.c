// SPDX-License-Identifier: MIT
/* kernels/ref/iq4_xs.c - IQ4_XS: 256 weights in 136 bytes, 8 sub-blocks of 32.
 * w = d * sc[k] * T[q]; sc -32..31, T the 16 levels of codebook.h.   (docs/formats/iq4.md) */
#include "base/fp.h"
#include "kernels/ops.h"
#include "kernels/codebook.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_IQ4_XS *x, int i) {
    const uint8_t byte = x->qs[i / 32 * 16 + i % 16];
    return kern_iq4_level[i % 32 < 16 ? byte & 15 : byte >> 4];
}

/* Returns the integer scale of part k of the block. */
static int scale(const struct blk_IQ4_XS *x, int k) {
    const int low = (x->scales_l[k / 2] >> (4 * (k % 2))) & 15;
    const int high = (x->scales_h >> (2 * k)) & 3;
    return (low | high << 4) - 32;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ4_XS *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 32) * (float)code(x, i);
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ4_XS *x = w;
    const struct blk_Q8_K *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        int s = 0;
        for (int k = 0; k < QK / 32; k++) {
            int sk = 0;
            for (int i = 32 * k; i < 32 * (k + 1); i++) sk += code(x, i) * y->qs[i];
            s += scale(x, k) * sk;
        }
        sum += (double)fp_f16_to_f32(x->d) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_IQ4_XS = {.decode = decode, .dot = dot};
