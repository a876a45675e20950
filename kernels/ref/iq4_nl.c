// SPDX-License-Identifier: MIT
/* kernels/ref/iq4_nl.c - IQ4_NL: 32 weights in 18 bytes.
 * w = d * T[q], T the 16 levels of codebook.h.   (docs/formats/iq4.md) */
#include "base/fp.h"
#include "kernels/ops.h"
#include "kernels/codebook.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_IQ4_NL *x, int i) {
    const int q = i < 16 ? x->qs[i] & 15 : x->qs[i - 16] >> 4;
    return kern_iq4_level[q];
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ4_NL *x = blk;
    for (int64_t b = 0; b < n / 32; b++, x++, dst += 32) {
        const float d = fp_f16_to_f32(x->d);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)code(x, i);
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ4_NL *x = w;
    const struct blk_Q8_0 *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / 32; b++, x++, y++) {
        int s = 0;
        for (int i = 0; i < 32; i++) s += code(x, i) * y->qs[i];
        sum += (double)fp_f16_to_f32(x->d) * (double)fp_f16_to_f32(y->d) * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_IQ4_NL = {.decode = decode, .dot = dot};
