// SPDX-License-Identifier: MIT
/* kernels/ref/iq1_s.c - IQ1_S: 256 weights in 50 bytes, 8 sub-blocks of 32.
 * w = d/8 * (2s+1) * (8v +- 1), v of -1, 0, 1: per 32 weights four grid indices of 11 bits, whose
 * high bits share a word with s (3 bits) and the sign of the shift. */
#include "core/fp.h"
#include "kernels/grid.h"
#include "kernels/ops.h"

static int code(const struct blk_IQ1_S *x, const struct kern_grid *g, int i) {
    const int k = i / 32, l = i % 32 / 8, word = x->qh[k];
    const int index = x->qs[i / 8] | ((word >> (3 * l)) & 7) << 8;
    return g->iq1[index + (word >> 15 ? KERN_IQ1 : 0)][i % 8];
}

static int scale(const struct blk_IQ1_S *x, int k) {
    return 2 * ((x->qh[k] >> 12) & 7) + 1;
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ1_S *x = blk;
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d) * 0.125f;
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 32) * (float)code(x, g, i);
    }
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ1_S *x = w;
    const struct blk_Q8_K *y = a;
    const struct kern_grid *g = kern_grid_get();
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        int s = 0;
        for (int k = 0; k < QK / 32; k++) {
            int sk = 0;
            for (int i = 32 * k; i < 32 * (k + 1); i++) sk += code(x, g, i) * y->qs[i];
            s += scale(x, k) * sk;
        }
        sum += (double)(fp_f16_to_f32(x->d) * 0.125f) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_IQ1_S = {.decode = decode, .dot = dot};
