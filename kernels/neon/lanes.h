// SPDX-License-Identifier: MIT
/* kernels/neon/lanes.h - primitives of kernels/rows/ for NEON, with the names of avx2/lanes8.h and
 * avx2/lanes.h: 8 rows are two vectors.
 *
 * With FEAT_DotProd (kernels/dotprod/), one instruction multiplies four codes by four
 * activations and adds to 32 bits. Both are signed; unsigned codes of up to 7 bits fit too.
 * Otherwise products are widened to 16 bits and added in pairs. Static inline functions only. */
#ifndef HONE_KERNELS_NEON_LANES_H
#define HONE_KERNELS_NEON_LANES_H

#include "kernels/neon/neon.h"

/* See avx2/lanes.h. The 32 registers hold three sums of two vectors per token. The numbers are
 * estimates, not measured. */
enum { LANES = 8, TILE = 4, DIRECT = 4, PANEL_FROM = 9 };

typedef struct {
    int32x4_t a, b; /* rows 0 to 3, rows 4 to 7 */
} iv;
typedef struct {
    float32x4_t a, b;
} fv;

INLINE iv iv_u8(uint8x16_t a, uint8x16_t b) {
    return (iv){vreinterpretq_s32_u8(a), vreinterpretq_s32_u8(b)};
}
INLINE uint8x16_t u8(int32x4_t v) {
    return vreinterpretq_u8_s32(v);
}
INLINE int8x16_t s8(int32x4_t v) {
    return vreinterpretq_s8_s32(v);
}
INLINE int16x8_t s16(int32x4_t v) {
    return vreinterpretq_s16_s32(v);
}
INLINE iv iv_s16(int16x8_t a, int16x8_t b) {
    return (iv){vreinterpretq_s32_s16(a), vreinterpretq_s32_s16(b)};
}

INLINE iv l_load(const void *p) {
    const uint8_t *q = p;
    return iv_u8(vld1q_u8(q), vld1q_u8(q + 16));
}
INLINE iv l_i32(int v) {
    return (iv){vdupq_n_s32(v), vdupq_n_s32(v)};
}
INLINE iv l_at(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return l_i32(v);
}
INLINE iv l_i8(int v) {
    const uint8x16_t x = vdupq_n_u8((uint8_t)v);
    return iv_u8(x, x);
}
INLINE iv l_u16(const void *p) {
    uint16x8_t v;
    memcpy(&v, p, sizeof v);
    return (iv){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(v))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(v)))};
}
INLINE iv l_u8(const void *p) {
    const uint16x8_t v = vmovl_u8(vld1_u8(p));
    return (iv){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(v))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(v)))};
}
INLINE fv l_half(const void *p) {
    const uint8_t *q = p;
    return (fv){halves(q), halves(q + 8)};
}
INLINE iv l_and(iv x, iv y) {
    return (iv){vandq_s32(x.a, y.a), vandq_s32(x.b, y.b)};
}
INLINE iv l_or(iv x, iv y) {
    return (iv){vorrq_s32(x.a, y.a), vorrq_s32(x.b, y.b)};
}
INLINE iv l_sub8(iv x, iv y) {
    return iv_u8(vsubq_u8(u8(x.a), u8(y.a)), vsubq_u8(u8(x.b), u8(y.b)));
}
/* Operators, because the immediate forms of the instructions exclude 0. */
INLINE iv l_shr(iv v, int n) {
    return (iv){vreinterpretq_s32_u32(vreinterpretq_u32_s32(v.a) >> n),
                vreinterpretq_s32_u32(vreinterpretq_u32_s32(v.b) >> n)};
}
INLINE iv l_shl(iv v, int n) {
    return (iv){vreinterpretq_s32_u32(vreinterpretq_u32_s32(v.a) << n),
                vreinterpretq_s32_u32(vreinterpretq_u32_s32(v.b) << n)};
}
INLINE iv l_add(iv x, iv y) {
    return (iv){vaddq_s32(x.a, y.a), vaddq_s32(x.b, y.b)};
}
INLINE iv l_sub(iv x, iv y) {
    return (iv){vsubq_s32(x.a, y.a), vsubq_s32(x.b, y.b)};
}
INLINE iv l_mul(iv x, iv y) {
    return (iv){vmulq_s32(x.a, y.a), vmulq_s32(x.b, y.b)};
}
INLINE iv l_table(const int8_t *table, iv v) {
    const uint8x16_t t = vreinterpretq_u8_s8(vld1q_s8(table));
    return iv_u8(vqtbl1q_u8(t, u8(v.a)), vqtbl1q_u8(t, u8(v.b)));
}
INLINE iv l_bytes(iv v, unsigned pick) {
    static const uint32_t own[4] = {0, 0x04040404, 0x08080808, 0x0c0c0c0c};
    const uint8x16_t i =
        vaddq_u8(vreinterpretq_u8_u32(vld1q_u32(own)), vreinterpretq_u8_u32(vdupq_n_u32(pick)));
    return iv_u8(vqtbl1q_u8(u8(v.a), i), vqtbl1q_u8(u8(v.b), i));
}
INLINE iv l_pair(iv v, int i, bool is_signed) {
    const unsigned b = 2 * (unsigned)i;
    if (!is_signed) return l_bytes(v, 0x80008000 | (b + 1) << 16 | b);
    const iv high = l_bytes(v, 0x00800080 | b << 8 | (b + 1) << 24);
    return iv_s16(vshrq_n_s16(s16(high.a), 8), vshrq_n_s16(s16(high.b), 8));
}
INLINE int32x4_t madd16(int32x4_t x, int32x4_t y) {
    return vpaddq_s32(vmull_s16(vget_low_s16(s16(x)), vget_low_s16(s16(y))),
                      vmull_high_s16(s16(x), s16(y)));
}
INLINE iv l_sum16(iv s, iv x, iv y) {
    return l_add(s, (iv){madd16(x.a, y.a), madd16(x.b, y.b)});
}
INLINE fv l_float(iv v) {
    return (fv){vcvtq_f32_s32(v.a), vcvtq_f32_s32(v.b)};
}
INLINE fv l_bits(iv v) {
    return (fv){vreinterpretq_f32_s32(v.a), vreinterpretq_f32_s32(v.b)};
}
INLINE fv l_set(float v) {
    return (fv){vdupq_n_f32(v), vdupq_n_f32(v)};
}
INLINE fv l_mulf(fv x, fv y) {
    return (fv){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)};
}
INLINE fv l_fma(fv x, fv y, fv c) {
    return (fv){vfmaq_f32(c.a, x.a, y.a), vfmaq_f32(c.b, x.b, y.b)};
}
INLINE fv l_fnma(fv x, fv y, fv c) {
    return (fv){vfmsq_f32(c.a, x.a, y.a), vfmsq_f32(c.b, x.b, y.b)};
}
INLINE fv l_loadf(const float *p) {
    return (fv){vld1q_f32(p), vld1q_f32(p + 4)};
}
INLINE void l_storef(float *p, fv v) {
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
}
INLINE iv running(iv s) {
    __asm__("" : "+w"(s.a), "+w"(s.b));
    return s;
}

