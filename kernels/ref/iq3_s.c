// SPDX-License-Identifier: MIT
/* kernels/ref/iq3_s.c - IQ3_S: 256 weights in 110 bytes, 8 sub-blocks of 32.
 * w = d * (2s+1) * level * sign: 9 bits of grid per 4 weights, 8 explicit signs per 8. */
#include "core/fp.h"
#include "kernels/ops.h"
#include "kernels/grid.h"

static int code(const struct blk_IQ3_S *x, const struct kern_grid *g, int i) {
    const int h = i / 4;
    const int index = x->qs[h] | ((x->qh[h / 8] >> (h % 8)) & 1) << 8;
    const int level = g->iq3_s[index][i % 4];
    return (x->signs[i / 8] >> (i % 8)) & 1 ? -level : level;
}

static int scale(const struct blk_IQ3_S *x, int k) {
    return 2 * ((x->scales[k / 2] >> (4 * (k % 2))) & 15) + 1;
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ3_S *x = blk;
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 32) * (float)code(x, g, i);
    }
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ3_S *x = w;
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
        sum += (double)(fp_f16_to_f32(x->d)) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_IQ3_S = {.decode = decode, .dot = dot};
