// SPDX-License-Identifier: MIT
/* kernels/ref/iq3_xxs.c - IQ3_XXS: 256 weights in 98 bytes, 8 sub-blocks of 32.
 * w = d/4 * (2s+1) * level * sign: 8 bits of grid per 4 weights, 7 of signs per 8. */
#include "core/fp.h"
#include "kernels/ops.h"
#include "core/bytes.h"
#include "kernels/grid.h"

static uint32_t word(const struct blk_IQ3_XXS *x, int k) {
    return load_u32(x->qs + 64 + 4 * k);
}

static int code(const struct blk_IQ3_XXS *x, const struct kern_grid *g, int i) {
    const int level = g->iq3_xxs[x->qs[i / 4]][i % 4];
    const uint8_t signs = g->sign[(word(x, i / 32) >> (7 * (i % 32 / 8))) & 127];
    return (signs >> (i % 8)) & 1 ? -level : level;
}

static int scale(const struct blk_IQ3_XXS *x, int k) {
    return (int)(2 * (word(x, k) >> 28) + 1);
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ3_XXS *x = blk;
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d) * 0.25f;
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 32) * (float)code(x, g, i);
    }
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ3_XXS *x = w;
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
        sum += (double)(fp_f16_to_f32(x->d) * 0.25f) * (double)y->d * s;
    }
    return (float)sum;
}

const struct kern_ops kern_ref_IQ3_XXS = {.decode = decode, .dot = dot};
