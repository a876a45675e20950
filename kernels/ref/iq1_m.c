// SPDX-License-Identifier: MIT
/* kernels/ref/iq1_m.c - IQ1_M: 256 weights in 56 bytes, 16 sub-blocks of 16.
 * w = d/8 * (2s+1) * (8v +- 1), v of -1, 0, 1: per 8 weights a grid index of 11 bits and the sign
 * of the shift, s of 3 bits; d lies in the top nibbles of the four scale words. */
#include "core/bytes.h"
#include "core/fp.h"
#include "kernels/codebook.h"
#include "kernels/grid.h"
#include "kernels/ops.h"

static int code(const struct blk_IQ1_M *x, const struct kern_grid *g, int i) {
    const int h = i / 8, high = x->qh[h / 2] >> (4 * (h % 2)) & 15;
    return g->iq1[(x->qs[h] | (high & 7) << 8) + (high & 8 ? KERN_IQ1 : 0)][i % 8];
}

static int scale(const struct blk_IQ1_M *x, int k) {
    return 2 * (load_u16(x->scales + 2 * (k / 4)) >> (3 * (k % 4)) & 7) + 1;
}

static float super(const struct blk_IQ1_M *x) {
    return fp_f16_to_f32(kern_iq1_m_d(x)) * 0.125f;
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ1_M *x = blk;
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = super(x);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 16) * (float)code(x, g, i);
    }
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ1_M *x = w;
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
        sum += (double)super(x) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_IQ1_M = {.decode = decode, .dot = dot};
