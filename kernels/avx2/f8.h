// SPDX-License-Identifier: MIT
/* kernels/avx2/f8.h - primitives of kernels/f32/ for AVX2: eight floats, four doubles. Static
 * inline functions only. */
#ifndef HONE_KERNELS_AVX2_F8_H
#define HONE_KERNELS_AVX2_F8_H

#include "kernels/avx2/avx2.h"

typedef __m256 f8;
typedef __m256d d4;
typedef __m256i some; /* mask of eight lanes */

INLINE f8 f_load(const float *p) {
    return _mm256_loadu_ps(p);
}
/* Loads eight half-precision values. f_bf16 loads eight bfloat16. */
INLINE f8 f_half(const void *p) {
    return _mm256_cvtph_ps(load16(p));
}
INLINE f8 f_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16));
}
INLINE void f_store(float *p, f8 v) {
    _mm256_storeu_ps(p, v);
}
INLINE f8 f_set(float v) {
    return _mm256_set1_ps(v);
}
INLINE f8 f_add(f8 a, f8 b) {
    return _mm256_add_ps(a, b);
}
INLINE f8 f_sub(f8 a, f8 b) {
    return _mm256_sub_ps(a, b);
}
INLINE f8 f_mul(f8 a, f8 b) {
    return _mm256_mul_ps(a, b);
}
INLINE f8 f_div(f8 a, f8 b) {
    return _mm256_div_ps(a, b);
}
/* Returns a * b + c, rounded once. f_fnma returns c - a * b, f_fms a * b - c. */
INLINE f8 f_fma(f8 a, f8 b, f8 c) {
    return _mm256_fmadd_ps(a, b, c);
}
INLINE f8 f_fnma(f8 a, f8 b, f8 c) {
    return _mm256_fnmadd_ps(a, b, c);
}
INLINE f8 f_fms(f8 a, f8 b, f8 c) {
    return _mm256_fmsub_ps(a, b, c);
}
/* Returns the larger value per lane; NaN if v is NaN. */
INLINE f8 f_max(f8 than, f8 v) {
    return _mm256_max_ps(than, v);
}
INLINE f8 f_min(f8 than, f8 v) {
    return _mm256_min_ps(than, v);
}
/* Rounds to the nearest integer, ties to even. */
INLINE f8 f_round(f8 v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* Returns 2^n for integers n from -126 to 127. */
INLINE f8 f_power(f8 n) {
    const __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
/* Returns 0 where x < limit, else v. */
INLINE f8 f_zero_below(f8 x, f8 limit, f8 v) {
    return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), v);
}

/* Selects lanes 0 .. n - 1; n may be negative or larger than 8. */
INLINE some f_first(int64_t n) {
    const int m = n < 0 ? 0 : n < 8 ? (int)n : 8;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(m), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
/* Loads the selected lanes (f_store_some stores them). Other lanes are 0, and their memory is
 * not accessed. */
INLINE f8 f_load_some(const float *p, some m) {
    return _mm256_maskload_ps(p, m);
}
INLINE void f_store_some(float *p, some m, f8 v) {
    _mm256_maskstore_ps(p, m, v);
}
INLINE f8 f_or_else(some m, f8 v, f8 other) {
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(m));
}

/* Loads p[0], p[2], .. p[14] and p[1], p[3], .. p[15]. */
INLINE void f_even_odd(const float *p, f8 *even, f8 *odd) {
    const __m256 a = f_load(p), b = f_load(p + 8);
    const __m256 lo = _mm256_permute2f128_ps(a, b, 0x20), hi = _mm256_permute2f128_ps(a, b, 0x31);
    *even = _mm256_shuffle_ps(lo, hi, 0x88);
    *odd = _mm256_shuffle_ps(lo, hi, 0xdd);
}
/* Loads p[0], p[4], .. p[28]. */
INLINE f8 f_every_4th(const float *p) {
    return _mm256_i32gather_ps(p, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28), 4);
}
/* Stores the hsum of each of four vectors at p, or adds it there. */
INLINE void f_store_sums(float *p, const f8 *s, bool add) {
    const __m128 v = reduce4(s[0], s[1], s[2], s[3]);
    _mm_storeu_ps(p, add ? _mm_add_ps(_mm_loadu_ps(p), v) : v);
}

INLINE d4 d_zero(void) {
    return _mm256_setzero_pd();
}
INLINE d4 d_low(f8 v) {
    return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}
INLINE d4 d_high(f8 v) {
    return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}
INLINE d4 d_add(d4 a, d4 b) {
    return _mm256_add_pd(a, b);
}
INLINE d4 d_fma(d4 a, d4 b, d4 c) {
    return _mm256_fmadd_pd(a, b, c);
}
/* Returns (0 + 1) + (2 + 3). */
INLINE double d_sum(d4 v) {
    double s[4];
    _mm256_storeu_pd(s, v);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

#endif
