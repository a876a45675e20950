// SPDX-License-Identifier: MIT
/* kernels/avx2/lanes8.h - primitives of kernels/rows/ for 8 rows at a time, except the products of
 * codes (lanes.h here and in avxvnni/). A 32-bit lane belongs to one weight row and holds 4 codes,
 * a sum or a scale. Static inline functions only. */
#ifndef HONE_KERNELS_AVX2_LANES8_H
#define HONE_KERNELS_AVX2_LANES8_H

#include <stdbool.h>
#include <string.h>

#include "kernels/avx2/avx2.h"

enum { LANES = 8 };
typedef __m256i iv;
typedef __m256 fv;

INLINE iv l_load(const void *p) {
    return load32(p);
}
/* Returns the four bytes at p in every lane. */
INLINE iv l_at(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}
INLINE iv l_i8(int v) {
    return _mm256_set1_epi8((char)v);
}
INLINE iv l_i32(int v) {
    return _mm256_set1_epi32(v);
}
INLINE iv l_u16(const void *p) {
    return _mm256_cvtepu16_epi32(load16(p));
}
INLINE iv l_u8(const void *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}
INLINE fv l_half(const void *p) {
    return _mm256_cvtph_ps(load16(p));
}
INLINE iv l_and(iv a, iv b) {
    return _mm256_and_si256(a, b);
}
INLINE iv l_or(iv a, iv b) {
    return _mm256_or_si256(a, b);
}
INLINE iv l_sub8(iv a, iv b) {
    return _mm256_sub_epi8(a, b);
}
/* Shifts whole lanes; callers mask bits that cross bytes. */
INLINE iv l_shr(iv v, int n) {
    return _mm256_srli_epi32(v, n);
}
INLINE iv l_shl(iv v, int n) {
    return _mm256_slli_epi32(v, n);
}
INLINE iv l_add(iv a, iv b) {
    return _mm256_add_epi32(a, b);
}
INLINE iv l_sub(iv a, iv b) {
    return _mm256_sub_epi32(a, b);
}
INLINE iv l_mul(iv a, iv b) {
    return _mm256_mullo_epi32(a, b);
}
/* Looks up bytes in a table of 16. */
INLINE iv l_table(const int8_t *table, iv v) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(table)), v);
}
/* Returns bytes of every lane, selected by the four indices in `pick`. Index 0x80 gives 0. */
INLINE iv l_bytes(iv v, unsigned pick) {
    const __m256i own = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404,
                                          0x08080808, 0x0c0c0c0c);
    return _mm256_shuffle_epi8(v, _mm256_add_epi8(own, l_i32((int)pick)));
}
/* Returns bytes 2i and 2i + 1 of a lane, widened to 16 bits, signed or unsigned. */
INLINE iv l_pair(iv v, int i, bool is_signed) {
    const unsigned b = 2 * (unsigned)i;
    if (is_signed) return _mm256_srai_epi16(l_bytes(v, 0x00800080 | b << 8 | (b + 1) << 24), 8);
    return l_bytes(v, 0x80008000 | (b + 1) << 16 | b);
}
/* Adds two 16-bit products to each lane. */
INLINE iv l_sum16(iv s, iv a, iv b) {
    return l_add(s, _mm256_madd_epi16(a, b));
}
INLINE fv l_float(iv v) {
    return _mm256_cvtepi32_ps(v);
}
/* Returns the same bits as floats. */
INLINE fv l_bits(iv v) {
    return _mm256_castsi256_ps(v);
}
INLINE fv l_set(float v) {
    return _mm256_set1_ps(v);
}
INLINE fv l_mulf(fv a, fv b) {
    return _mm256_mul_ps(a, b);
}
INLINE fv l_fma(fv a, fv b, fv c) {
    return _mm256_fmadd_ps(a, b, c);
}
INLINE fv l_fnma(fv a, fv b, fv c) {
    return _mm256_fnmadd_ps(a, b, c);
}
INLINE fv l_loadf(const float *p) {
    return _mm256_loadu_ps(p);
}
INLINE void l_storef(float *p, fv v) {
    _mm256_storeu_ps(p, v);
}
/* Keeps a running sum in a register. Otherwise compilers first collect all terms of a sum, and run
 * out of registers. */
INLINE iv running(iv s) {
    __asm__("" : "+x"(s));
    return s;
}

#endif
