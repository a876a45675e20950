// SPDX-License-Identifier: MIT
/* kernels/amx/fold.h - codes times the integer scale of their sub-block, as bytes, so that four
 * products of tiles sum a whole block of 256. A product has up to 13 bits and a sign: a plane of
 * low bytes, unsigned, and one of high bytes, product = low + 256 * high. Sums of a plane:
 * 256 * 127 * 255 < 2^23, so of both together below 2^31. */
#ifndef HONE_KERNELS_AMX_FOLD_H
#define HONE_KERNELS_AMX_FOLD_H

INLINE iv even_bytes(iv v) {
    return l_and(v, l_i32(0x00ff00ff));
}
/* Multiplies the signed bytes q by the scale of each row, which s has in both halves of the
 * row's lane. The products go to `low` and, with two planes, their high bytes to `high`. */
INLINE void fold(iv q, iv s, int planes, iv *low, iv *high) {
    const iv even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(q, 8), 8), s);
    const iv odd = _mm512_mullo_epi16(_mm512_srai_epi16(q, 8), s);
    *low = l_or(even_bytes(even), _mm512_slli_epi16(odd, 8));
    if (planes == 2) *high = l_or(_mm512_srli_epi16(even, 8), l_and(odd, l_i32((int)0xff00ff00)));
}

#endif
