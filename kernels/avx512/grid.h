// SPDX-License-Identifier: MIT
/* kernels/avx512/grid.h - the steps of rows/grid.h by AVX-512 with VBMI, whose permutations read
 * tables of 128 bytes. */
#ifndef HONE_KERNELS_AVX512_GRID_H
#define HONE_KERNELS_AVX512_GRID_H

#include "kernels/avx512/lanes.h"

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
INLINE iv l_level(const int8_t *table, iv v) {
    return _mm512_permutexvar_epi8(v, _mm512_broadcast_i32x4(load16(table)));
}
INLINE iv l_flip(iv q, iv s, int m) {
    const __mmask64 negative = _mm512_test_epi8_mask(s, l_i8(1 << m));
    return _mm512_mask_sub_epi8(q, negative, l_i8(-128), q);
}
INLINE iv mixed_at(const int8_t *x, int m) {
    const iv all = _mm512_broadcast_i32x4(load16(x));
    return _mm512_shuffle_epi8(all, l_i32(0x0c040800 + 0x01010101 * m));
}

#endif
