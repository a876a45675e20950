// SPDX-License-Identifier: MIT
/* kernels/ref/iq2_xxs.c - IQ2_XXS: 256 weights in 66 bytes, 8 sub-blocks of 32.
 * w = d/8 * (2s+1) * level * sign: 4 grid indices, 4 sign indices and s in 8 bytes per 32. */
#include "core/fp.h"
#include "kernels/ops.h"
#include "core/bytes.h"
#include "kernels/grid.h"

/* The two words of sub-block k: grid indices, then signs and scale. */
static uint32_t word(const struct blk_IQ2_XXS *x, int k, int which) {
    return load_u32((const uint8_t *)x->qs + 8 * k + 4 * which);
}

static int code(const struct blk_IQ2_XXS *x, const struct kern_grid *g, int i) {
    const int k = i / 32, l = i % 32 / 8, j = i % 8;
    const uint8_t index = (uint8_t)(word(x, k, 0) >> (8 * l));
    const uint8_t signs = g->sign[(word(x, k, 1) >> (7 * l)) & 127];
    const int level = g->iq2_xxs[index][j];
    return (signs >> j) & 1 ? -level : level;
}

static int scale(const struct blk_IQ2_XXS *x, int k) {
    return (int)(2 * (word(x, k, 1) >> 28) + 1);
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ2_XXS *x = blk;
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, x++, dst += QK) {
        const float d = fp_f16_to_f32(x->d) * 0.125f;
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(x, i / 32) * (float)code(x, g, i);
    }
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ2_XXS *x = w;
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

const struct kern_ops kern_ref_IQ2_XXS = {.decode = decode, .dot = dot};
