// SPDX-License-Identifier: MIT
/* kernels/avx512/loads.h - AVX-512 primitives of rows/loads.h for IQ1. */
#ifndef HONE_KERNELS_AVX512_LOADS_H
#define HONE_KERNELS_AVX512_LOADS_H

#include "kernels/avx512/lanes.h"

#define ONLY_IQ1

INLINE iv l_add8(iv a, iv b) {
    return _mm512_add_epi8(a, b);
}
INLINE void l_store(void *p, iv v) {
    _mm512_storeu_si512(p, v);
}
INLINE iv l_low(iv a, iv b) {
    return _mm512_unpacklo_epi8(a, b);
}
INLINE iv l_high(iv a, iv b) {
    return _mm512_unpackhi_epi8(a, b);
}
INLINE __m128i eight_at(const uint8_t *t, unsigned i) {
    return _mm_loadl_epi64((const __m128i_u *)(const void *)(t + 8 * (size_t)i));
}
/* Loads eight weights each of rows i[0], i[1], i[4], i[5], i[8] and so on. Masked loads do not use
 * the single port for shuffles. */
INLINE fv eight_rows(const uint8_t *t, const unsigned *i) {
    __m512i v = _mm512_castsi128_si512(eight_at(t, i[0]));
    UNROLL for (int r = 1; r < 8; r++) v =
        _mm512_mask_broadcastq_epi64(v, (__mmask8)(1 << r), eight_at(t, i[r % 2 + r / 2 * 4]));
    return l_bits(v);
}
INLINE void l_eight(const uint8_t *t, const unsigned *i, iv *q) {
    const fv x = eight_rows(t, i), y = eight_rows(t, i + 2);
    q[0] = _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88));
    q[1] = _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd));
}

#endif
