// SPDX-License-Identifier: MIT
/* kernels/neon/f8.h - primitives of kernels/f32/ for NEON, with the names of avx2/f8.h: eight
 * floats or four doubles are two vectors each. Static inline functions only. */
#ifndef HONE_KERNELS_NEON_F8_H
#define HONE_KERNELS_NEON_F8_H

#include "kernels/neon/neon.h"

typedef struct {
    float32x4_t a, b;
} f8;
typedef struct {
    float64x2_t a, b;
} d4;
typedef int some; /* number of leading lanes selected */

/* Builds a vector by applying one expression to both halves. */
#define F8(e_a, e_b) ((f8){e_a, e_b})

INLINE f8 f_load(const float *p) {
    return F8(vld1q_f32(p), vld1q_f32(p + 4));
}
INLINE f8 f_half(const void *p) {
    const uint8_t *q = p;
    return F8(halves(q), halves(q + 8));
}
INLINE f8 f_bf16(const void *p) {
    uint16x8_t v;
    memcpy(&v, p, sizeof v);
    return F8(vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(v), 16)),
              vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(v), 16)));
}
INLINE void f_store(float *p, f8 v) {
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
}
INLINE f8 f_set(float v) {
    return F8(vdupq_n_f32(v), vdupq_n_f32(v));
}
INLINE f8 f_add(f8 x, f8 y) {
    return F8(vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b));
}
INLINE f8 f_sub(f8 x, f8 y) {
    return F8(vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b));
}
INLINE f8 f_mul(f8 x, f8 y) {
    return F8(vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b));
}
INLINE f8 f_div(f8 x, f8 y) {
    return F8(vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b));
}
INLINE f8 f_fma(f8 x, f8 y, f8 c) {
    return F8(vfmaq_f32(c.a, x.a, y.a), vfmaq_f32(c.b, x.b, y.b));
}
INLINE f8 f_fnma(f8 x, f8 y, f8 c) {
    return F8(vfmsq_f32(c.a, x.a, y.a), vfmsq_f32(c.b, x.b, y.b));
}
INLINE f8 f_fms(f8 x, f8 y, f8 c) {
    return F8(vfmaq_f32(vnegq_f32(c.a), x.a, y.a), vfmaq_f32(vnegq_f32(c.b), x.b, y.b));
}
INLINE f8 f_max(f8 than, f8 v) {
    return F8(vmaxq_f32(than.a, v.a), vmaxq_f32(than.b, v.b));
}
INLINE f8 f_min(f8 than, f8 v) {
    return F8(vminq_f32(than.a, v.a), vminq_f32(than.b, v.b));
}
INLINE f8 f_round(f8 v) {
    return F8(vrndnq_f32(v.a), vrndnq_f32(v.b));
}
INLINE float32x4_t f4_power(float32x4_t n) {
    const int32x4_t e = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(e, 23));
}
INLINE f8 f_power(f8 n) {
    return F8(f4_power(n.a), f4_power(n.b));
}
INLINE float32x4_t f4_zero_where(uint32x4_t m, float32x4_t v) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), m));
}
INLINE f8 f_zero_below(f8 x, f8 limit, f8 v) {
    return F8(f4_zero_where(vcltq_f32(x.a, limit.a), v.a),
              f4_zero_where(vcltq_f32(x.b, limit.b), v.b));
}

INLINE some f_first(int64_t n) {
    return n < 0 ? 0 : n < 8 ? (int)n : 8;
}
INLINE f8 f_load_some(const float *p, some m) {
    float v[8] = {0};
    if (m == 8) return f_load(p);
    for (int i = 0; i < m; i++) v[i] = p[i];
    return f_load(v);
}
INLINE void f_store_some(float *p, some m, f8 x) {
    float v[8];
    if (m == 8) {
        f_store(p, x);
        return;
    }
    f_store(v, x);
    for (int i = 0; i < m; i++) p[i] = v[i];
}
INLINE f8 f_or_else(some m, f8 v, f8 other) {
    static const uint32_t lane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint32x4_t n = vdupq_n_u32((uint32_t)m);
    return F8(vbslq_f32(vcltq_u32(vld1q_u32(lane), n), v.a, other.a),
              vbslq_f32(vcltq_u32(vld1q_u32(lane + 4), n), v.b, other.b));
}

INLINE void f_even_odd(const float *p, f8 *even, f8 *odd) {
    const float32x4x2_t a = vld2q_f32(p), b = vld2q_f32(p + 8);
    *even = F8(a.val[0], b.val[0]);
    *odd = F8(a.val[1], b.val[1]);
}
INLINE f8 f_every_4th(const float *p) {
    float v[8];
    for (int i = 0; i < 8; i++) v[i] = p[4 * i];
    return f_load(v);
}
/* Returns ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), as the AVX2 version does. */
INLINE float hsum(f8 v) {
    float32x4_t s = vpaddq_f32(v.a, v.b);
    s = vpaddq_f32(s, s);
    return vgetq_lane_f32(s, 0) + vgetq_lane_f32(s, 1);
}
INLINE void f_store_sums(float *p, const f8 *s, bool add) {
    const float32x4_t x = vpaddq_f32(vpaddq_f32(s[0].a, s[0].b), vpaddq_f32(s[1].a, s[1].b));
    const float32x4_t y = vpaddq_f32(vpaddq_f32(s[2].a, s[2].b), vpaddq_f32(s[3].a, s[3].b));
    const float32x4_t v = vpaddq_f32(x, y);
    vst1q_f32(p, add ? vaddq_f32(vld1q_f32(p), v) : v);
}

INLINE d4 d_zero(void) {
    return (d4){vdupq_n_f64(0), vdupq_n_f64(0)};
}
INLINE d4 d_low(f8 v) {
    return (d4){vcvt_f64_f32(vget_low_f32(v.a)), vcvt_high_f64_f32(v.a)};
}
INLINE d4 d_high(f8 v) {
    return (d4){vcvt_f64_f32(vget_low_f32(v.b)), vcvt_high_f64_f32(v.b)};
}
INLINE d4 d_add(d4 x, d4 y) {
    return (d4){vaddq_f64(x.a, y.a), vaddq_f64(x.b, y.b)};
}
INLINE d4 d_fma(d4 x, d4 y, d4 c) {
    return (d4){vfmaq_f64(c.a, x.a, y.a), vfmaq_f64(c.b, x.b, y.b)};
}
INLINE double d_sum(d4 v) {
    return vpaddd_f64(v.a) + vpaddd_f64(v.b);
}

#endif
