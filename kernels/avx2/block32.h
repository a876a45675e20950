// SPDX-License-Identifier: MIT
/* kernels/avx2/block32.h - loops of the 32-weight formats; a type's file supplies codes and scales.
 *
 * A block costs one multiply-add of bytes, one of 16-bit pairs, and one f32 FMA. Blocks alternate
 * between two accumulators, so that FMA latency does not limit the loop. */
#ifndef HONE_KERNELS_AVX2_BLOCK32_H
#define HONE_KERNELS_AVX2_BLOCK32_H

#include "containers/qtype.h"
#include "kernels/avx2/avx2.h"

INLINE void block32_decode(const uint8_t *w, int64_t size, float *dst, int64_t n,
                           __m256i (*codes)(const void *), float (*scale)(const void *)) {
    for (int64_t b = 0; b < n / 32; b++, w += size, dst += 32)
        put32(dst, codes(w), _mm256_set1_ps(scale(w)));
}
/* Decodes formats with a minimum: d and m, both f16, come first. */
INLINE void block32_decode_min(const uint8_t *w, int64_t size, float *dst, int64_t n,
                               __m256i (*codes)(const void *)) {
    for (int64_t b = 0; b < n / 32; b++, w += size, dst += 32) {
        uint16_t dm[2];
        __builtin_memcpy(dm, w, 4);
        put32_add(dst, codes(w), _mm256_set1_ps(half(dm[0])), _mm256_set1_ps(half(dm[1])));
    }
}

INLINE __m256 block32_step(const uint8_t *w, const struct blk_Q8_0 *y, __m256 acc,
                           __m256i (*codes)(const void *), float (*scale)(const void *)) {
    const __m256i p = pairs(mul_s8(codes(w), load32(y->qs)));
    return _mm256_fmadd_ps(_mm256_set1_ps(scale(w) * half(y->d)), _mm256_cvtepi32_ps(p), acc);
}
INLINE float block32_dot(const uint8_t *w, int64_t size, const struct blk_Q8_0 *y, int64_t n,
                         __m256i (*codes)(const void *), float (*scale)(const void *)) {
    __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
    int64_t b = 0;
    for (; b + 1 < n / 32; b += 2) {
        even = block32_step(w + b * size, y + b, even, codes, scale);
        odd = block32_step(w + (b + 1) * size, y + b + 1, odd, codes, scale);
    }
    if (b < n / 32) even = block32_step(w + b * size, y + b, even, codes, scale);
    return hsum(_mm256_add_ps(even, odd));
}
INLINE __m256 block32_step_min(const uint8_t *w, const struct blk_Q8_1 *y, __m256 acc, float *min,
                               __m256i (*codes)(const void *)) {
    uint16_t dm[2];
    __builtin_memcpy(dm, w, 4);
    *min += half(dm[1]) * half(y->s);
    const __m256i p = pairs(mul_u8(codes(w), load32(y->qs)));
    return _mm256_fmadd_ps(_mm256_set1_ps(half(dm[0]) * half(y->d)), _mm256_cvtepi32_ps(p), acc);
}
INLINE float block32_dot_min(const uint8_t *w, int64_t size, const struct blk_Q8_1 *y, int64_t n,
                             __m256i (*codes)(const void *)) {
    __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
    float min_even = 0, min_odd = 0;
    int64_t b = 0;
    for (; b + 1 < n / 32; b += 2) {
        even = block32_step_min(w + b * size, y + b, even, &min_even, codes);
        odd = block32_step_min(w + (b + 1) * size, y + b + 1, odd, &min_odd, codes);
    }
    if (b < n / 32) even = block32_step_min(w + b * size, y + b, even, &min_even, codes);
    return hsum(_mm256_add_ps(even, odd)) + (min_even + min_odd);
}

#endif
