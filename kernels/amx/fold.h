// SPDX-License-Identifier: MIT
/* kernels/amx/fold.h - AMX products of 256-weight types with integer scales; see tiles.h.
 *
 * Unpacking multiplies codes by the scale of their sub-block, so that four tile products sum up a
 * whole block. Such a product has up to 13 bits and a sign. It is split into a plane of unsigned
 * low bytes and one of high bytes, product = low + 256 * high. Sums of a plane: 256 * 127 * 255 <
 * 2^23, so both together stay below 2^31. Included once by a type's file after these definitions:
 *   PLANES                 1 (products are signed bytes) or 2
 *   struct tiled           a block, with code[PLANES][64]
 *   finish_block(p, s, a, acc)  acc + the block, s: its sums with the activations at a */
#ifndef HONE_KERNELS_AMX_FOLD_H
#define HONE_KERNELS_AMX_FOLD_H

#include "kernels/amx/tiles.h"

/* Multiplier of codes: the scale's magnitude in the even and in the odd bytes, and a mask of the
 * bytes whose codes must first be negated. */
struct multiplier {
    iv even, odd;
    __mmask64 flip;
};

/* Returns the multiplier for s, whose lanes hold a row's scale in each of their four bytes.
 * negated: all products change sign. */
INLINE struct multiplier multiplier_of(iv s, bool is_signed, bool negated) {
    struct multiplier m;
    const __mmask64 below = _mm512_movepi8_mask(s);
    const iv size = is_signed ? _mm512_abs_epi8(s) : s;
    m.even = l_and(size, l_i32(0x00ff00ff));
    m.odd = l_and(size, l_i32((int)0xff00ff00));
    m.flip = negated ? ~below : below;
    return m;
}

/* Multiplies the signed bytes q. Stores the products in `low` and, with two planes, their high
 * bytes in `high`. */
INLINE void fold(iv q, struct multiplier m, bool is_signed, int planes, iv *low, iv *high) {
    const __mmask64 odd_bytes = 0xaaaaaaaaaaaaaaaau;
    if (is_signed) q = _mm512_mask_sub_epi8(q, m.flip, l_i32(0), q);
    const iv even = _mm512_maddubs_epi16(m.even, q), odd = _mm512_maddubs_epi16(m.odd, q);
    *low = _mm512_mask_blend_epi8(odd_bytes, even, _mm512_slli_epi16(odd, 8));
    if (planes == 2) *high = _mm512_mask_blend_epi8(odd_bytes, _mm512_srli_epi16(even, 8), odd);
}

/* Two groups of sixteen tokens are multiplied together, so that each load of codes serves two
 * products. */
enum { ABREAST = 2, STEPS = 4 };
struct sums {
    iv sum[PLANES][ABREAST * HALF];
    const struct tiled *p;
    struct half half[ABREAST];
};

INLINE void finish_token(const struct sums *s, int h, int t, fv *acc, const struct kern_act *x) {
    const int i = HALF * h + t;
    const iv low = s->sum[0][i], high = s->sum[PLANES - 1][i];
    *acc = finish_block(s->p, PLANES == 2 ? l_add(low, l_shl(high, 8)) : low, x, *acc);
}

INLINE void first_step(bool two) {
    _tile_zero(0);
    if (PLANES == 2) _tile_zero(1);
    if (two) _tile_zero(2);
    if (two && PLANES == 2) _tile_zero(3);
}
INLINE void step(bool two, struct sums *s, int i, size_t ld) {
    TILE_LOAD(6, s->p->code[0] + 16 * i, 64);
    if (PLANES == 2) TILE_LOAD(7, s->p->code[PLANES - 1] + 16 * i, 64);
    TILE_LOAD(4, s->half[0].x->qs + 64 * i, ld);
    if (two) TILE_LOAD(5, s->half[1].x->qs + 64 * i, ld);
    if (PLANES == 2) {
        _tile_dpbsud(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        if (two) _tile_dpbsud(2, 5, 6);
        if (two) _tile_dpbssd(3, 5, 7);
    } else {
        _tile_dpbssd(0, 4, 6);
        if (two) _tile_dpbssd(2, 5, 6);
    }
}
INLINE void last_step(bool two, struct sums *s) {
    TILE_STORE(0, s->sum[0]);
    if (PLANES == 2) TILE_STORE(1, s->sum[PLANES - 1]);
    if (two) TILE_STORE(2, s->sum[0] + HALF);
    if (two && PLANES == 2) TILE_STORE(3, s->sum[PLANES - 1] + HALF);
}

#endif
