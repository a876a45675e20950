// SPDX-License-Identifier: MIT
/* kernels/avxvnni/lanes.h - avx2/lanes8.h, and products of four bytes added to 32 bits by one
 * instruction, as in avx512/lanes.h: it takes unsigned codes, signed ones are moved up by 128. */
#ifndef HONE_KERNELS_AVXVNNI_LANES_H
#define HONE_KERNELS_AVXVNNI_LANES_H

#include "kernels/avx2/lanes8.h"

/* Of 16 registers: two sums per token, the codes and the activations. */
enum { TILE = 6 };

INLINE int u_depth(int bits) { /* sums have 32 bits: a sub-block always fits */
    (void)bits;
    return 8;
}
INLINE iv u_first(iv w, iv x) {
    return running(_mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), w, x));
}
INLINE iv u_next(iv s, iv w, iv x) {
    return running(_mm256_dpbusd_avx_epi32(s, w, x));
}
INLINE iv u_scale(iv v, int i, bool is_signed) {
    if (is_signed) return _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * i), 24);
    return l_bytes(v, 0x80808000 | (unsigned)i);
}
INLINE iv u_end(iv sum, iv s, iv scale) {
    return running(l_add(sum, l_mul(s, scale)));
}

INLINE iv s_scale(iv v) {
    return v;
}
INLINE iv s_first(int codes_sum) {
    return l_i32(-128 * codes_sum);
}
INLINE iv s_next(iv s, iv w, iv x, iv ax, iv scale, bool whole) {
    (void)ax;
    (void)scale;
    (void)whole;
    return running(_mm256_dpbusd_avx_epi32(s, _mm256_xor_si256(w, l_i8(-128)), x));
}
INLINE iv s_end(iv sum, iv s, iv scale) {
    return l_add(sum, l_mul(s, scale));
}

#endif
