// SPDX-License-Identifier: MIT
/* quantize/enc/mxfp4.c - MXFP4 encoder: 32 weights, a power-of-two scale, sixteen levels.
 *
 * Conventional: the exponent that keeps the largest weight below the top level, regardless of
 * importance. Fast and best: of that exponent and its neighbors, the one with the least error. No
 * other can win: one step further down clips half of the range, one further up leaves the upper
 * levels empty. Zeros use exponent byte 0, and so do blocks below 2^-122, because the inverse of
 * their scale would overflow. Exponents above 2^123 are not used, because the levels would. */
#include "quantize/enc/fp4.h"
#include "quantize/enc/types.h"

#include <string.h>

#include "base/fp.h"

enum { N = 32, E_MAX = 251 };
#define LARGEST 0x1.8p126f /* the top level at E_MAX */

/* Returns the exponent of the shared scale, biased by 127, derived from the largest value. */
static int conventional_scale(const float *x) {
    const float top = fabsf(enc_absmax(x, N));
    const int e =
        /* floor(log2 top) - 2 + 127; negative for subnormals. */
        (int)(fp_bits(top) >> 23) - 2;
    return e < 0 ? 0 : e > E_MAX ? E_MAX : e;
}

/* Encodes 32 weights with importance w; searches for a scale unless the search is conventional. */
static void encode_block(const float *x, const float *w, struct blk_MXFP4 *o, enum search search) {
    int e = conventional_scale(x), from = e - 2, to = e + 1;
    if (search != SEARCH_CONVENTIONAL) {
        double best = fp4_error(x, w, N, kern_e8m0_half((uint8_t)e));
        for (int t = from < 0 ? 0 : from; t <= to && t <= E_MAX; t++) {
            double err = fp4_error(x, w, N, kern_e8m0_half((uint8_t)t));
            if (!(err < best)) continue;
            best = err;
            e = t;
        }
    }
    const float d = kern_e8m0_half((uint8_t)e), inv = d > 0x1p-126f ? 1.0f / d : 0;
    o->e = (uint8_t)e;
    for (int i = 0; i < 16; i++)
        o->qs[i] = (uint8_t)(fp4_code(x[i] * inv) | fp4_code(x[16 + i] * inv) << 4);
}

/* Encodes a row of blocks; a block that is all zeros stays zero. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    const struct wrule rule = enc_wrule(QT_MXFP4, search);
    struct blk_MXFP4 *o = dst;
    float b[N], w[N];
    for (int64_t i = 0; i < n / N; i++, o++) {
        memset(o, 0, sizeof *o);
        for (int k = 0; k < N; k++) b[k] = enc_clampf(x[i * N + k], -LARGEST, LARGEST);
        if (fabsf(enc_absmax(b, N)) < 0x1p-122f) continue;
        enc_weights(w, b, imp ? imp + i * N : NULL, N, &rule, enc_mean2(b, N), N);
        encode_block(b, w, o, search);
    }
}

/* Splits a block into its scale and 32 codes. */
static void unpack(const void *blk, uint8_t *scale, uint8_t *code) {
    const struct blk_MXFP4 *b = blk;
    scale[0] = b->e;
    for (int i = 0; i < 16; i++) {
        code[i] = b->qs[i] & 15;
        code[16 + i] = b->qs[i] >> 4;
    }
}
/* Writes a block with this scale and 32 codes. */
static void pack(void *blk, const uint8_t *scale, const uint8_t *code) {
    struct blk_MXFP4 *b = blk;
    b->e = scale[0];
    for (int i = 0; i < 16; i++) b->qs[i] = (uint8_t)(code[i] | code[16 + i] << 4);
}
static const struct enc_fp4 layout = {N, N, E_MAX, kern_e8m0_half, unpack, pack};

const struct enc enc_type_MXFP4 = {
    .type = QT_MXFP4,
    .row = row,
    .fp4 = &layout,
    .conventional = {0, 32, WP_ONE},
    .chosen = {0, 32, WP_RMS_ABS},
    .largest = LARGEST,
};