/* Returns byte i of a lane widened to 32 bits, as a factor for u_end. */
INLINE iv u_scale(iv v, int i, bool is_signed) {
    const unsigned b = (unsigned)i;
    if (!is_signed) return l_bytes(v, 0x80808000 | b);
    const iv high = l_bytes(v, 0x00808080 | b << 24);
    return (iv){vshrq_n_s32(high.a, 24), vshrq_n_s32(high.b, 24)};
}
INLINE iv s_scale(iv v) {
    return v;
}
INLINE iv s_first(int moved) {
    return l_i32(-moved);
}
INLINE iv s_end(iv sum, iv s, iv scale) {
    return (iv){vmlaq_s32(sum.a, s.a, scale.a), vmlaq_s32(sum.b, s.b, scale.b)};
}

#ifdef __ARM_FEATURE_DOTPROD

enum { SHORT_SUMS = 0 };

/* One 16-byte operand of activations serves four words of codes: products select one of its words
 * by index, so no broadcast is needed. */
#define OWN_ACTS
typedef struct {
    int8x16_t four;
    int i;
} xv;
INLINE xv l_act(const void *x, int j) {
    return (xv){vld1q_s8((const int8_t *)x + 16 * (j / 4)), j % 4};
}
INLINE int32x4_t dot4(int32x4_t s, int32x4_t w, xv x) { /* the index must be constant */
    if (x.i == 0) return vdotq_laneq_s32(s, s8(w), x.four, 0);
    if (x.i == 1) return vdotq_laneq_s32(s, s8(w), x.four, 1);
    if (x.i == 2) return vdotq_laneq_s32(s, s8(w), x.four, 2);
    return vdotq_laneq_s32(s, s8(w), x.four, 3);
}
INLINE iv s_next(iv s, iv w, xv x, xv ax, iv scale, bool whole) {
    (void)ax, (void)scale, (void)whole;
    return running((iv){dot4(s.a, w.a, x), dot4(s.b, w.b, x)});
}
INLINE int u_depth(int bits) { /* sums have 32 bits: a sub-block always fits */
    (void)bits;
    return 8;
}
INLINE iv u_next(iv s, iv w, xv x) {
    return s_next(s, w, x, x, w, true);
}
INLINE iv u_first(iv w, xv x) {
    return u_next(l_i32(0), w, x);
}
INLINE iv u_end(iv sum, iv s, iv scale) {
    return running(s_end(sum, s, scale));
}

#else

enum { SHORT_SUMS = 1 };

/* Returns 16 products of bytes, added in pairs in 16 bits, which cannot overflow for |w| <= 128 and
 * |x| <= 127. */
INLINE int16x8_t products(int32x4_t w, int32x4_t x) {
    return vpaddq_s16(vmull_s8(vget_low_s8(s8(w)), vget_low_s8(s8(x))),
                      vmull_high_s8(s8(w), s8(x)));
}
INLINE int u_depth(int bits) { /* see avx2/lanes.h; codes may be signed too */
    return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
}
INLINE iv u_first(iv w, iv x) {
    return iv_s16(products(w.a, x.a), products(w.b, x.b));
}
INLINE iv u_next(iv s, iv w, iv x) {
    return running(
        iv_s16(vaddq_s16(s16(s.a), products(w.a, x.a)), vaddq_s16(s16(s.b), products(w.b, x.b))));
}
INLINE iv u_end(iv sum, iv s, iv scale) {
    return running(s_end(sum, (iv){vpaddlq_s16(s16(s.a)), vpaddlq_s16(s16(s.b))}, scale));
}
INLINE iv s_next(iv s, iv w, iv x, iv ax, iv scale, bool whole) {
    (void)ax, (void)scale, (void)whole;
    return running(
        (iv){vpadalq_s16(s.a, products(w.a, x.a)), vpadalq_s16(s.b, products(w.b, x.b))});
}

#endif

#endif
