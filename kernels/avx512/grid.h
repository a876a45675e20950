// SPDX-License-Identifier: MIT
/* kernels/avx512/grid.h - primitives of rows/looks.h for AVX-512 with VBMI, whose permutations
 * read tables of 128 bytes. */
#ifndef HONE_KERNELS_AVX512_GRID_H
#define HONE_KERNELS_AVX512_GRID_H

#include "kernels/avx512/lanes.h"

#define LOOKS

INLINE iv l_xor(iv a, iv b) {
    return _mm512_xor_si512(a, b);
}
INLINE iv l_look(const uint8_t *table, iv i) {
    const iv a = _mm512_permutex2var_epi8(l_load(table), i, l_load(table + 64));
    const iv b = _mm512_permutex2var_epi8(l_load(table + 128), i, l_load(table + 192));
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(i), a, b);
}
INLINE iv l_where(iv v, iv bits, iv a, iv b) {
    return _mm512_mask_blend_epi8(_mm512_test_epi8_mask(v, bits), a, b);
}
INLINE iv l_either(iv m, iv a, iv b) {
    return _mm512_ternarylogic_epi32(m, a, b, 0xca);
}
INLINE iv l_code(const uint8_t *table, iv v) {
    return _mm512_permutexvar_epi8(v, l_load(table));
}
INLINE void mix(const int8_t *x, int8_t *to) {
    const __m128i order = _mm_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15);
    _mm_storeu_si128((__m128i *)(void *)to, _mm_shuffle_epi8(load16(x), order));
}

#endif
