// SPDX-License-Identifier: MIT
/* kernels/avx512/avx512.h - small helpers for the AVX-512 kernels, in addition to avx2.h. Static
 * inline functions only. */
#ifndef HONE_KERNELS_AVX512_AVX512_H
#define HONE_KERNELS_AVX512_AVX512_H

#include "kernels/avx2/avx2.h"

INLINE __m256 fold(__m512 v) {
    return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}
INLINE float hsum512(__m512 v) {
    return hsum(fold(v));
}
/* Selects the first n of 16 lanes; n < 16. */
INLINE __mmask16 first(int64_t n) {
    return (__mmask16)((1u << n) - 1);
}

#endif
