// SPDX-License-Identifier: MIT
/* quantize/enc/nvfp4.c - NVFP4 encoder: 64 weights, an unsigned E4M3 scale per 16 weights, sixteen
 * levels.
 *
 * Conventional: the scale nearest to largest/6, regardless of importance. Fast: the scale with the
 * least error among the conventional one, the eight below and the four above it. Best: the scale
 * with the least error of all. Weights beyond 6*448 are clamped; there is no second, per-tensor
 * scale. */
#include "quantize/enc/fp4.h"
#include "quantize/enc/types.h"

#include <string.h>

enum { N = 64, SUB = 16, V_MAX = 0x7e };
#define LARGEST (6.0f * 448.0f)

/* Returns the scale byte whose value is nearest to v; ties round up. */
static int nearest_scale(float v) {
    int best = 0;
    for (int b = 1; b <= V_MAX; b++)
        if (fabsf(2 * kern_ue4m3_half((uint8_t)b) - v) <=
            fabsf(2 * kern_ue4m3_half((uint8_t)best) - v))
            best = b;
    return best;
}

/* Returns the code of the scale with the lowest weighted error for 16 values. */
static int scale_of(const float *x, const float *w, enum search search) {
    int at = nearest_scale(fabsf(enc_absmax(x, SUB)) / 6.0f);
    if (search == SEARCH_CONVENTIONAL) return at;
    int from = search == SEARCH_BEST ? 0 : at - 8, to = search == SEARCH_BEST ? V_MAX : at + 4;
    double best = fp4_error(x, w, SUB, kern_ue4m3_half((uint8_t)at));
    for (int v = from < 0 ? 0 : from; v <= to && v <= V_MAX; v++) {
        double err = fp4_error(x, w, SUB, kern_ue4m3_half((uint8_t)v));
        if (!(err < best)) continue;
        best = err;
        at = v;
    }
    return at;
}

/* Encodes a row of blocks; a block that is all zeros stays zero. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    const struct wrule rule = enc_wrule(QT_NVFP4, search);
    struct blk_NVFP4 *o = dst;
    float b[N], w[N];
    for (int64_t i = 0; i < n / N; i++, o++) {
        memset(o, 0, sizeof *o);
        if (!enc_load(b, x + i * N, N, LARGEST)) continue;
        enc_weights(w, b, imp ? imp + i * N : NULL, N, &rule, enc_mean2(b, N), SUB);
        for (int s = 0; s < N / SUB; s++) {
            const float *xs = b + s * SUB;
            o->d[s] = (uint8_t)scale_of(xs, w + s * SUB, search);
            const float d = kern_ue4m3_half(o->d[s]), inv = d > 0 ? 1.0f / d : 0;
            for (int i8 = 0; i8 < 8; i8++)
                o->qs[8 * s + i8] =
                    (uint8_t)(fp4_code(xs[i8] * inv) | fp4_code(xs[8 + i8] * inv) << 4);
        }
    }
}

/* Splits a block into its 4 scales and 64 codes. */
static void unpack(const void *blk, uint8_t *scale, uint8_t *code) {
    const struct blk_NVFP4 *b = blk;
    for (int s = 0; s < N / SUB; s++) {
        scale[s] = b->d[s];
        for (int i = 0; i < 8; i++) {
            code[SUB * s + i] = b->qs[8 * s + i] & 15;
            code[SUB * s + 8 + i] = b->qs[8 * s + i] >> 4;
        }
    }
}
/* Writes a block with these 4 scales and 64 codes. */
static void pack(void *blk, const uint8_t *scale, const uint8_t *code) {
    struct blk_NVFP4 *b = blk;
    for (int s = 0; s < N / SUB; s++) {
        b->d[s] = scale[s];
        for (int i = 0; i < 8; i++)
            b->qs[8 * s + i] = (uint8_t)(code[SUB * s + i] | code[SUB * s + 8 + i] << 4);
    }
}
static const struct enc_fp4 layout = {N, SUB, V_MAX, kern_ue4m3_half, unpack, pack};

const struct enc enc_type_NVFP4 = {
    .type = QT_NVFP4,
    .row = row,
    .fp4 = &layout,
    .conventional = {0, 64, WP_ONE},
    .chosen = {0, 64, WP_RMS_ABS},
    .largest = LARGEST,
};
