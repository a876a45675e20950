// SPDX-License-Identifier: MIT
/* kernels/ref/iq2_s.c - IQ2_S: 256 weights in 82 bytes, 16 sub-blocks of 16.
 * w = d/8 * (2s+1) * level * sign: 10 bits of grid and 8 explicit signs per 8 weights. */
#include "core/fp.h"
#include "kernels/ops.h"
#include "kernels/grid.h"

static int code(const struct blk_IQ2_S *x, const struct kern_grid *g, int i) {
    const int h = i / 8, j = i % 8;
    const int index = x->qs[h] | ((x->qh[h / 4] >> (2 * (h % 4))) & 3) << 8;
    const int level = g->iq2_s[index][j];
    return (x->qs[32 + h] >> j) & 1 ? -level : level;
}

static int scale(const struct blk_IQ2_S *x, int k) {
    return 2 * ((x->scales[k / 2] >> (4 * (k % 2))) & 15) + 1;
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ2_S *x = blk;
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d) * 0.125f;
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 16) * (float)code(x, g, i);
    }
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ2_S *x = w;
    const struct blk_Q8_K *y = a;
    const struct kern_grid *g = kern_grid_get();
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        int s = 0;
        for (int k = 0; k < QK / 16; k++) {
            int sk = 0;
            for (int i = 16 * k; i < 16 * (k + 1); i++) sk += code(x, g, i) * y->qs[i];
            s += scale(x, k) * sk;
        }
        sum += (double)(fp_f16_to_f32(x->d) * 0.125f) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_IQ2_S = {.decode = decode, .dot = dot};
