// SPDX-License-Identifier: MIT
/* kernels/ref/mxfp4.c - MXFP4: 32 weights in 17 bytes.
 * w = 2^(e-128) * F[q], F the doubled E2M1 levels of codebook.h. Readers reject e = 255. */
#include "base/fp.h"
#include "kernels/ops.h"
#include "kernels/codebook.h"

/* Returns weight i of the block as an integer, before its scale is applied. */
static int code(const struct blk_MXFP4 *x, int i) {
    return kern_fp4_level[i < 16 ? x->qs[i] & 15 : x->qs[i - 16] >> 4];
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_MXFP4 *x = blk;
    for (int64_t b = 0; b < n / 32; b++, x++, dst += 32) {
        const float d = kern_e8m0_half(x->e);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)code(x, i);
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_MXFP4 *x = w;
    const struct blk_Q8_0 *y = a;
    double sum = 0;
    for (int64_t b = 0; b < n / 32; b++, x++, y++) {
        int s = 0;
        for (int i = 0; i < 32; i++) s += code(x, i) * y->qs[i];
        sum += (double)kern_e8m0_half(x->e) * (double)fp_f16_to_f32(y->d) * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_MXFP4 = {.decode = decode, .dot = dot};
