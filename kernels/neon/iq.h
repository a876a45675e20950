// SPDX-License-Identifier: MIT
/* kernels/neon/iq.h - loops of the IQ1, IQ2 and IQ3 formats.
 *
 * A block is split into 256 signed codes, loaded from the grid, and 16 scales; then it is decoded,
 * or multiplied by one or more rows of activations. Packed rows use the product of kernels/rows/.
 * Included by a type's file, which defines take_apart(w, g, x), after the type's header of
 * kernels/rows/. */
#ifndef HONE_KERNELS_NEON_IQ_H
#define HONE_KERNELS_NEON_IQ_H

#include "base/bytes.h"
#include "containers/qtype.h"
#include "kernels/grid.h"
#include "kernels/neon/neon.h"

struct iq_apart { /* split block: w = d * scale[i / 16] * code[i] */
    int8_t code[QK];
    int16_t scale[QK / 16];
    float d;
};

/* ---- steps of take_apart() ---- */

/* Stores 16 codes: the levels, negated where a bit of the two sign bytes is set; bit i of `first`
 * belongs to level i. */
INLINE void iq_put(struct iq_apart *x, int at, uint8x16_t level, uint8_t first, uint8_t second) {
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t s = vcombine_u8(vdup_n_u8(first), vdup_n_u8(second));
    const uint8x16_t m = vtstq_u8(s, vld1q_u8(bit));
    vst1q_s8(x->code + at, vreinterpretq_s8_u8(vsubq_u8(veorq_u8(level, m), m)));
}
/* Looks up two vectors of 8 levels in the grid; iq_four looks up four vectors of 4. */
INLINE uint8x16_t iq_two(const uint8_t (*grid)[8], unsigned i, unsigned j) {
    return vcombine_u8(vld1_u8(grid[i]), vld1_u8(grid[j]));
}
INLINE uint8x16_t iq_four(const uint8_t (*grid)[4], unsigned i, unsigned j, unsigned k,
                          unsigned l) {
    const uint32_t v[4] = {load_u32(grid[i]), load_u32(grid[j]), load_u32(grid[k]),
                           load_u32(grid[l])};
    return vreinterpretq_u8_u32(vld1q_u32(v));
}
INLINE void iq_scale_32(struct iq_apart *x, int k, unsigned s) {
    x->scale[2 * k] = x->scale[2 * k + 1] = (int16_t)(2 * s + 1);
}
/* Reads scales, one per 16 weights, from eight bytes with two nibbles each. */
INLINE void iq_scales_16(struct iq_apart *x, const uint8_t *p) {
    for (int k = 0; k < 16; k++) x->scale[k] = (int16_t)(2 * (p[k / 2] >> 4 * (k % 2) & 15) + 1);
}

/* ---- the loops ---- */

typedef void (*iq_apart_fn)(const void *w, const struct kern_grid *g, struct iq_apart *x);

INLINE int32x4_t iq_products(int8x16_t w, int8x16_t x) {
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(vdupq_n_s32(0), w, x);
#else
    return vpaddlq_s16(vpaddq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x)));
#endif
}
INLINE float32x4_t iq_meet(const struct iq_apart *x, const struct blk_Q8_K *y, float32x4_t acc) {
    int32x4_t s = vdupq_n_s32(0);
    UNROLL for (int k = 0; k < QK / 16; k++) s = vmlaq_n_s32(
        s, iq_products(vld1q_s8(x->code + 16 * k), vld1q_s8(y->qs + 16 * k)), x->scale[k]);
    return vfmaq_n_f32(acc, vcvtq_f32_s32(s), x->d * y->d);
}

INLINE void iq_decode(const uint8_t *w, int64_t size, float *dst, int64_t n, iq_apart_fn take) {
    struct iq_apart x;
    for (int64_t b = 0; b < n / QK; b++, w += size) {
        take(w, kern_grid_get(), &x);
        for (int i = 0; i < QK; i += 16, dst += 16) {
            const float d = x.d * (float)x.scale[i / 16];
            const int8x16_t c = vld1q_s8(x.code + i);
            const int16x8_t h[2] = {vmovl_s8(vget_low_s8(c)), vmovl_high_s8(c)};
            UNROLL for (int j = 0; j < 2; j++) {
                vst1q_f32(dst + 8 * j,
                          vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(h[j]))), d));
                vst1q_f32(dst + 8 * j + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(h[j])), d));
            }
        }
    }
}

enum { IQ_TOKENS = 16 }; /* activation rows per split block */

INLINE void iq_dots(const uint8_t *w, int64_t size, const uint8_t *a, uint64_t stride,
                    int64_t n_tok, float *out, int64_t ldo, int64_t n, iq_apart_fn take) {
    struct iq_apart x;
    for (int64_t t0 = 0; t0 < n_tok; t0 += IQ_TOKENS) {
        const int64_t m = n_tok - t0 < IQ_TOKENS ? n_tok - t0 : IQ_TOKENS;
        float32x4_t acc[IQ_TOKENS];
        for (int64_t t = 0; t < m; t++) acc[t] = vdupq_n_f32(0);
        for (int64_t b = 0; b < n / QK; b++) {
            take(w + b * size, kern_grid_get(), &x);
            for (int64_t t = 0; t < m; t++) {
                const struct blk_Q8_K *y = (const void *)(a + (uint64_t)(t0 + t) * stride);
                acc[t] = iq_meet(&x, y + b, acc[t]);
            }
        }
        for (int64_t t = 0; t < m; t++) out[(t0 + t) * ldo] = vaddvq_f32(acc[t]);
    }
}

#define IQ_OPS(ISA, TYPE)                                                                          \
    static void decode(const void *restrict w, float *restrict dst, int64_t n) {                   \
        iq_decode(w, sizeof(struct blk_##TYPE), dst, n, take_apart);                               \
    }                                                                                              \
    static void dots(const void *restrict w, const void *restrict a, uint64_t stride,              \
                     int64_t n_tok, float *restrict out, int64_t ldo, int64_t n) {                 \
        iq_dots(w, sizeof(struct blk_##TYPE), a, stride, n_tok, out, ldo, n, take_apart);          \
    }                                                                                              \
    static float dot(const void *restrict w, const void *restrict a, int64_t n) {                  \
        float out;                                                                                 \
        dots(w, a, 0, 1, &out, 1, n);                                                              \
        return out;                                                                                \
    }                                                                                              \
    const struct kern_ops kern_##ISA##_##TYPE = {                                                  \
        .decode = decode, .dot = dot, .dots = dots, .gemm = gemm, .rows = LANES}

#endif
