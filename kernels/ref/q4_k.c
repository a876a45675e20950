// SPDX-License-Identifier: MIT
/* kernels/ref/q4_k.c - Q4_K: 256 weights in 144 bytes, 8 sub-blocks of 32.
 * w = d * sc[k] * q - dmin * m[k]; q 0..15, sc and m 0..63.   (docs/formats/k-quants.md) */
#include "base/fp.h"
#include "kernels/ops.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_Q4_K *x, int i) {
    const uint8_t byte = x->qs[i / 64 * 32 + i % 32];
    return i % 64 < 32 ? byte & 15 : byte >> 4;
}

/* Returns the integer scale of part k of the block. */
static int scale(const struct blk_Q4_K *x, int k) {
    const uint8_t *s = x->scales;
    return k < 4 ? s[k] & 63 : (s[k + 4] & 15) | (s[k - 4] >> 6) << 4;
}

/* Returns the integer minimum of part k of the block. */
static int min(const struct blk_Q4_K *x, int k) {
    const uint8_t *s = x->scales;
    return k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | (s[k] >> 6) << 4;
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q4_K *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d), dmin = fp_f16_to_f32(x->dmin);
        for (int i = 0; i < QK; i++)
            dst[i] = d * (float)scale(x, i / 32) * (float)code(x, i) - dmin * (float)min(x, i / 32);
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q4_K *x = w;
    const struct blk_Q8_K *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        int s = 0, sm = 0;
        for (int k = 0; k < QK / 32; k++) {
            int sk = 0;
            for (int i = 32 * k; i < 32 * (k + 1); i++) sk += code(x, i) * y->qs[i];
            s += scale(x, k) * sk;
            sm += min(x, k) * (y->bsums[2 * k] + y->bsums[2 * k + 1]);
        }
        sum +=
            (double)y->d * ((double)fp_f16_to_f32(x->d) * s - (double)fp_f16_to_f32(x->dmin) * sm);
    }
    return (float)sum;
}

const struct kern_ops kern_ref_Q4_K = {.decode = decode, .dot = dot};
