// SPDX-License-Identifier: MIT
/* kernels/avx2/avx2.h - small helpers shared by the AVX2 kernels: unaligned loads, half-precision
 * values, sums, and conversion of 32 integer codes to f32. Static inline functions only. */
#ifndef HONE_KERNELS_AVX2_AVX2_H
#define HONE_KERNELS_AVX2_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

/* No unrolling without optimization, nor under a sanitizer: clang takes minutes to compile unrolled
 * loops of checked accesses. */
#if !defined(__OPTIMIZE__)
#define UNROLL
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNROLL
#endif
#endif
#if defined(UNROLL)
#define ROLLED
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#define ROLLED _Pragma("GCC unroll 1")
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE __m128i load16(const void *p) {
    const __m128i_u *v = p;
    return _mm_loadu_si128(v);
}
INLINE __m256i load32(const void *p) {
    const __m256i_u *v = p;
    return _mm256_loadu_si256(v);
}
INLINE float half(uint16_t h) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

/* Returns ((0+1)+(2+3)) + ((4+5)+(6+7)). gemm depends on this order: see reduce4. */
INLINE float hsum(__m256 v) {
    __m128 lo = _mm256_castps256_ps128(v), hi = _mm256_extractf128_ps(v, 1);
    lo = _mm_hadd_ps(lo, lo);
    hi = _mm_hadd_ps(hi, hi);
    lo = _mm_hadd_ps(lo, lo);
    hi = _mm_hadd_ps(hi, hi);
    return _mm_cvtss_f32(_mm_add_ss(lo, hi));
}
/* Returns hsum of each of four vectors. */
INLINE __m128 reduce4(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}
INLINE float hsum4(__m128 v) {
    v = _mm_hadd_ps(v, v);
    return _mm_cvtss_f32(_mm_hadd_ps(v, v));
}

/* Multiplies 32 unsigned by 32 signed bytes and returns 16 sums of two products. Never saturates
 * if |u| <= 128. */
INLINE __m256i mul_u8(__m256i u, __m256i y) {
    return _mm256_maddubs_epi16(u, y);
}
/* Multiplies like mul_u8, for signed x. y is never -128, because activations are within +-127. */
INLINE __m256i mul_s8(__m256i x, __m256i y) {
    return _mm256_maddubs_epi16(_mm256_sign_epi8(x, x), _mm256_sign_epi8(y, x));
}
INLINE __m256i pairs(__m256i s16) {
    return _mm256_madd_epi16(s16, _mm256_set1_epi16(1));
}

/* Returns the 32 nibbles of 16 bytes, low ones first. */
INLINE __m256i nibbles(const void *p) {
    const __m128i q = load16(p);
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(q, 4), q);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}
/* Expands 32 bits to 32 bytes of 0x00 or 0xff. */
INLINE __m256i bit_mask(uint32_t bits) {
    const __m256i spread =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i one = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread);
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, one), one);
}

INLINE __m256 s8_to_f32(__m128i eight) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
}
/* Stores dst[0..15] = d * code. */
INLINE void put16(float *dst, __m128i s8, __m256 d) {
    _mm256_storeu_ps(dst, _mm256_mul_ps(d, s8_to_f32(s8)));
    _mm256_storeu_ps(dst + 8, _mm256_mul_ps(d, s8_to_f32(_mm_srli_si128(s8, 8))));
}
INLINE void put32(float *dst, __m256i s8, __m256 d) {
    put16(dst, _mm256_castsi256_si128(s8), d);
    put16(dst + 16, _mm256_extracti128_si256(s8, 1), d);
}
/* Stores dst[0..15] = d * code + m. The product is exact (f16 times small integers), so fusing
 * makes no difference. */
INLINE void put16_add(float *dst, __m128i s8, __m256 d, __m256 m) {
    _mm256_storeu_ps(dst, _mm256_fmadd_ps(d, s8_to_f32(s8), m));
    _mm256_storeu_ps(dst + 8, _mm256_fmadd_ps(d, s8_to_f32(_mm_srli_si128(s8, 8)), m));
}
INLINE void put32_add(float *dst, __m256i s8, __m256 d, __m256 m) {
    put16_add(dst, _mm256_castsi256_si128(s8), d, m);
    put16_add(dst + 16, _mm256_extracti128_si256(s8, 1), d, m);
}

#endif
