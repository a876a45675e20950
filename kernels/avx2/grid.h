// SPDX-License-Identifier: MIT
/* kernels/avx2/grid.h - AVX2 primitives for rows/grid.h and rows/loads.h. */
#ifndef HONE_KERNELS_AVX2_GRID_H
#define HONE_KERNELS_AVX2_GRID_H

#include "base/bytes.h"
#include "kernels/avx2/lanes.h"

INLINE iv l_xor(iv a, iv b) {
    return _mm256_xor_si256(a, b);
}
INLINE iv l_add8(iv a, iv b) {
    return _mm256_add_epi8(a, b);
}
INLINE void l_store(void *p, iv v) {
    _mm256_storeu_si256(p, v);
}
INLINE iv l_low(iv a, iv b) {
    return _mm256_unpacklo_epi8(a, b);
}
INLINE iv l_high(iv a, iv b) {
    return _mm256_unpackhi_epi8(a, b);
}
INLINE iv l_bit(iv v, iv bits) {
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bits), bits);
}
INLINE __m256i four_rows(const uint8_t *t, unsigned a, unsigned b, unsigned c, unsigned d) {
    return _mm256_setr_epi64x(load_i64(t + 8 * (size_t)a), load_i64(t + 8 * (size_t)b),
                              load_i64(t + 8 * (size_t)c), load_i64(t + 8 * (size_t)d));
}
/* Passes vectors through running(); otherwise compilers store them and load them again. */
INLINE void l_eight(const uint8_t *t, const unsigned *i, iv *q) {
    const __m256 x = _mm256_castsi256_ps(running(four_rows(t, i[0], i[1], i[4], i[5]))),
                 y = _mm256_castsi256_ps(running(four_rows(t, i[2], i[3], i[6], i[7])));
    q[0] = running(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)));
    q[1] = running(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd)));
}
INLINE iv l_four(const uint8_t *t, const unsigned *i) {
    return _mm256_setr_epi32(load_i32(t + 4 * (size_t)i[0]), load_i32(t + 4 * (size_t)i[1]),
                             load_i32(t + 4 * (size_t)i[2]), load_i32(t + 4 * (size_t)i[3]),
                             load_i32(t + 4 * (size_t)i[4]), load_i32(t + 4 * (size_t)i[5]),
                             load_i32(t + 4 * (size_t)i[6]), load_i32(t + 4 * (size_t)i[7]));
}

#endif
