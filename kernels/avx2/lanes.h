// SPDX-License-Identifier: MIT
/* kernels/avx2/lanes.h - AVX2 primitives of kernels/rows/: lanes8.h, and products of codes, which
 * AVX2 sums in 16 bits. */
#ifndef HONE_KERNELS_AVX2_LANES_H
#define HONE_KERNELS_AVX2_LANES_H

#include "kernels/avx2/lanes8.h"

enum {
    TILE = 6,       /* tokens per weight vector in a register */
    DIRECT = 4,     /* the same if codes are unpacked on the fly; a power of 2 */
    PANEL_FROM = 9, /* number of tokens from which groups are unpacked first; measured */
    SHORT_SUMS = 1  /* products of bytes are summed in 16 bits */
};

/* Returns the number of vectors of products that fit into sums of 16 bits, for unsigned codes of
 * `bits` bits, signed bytes, and two sums per lane: n * 2 * 127 * (2^bits - 1) <= 32767. */
INLINE int u_depth(int bits) {
    return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
}
INLINE iv u_first(iv w, iv x) {
    return _mm256_maddubs_epi16(w, x);
}
INLINE iv u_next(iv s, iv w, iv x) {
    return running(_mm256_add_epi16(s, _mm256_maddubs_epi16(w, x)));
}
/* Returns byte i of a lane as a factor for u_end. */
INLINE iv u_scale(iv v, int i, bool is_signed) {
    const unsigned b = (unsigned)i;
    if (is_signed) return _mm256_srai_epi16(l_bytes(v, 0x00800080 | b << 8 | b << 24), 8);
    return l_bytes(v, 0x80008000 | b << 16 | b);
}
INLINE iv u_end(iv sum, iv s, iv scale) {
    return running(_mm256_add_epi32(sum, _mm256_madd_epi16(s, scale)));
}

/* Begins the steps for signed codes times signed bytes; sums have 32 bits. `moved` is for other
 * instruction sets (rows/vnni.h); `ax` are the activations without signs. `scale`, from s_scale
 * (-256 to 255), multiplies all sums up to s_end. `whole`: the signs of the codes are applied to
 * the activations. That is needed for codes of -128, which cannot be negated; with several tokens
 * it also saves work, as they share the codes without signs. */
INLINE iv s_scale(iv v) {
    return l_bytes(v, 0x01000100);
}
INLINE iv s_first(int moved) {
    (void)moved;
    return _mm256_setzero_si256();
}
INLINE iv s_next(iv s, iv w, iv x, iv ax, iv scale, bool whole) {
    const iv p = whole ? mul_s8(w, x) : mul_u8(ax, _mm256_sign_epi8(w, x));
    return running(_mm256_add_epi32(s, _mm256_madd_epi16(p, scale)));
}
INLINE iv s_end(iv sum, iv s, iv scale) {
    (void)scale;
    return _mm256_add_epi32(sum, s);
}

#endif
