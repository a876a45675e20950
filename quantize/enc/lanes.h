// SPDX-License-Identifier: MIT
/* quantize/enc/lanes.h - eight runs of weights with one scale each, side by side in the lanes of a
 * vector, and the arithmetic on them. For quantize/enc/lanes.c only, which is compiled once per
 * instruction set.
 *
 * A tile holds element i of eight runs (sub-blocks of a super-block, or blocks of 32) in one
 * vector: every lane adds its own elements in index order, no lane looks at another, nothing is
 * fused. So the result is that of the plain scalar loop, with every instruction set. */
#ifndef HONE_QUANTIZE_ENC_LANES_H
#define HONE_QUANTIZE_ENC_LANES_H

#include <math.h>
#include <string.h>

#include "core/bytes.h"
#include "core/fp.h"
#include "quantize/enc/super.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef double vd __attribute__((vector_size(64)));

struct tile {
    vf x[ENC_SUB], w[ENC_SUB];
};

INLINE vf splat(float a) {
    vf zero = {0};
    return zero + a;
}
INLINE vf loadv(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void storev(float *p, vf v) {
    memcpy(p, &v, sizeof v);
}
#ifdef __AVX2__
INLINE vf pick(vi mask, vf a, vf b) {
    return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}
INLINE vf maxv(vf v, vf lo) {
    return (vf)_mm256_max_ps((__m256)v, (__m256)lo);
}
INLINE vf minv(vf v, vf hi) {
    return (vf)_mm256_min_ps((__m256)v, (__m256)hi);
}
INLINE vf sqrtv(vf v) {
    return (vf)_mm256_sqrt_ps((__m256)v);
}
INLINE vf lookup(const float *table, vi j) {
    return (vf)_mm256_i32gather_ps(table, (__m256i)j, 4);
}
/* Eight bytes with signs -> f32 */
INLINE vf from_bytes(const int8_t *p) {
    return (vf)_mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
#else
INLINE vf from_bytes(const int8_t *p) {
    vf v;
    for (int k = 0; k < LANES; k++) v[k] = p[k];
    return v;
}
/* mask ? a : b */
INLINE vf pick(vi mask, vf a, vf b) {
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}
/* The bound where v is a NaN. */
INLINE vf maxv(vf v, vf lo) {
    return pick(v > lo, v, lo);
}
INLINE vf minv(vf v, vf hi) {
    return pick(v < hi, v, hi);
}
INLINE vf sqrtv(vf v) {
    for (int k = 0; k < LANES; k++) v[k] = sqrtf(v[k]);
    return v;
}
INLINE vf lookup(const float *table, vi j) {
    vf v;
    for (int k = 0; k < LANES; k++) v[k] = table[j[k]];
    return v;
}
#endif
INLINE vf clampv(vf v, vf lo, vf hi) {
    return minv(maxv(v, lo), hi);
}
INLINE vf absv(vf v) {
    return (vf)((vi)v & 0x7fffffff);
}
/* Nearest integer, ties to even; |v| < 2^22. */
INLINE vf rintv(vf v) {
    const vf magic = splat(12582912.0f);
    return (v + magic) - magic;
}
/* a/b, 0 where b is 0 */
INLINE vf ratio(vf a, vf b) {
    vi zero = b == splat(0);
    return pick(zero, splat(0), a / pick(zero, splat(1), b));
}
/* enc_f16 of every lane: to 11 bits, ties to even; below 2^-14 to multiples of 2^-24. */
INLINE vf f16v(vf x) {
    x = clampv(x, splat(-65504), splat(65504));
    vi u = (vi)x;
    vf normal = (vf)((u + 0xfff + ((u >> 13) & 1)) & ~0x1fff);
    return pick((u & 0x7fffffff) < 0x38800000, (x + splat(0.75f)) - splat(0.75f), normal);
}
/* The levels nearest to v. */
INLINE vf nearest(bool table, vf v, vf lo, vf hi) {
    v = clampv(v, lo, hi);
    if (!table) return rintv(v);
    return lookup(enc_iq4_level, __builtin_convertvector(splat(256) - splat(2) * v, vi));
}

INLINE vf shuffle_lo(vf a, vf b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
INLINE vf shuffle_hi(vf a, vf b) {
    return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
/* Eight rows, `stride` floats apart, of eight -> eight columns. */
INLINE void transpose(const float *p, int64_t stride, vf *out) {
    vf a[8], b[8];
    for (int k = 0; k < 4; k++) {
        vf r0 = loadv(p + 2 * k * stride), r1 = loadv(p + (2 * k + 1) * stride);
        a[2 * k] = shuffle_lo(r0, r1);
        a[2 * k + 1] = shuffle_hi(r0, r1);
    }
    for (int k = 0; k < 8; k += 4)
        for (int h = 0; h < 2; h++) {
            b[k + 2 * h] =
                __builtin_shufflevector(a[k + h], a[k + h + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[k + 2 * h + 1] =
                __builtin_shufflevector(a[k + h], a[k + h + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int k = 0; k < 4; k++) {
        out[k] = __builtin_shufflevector(b[k], b[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        out[k + 4] = __builtin_shufflevector(b[k], b[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
/* Runs k = 0..7 of n weights, one after the other in memory. */
INLINE void load_tile(vf *out, const float *p, int n) {
    for (int i = 0; i < n; i += 8) transpose(p + i, n, out + i);
}
/* Codes of element i .. i+3 of every run to q[n*run + i]. */
INLINE void store_codes(int8_t *q, int n, int i, const vf l[4]) {
    vi c = {0};
    for (int k = 0; k < 4; k++) c |= (__builtin_convertvector(l[k], vi) & 255) << (8 * k);
    for (int k = 0; k < LANES; k++) store_u32((uint8_t *)q + n * k + i, (uint32_t)c[k]);
}

/* Lane by lane: the signed element of largest magnitude (first of equals); least and largest. */
INLINE vf absmax(const vf *x, int n) {
    vf m = splat(0);
    for (int i = 0; i < n; i++) m = pick(absv(x[i]) > absv(m), x[i], m);
    return m;
}
/* The element with the most w x^2. */
INLINE vf heaviest(const struct tile *t, int n) {
    vf most = splat(0), at = t->x[0];
    for (int i = 0; i < n; i++) {
        vf h = t->w[i] * t->x[i] * t->x[i];
        vi more = h > most;
        most = pick(more, h, most);
        at = pick(more, t->x[i], at);
    }
    return at;
}
INLINE float lane_sum(const vf *v, int n) { /* in order */
    float s = 0;
    for (int t = 0; t < n; t++)
        for (int k = 0; k < LANES; k++) s += v[t][k];
    return s;
}

#endif
