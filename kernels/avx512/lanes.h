// SPDX-License-Identifier: MIT
/* kernels/avx512/lanes.h - primitives of kernels/rows/ for 16 rows at a time, with the names of
 * avx2/lanes8.h, and the products of rows/vnni.h. */
#ifndef HONE_KERNELS_AVX512_LANES_H
#define HONE_KERNELS_AVX512_LANES_H

#include <stdbool.h>
#include <string.h>

#include "kernels/avx2/avx2.h"

enum { LANES = 16, TILE = 8, DIRECT = 8, PANEL_FROM = 17 }; /* see avx2/lanes.h */
typedef __m512i iv;
typedef __m512 fv;

INLINE iv l_load(const void *p) {
    return _mm512_loadu_si512(p);
}
INLINE iv l_at(const void *p) {
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}
INLINE iv l_i8(int v) {
    return _mm512_set1_epi8((char)v);
}
INLINE iv l_i32(int v) {
    return _mm512_set1_epi32(v);
}
INLINE iv l_u16(const void *p) {
    return _mm512_cvtepu16_epi32(load32(p));
}
INLINE iv l_u8(const void *p) {
    return _mm512_cvtepu8_epi32(load16(p));
}
INLINE fv l_half(const void *p) {
    return _mm512_cvtph_ps(load32(p));
}
INLINE iv l_and(iv a, iv b) {
    return _mm512_and_si512(a, b);
}
INLINE iv l_or(iv a, iv b) {
    return _mm512_or_si512(a, b);
}
INLINE iv l_sub8(iv a, iv b) {
    return _mm512_sub_epi8(a, b);
}
INLINE iv l_shr(iv v, int n) {
    return _mm512_srli_epi32(v, (unsigned)n);
}
INLINE iv l_shl(iv v, int n) {
    return _mm512_slli_epi32(v, (unsigned)n);
}
INLINE iv l_add(iv a, iv b) {
    return _mm512_add_epi32(a, b);
}
INLINE iv l_sub(iv a, iv b) {
    return _mm512_sub_epi32(a, b);
}
INLINE iv l_mul(iv a, iv b) {
    return _mm512_mullo_epi32(a, b);
}
INLINE iv l_table(const int8_t *table, iv v) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load16(table)), v);
}
INLINE iv l_bytes(iv v, unsigned pick) {
    const __m512i own = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    return _mm512_shuffle_epi8(v, _mm512_add_epi8(own, l_i32((int)pick)));
}
INLINE iv l_pair(iv v, int i, bool is_signed) {
    const unsigned b = 2 * (unsigned)i;
    if (is_signed) return _mm512_srai_epi16(l_bytes(v, 0x00800080 | b << 8 | (b + 1) << 24), 8);
    return l_bytes(v, 0x80008000 | (b + 1) << 16 | b);
}
INLINE iv l_sum16(iv s, iv a, iv b) {
    return _mm512_dpwssd_epi32(s, a, b);
}
INLINE fv l_float(iv v) {
    return _mm512_cvtepi32_ps(v);
}
INLINE fv l_bits(iv v) {
    return _mm512_castsi512_ps(v);
}
INLINE fv l_set(float v) {
    return _mm512_set1_ps(v);
}
INLINE fv l_mulf(fv a, fv b) {
    return _mm512_mul_ps(a, b);
}
INLINE fv l_fma(fv a, fv b, fv c) {
    return _mm512_fmadd_ps(a, b, c);
}
INLINE fv l_fnma(fv a, fv b, fv c) {
    return _mm512_fnmadd_ps(a, b, c);
}
INLINE fv l_loadf(const float *p) {
    return _mm512_loadu_ps(p);
}
INLINE void l_storef(float *p, fv v) {
    _mm512_storeu_ps(p, v);
}

INLINE iv running(iv s) {
    return s;
}
INLINE iv l_dot(iv s, iv w, iv x) {
    return _mm512_dpbusd_epi32(s, w, x);
}
INLINE iv l_signed(iv v, int i) {
    return _mm512_srai_epi32(_mm512_slli_epi32(v, 24u - 8u * (unsigned)i), 24);
}

#include "kernels/rows/vnni.h"

#endif
