// SPDX-License-Identifier: MIT
/* tests/isa-emu/emu.h - the intrinsics that kernels/avxvnni/ and kernels/avx512/ use, implemented
 * with AVX2. Included before a file of these folders, so that it compiles for a processor with only
 * AVX2. A vector of 512 bits is two of 256; none of the operations in use moves lanes between the
 * halves. Code that uses an intrinsic missing here does not compile.
 *
 * Intrinsics that are not just two AVX2 instructions follow the pseudocode in Intel's manual;
 * self.c compares them with plain C. */
#ifndef HONE_TESTS_ISA_EMU_EMU_H
#define HONE_TESTS_ISA_EMU_EMU_H

#include <stdbool.h>
#include <stdint.h>

/* How often each family of instructions was played: proof that these ran and no others. */
struct emu_count {
    uint64_t dot256, dot512, fma512, tile;
};
extern _Thread_local struct emu_count emu_count;
extern bool emu_break_tiles; /* every product of tiles is one too large */
int emu_wrong(void);         /* lanes in which the emulation is not what plain C says (self.c) */

#ifdef __AVX2__ /* the rest is for the files that play, not for those that ask */
#include <immintrin.h>
#include <string.h>

/* Pairs of vectors in unrolled loops take gcc minutes; in loops, it does not see what is set. */
#define UNROLL
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define EMU static inline __attribute__((always_inline))

/* Aligned as the real ones, so that the sanitizer sees addresses that are not. */
typedef struct {
    _Alignas(64) __m256i h[2];
} emu_m512i;
typedef struct {
    _Alignas(64) __m256 h[2];
} emu_m512;
#define __m512i emu_m512i
#define __m512 emu_m512

#define EMU_PAIR(T, a, b)                                                                          \
    (T) {                                                                                          \
        { a, b }                                                                                   \
    }
/* One vector, two vectors, a vector and a constant, nothing but a scalar. */
#define EMU_1(name, R, T, of)                                                                      \
    EMU R emu_##name(T a) {                                                                        \
        return EMU_PAIR(R, of(a.h[0]), of(a.h[1]));                                                \
    }
#define EMU_2(name, T, of)                                                                         \
    EMU T emu_##name(T a, T b) {                                                                   \
        return EMU_PAIR(T, of(a.h[0], b.h[0]), of(a.h[1], b.h[1]));                                \
    }
#define EMU_SHIFT(name, of)                                                                        \
    EMU __m512i emu_##name(__m512i a, unsigned n) {                                                \
        return EMU_PAIR(__m512i, of(a.h[0], (int)n), of(a.h[1], (int)n));                          \
    }
#define EMU_SET(name, T, S, of)                                                                    \
    EMU T emu_##name(S v) {                                                                        \
        return EMU_PAIR(T, of(v), of(v));                                                          \
    }

EMU_2(add_epi8, __m512i, _mm256_add_epi8)
EMU_2(maddubs_epi16, __m512i, _mm256_maddubs_epi16)
EMU_2(add_epi32, __m512i, _mm256_add_epi32)
EMU_2(sub_epi8, __m512i, _mm256_sub_epi8)
EMU_2(sub_epi32, __m512i, _mm256_sub_epi32)
EMU_2(mullo_epi32, __m512i, _mm256_mullo_epi32)
EMU_2(madd_epi16, __m512i, _mm256_madd_epi16)
EMU_2(and_si512, __m512i, _mm256_and_si256)
EMU_2(or_si512, __m512i, _mm256_or_si256)
EMU_2(xor_si512, __m512i, _mm256_xor_si256)
EMU_2(shuffle_epi8, __m512i, _mm256_shuffle_epi8)   /* within 128 bits in both */
EMU_2(unpacklo_epi8, __m512i, _mm256_unpacklo_epi8) /* so are these */
EMU_2(unpackhi_epi8, __m512i, _mm256_unpackhi_epi8)
EMU_2(mul_ps, __m512, _mm256_mul_ps)
EMU_1(abs_epi8, __m512i, __m512i, _mm256_abs_epi8)
EMU_1(cvtepi32_ps, __m512, __m512i, _mm256_cvtepi32_ps)
EMU_SHIFT(slli_epi16, _mm256_slli_epi16)
EMU_SHIFT(srli_epi16, _mm256_srli_epi16)
EMU_SHIFT(slli_epi32, _mm256_slli_epi32)
EMU_SHIFT(srli_epi32, _mm256_srli_epi32)
EMU_SHIFT(srai_epi32, _mm256_srai_epi32)
EMU_SHIFT(srai_epi16, _mm256_srai_epi16)
EMU_SET(set1_epi8, __m512i, char, _mm256_set1_epi8)
EMU_SET(set1_epi32, __m512i, int, _mm256_set1_epi32)
EMU_SET(set1_ps, __m512, float, _mm256_set1_ps)
EMU_SET(broadcast_i32x4, __m512i, __m128i, _mm256_broadcastsi128_si256)

EMU __m512i emu_set4_epi32(int d, int c, int b, int a) {
    const __m256i v = _mm256_set_epi32(d, c, b, a, d, c, b, a);
    return EMU_PAIR(__m512i, v, v);
}
EMU __m512i emu_setzero_si512(void) {
    return EMU_PAIR(__m512i, _mm256_setzero_si256(), _mm256_setzero_si256());
}
EMU __m512 emu_setzero_ps(void) {
    return EMU_PAIR(__m512, _mm256_setzero_ps(), _mm256_setzero_ps());
}
EMU __m512i emu_loadu_si512(const void *p) {
    __m512i v;
    memcpy(&v, p, sizeof v);
    return v;
}
EMU __m512 emu_loadu_ps(const void *p) {
    __m512 v;
    memcpy(&v, p, sizeof v);
    return v;
}
EMU void emu_storeu_ps(void *p, __m512 v) {
    memcpy(p, &v, sizeof v);
}
/* Lanes that are not asked for are not touched. */
EMU __m512 emu_maskz_loadu_ps(__mmask16 m, const float *p) {
    float v[16] = {0};
    for (int i = 0; i < 16; i++)
        if (m >> i & 1) v[i] = p[i];
    return emu_loadu_ps(v);
}
EMU __m512i emu_cvtepu16_epi32(__m256i v) {
    return EMU_PAIR(__m512i, _mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                    _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}
EMU __m512i emu_cvtepu8_epi32(__m128i v) {
    return EMU_PAIR(__m512i, _mm256_cvtepu8_epi32(v),
                    _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(v, v)));
}
EMU __m512 emu_cvtph_ps(__m256i v) {
    return EMU_PAIR(__m512, _mm256_cvtph_ps(_mm256_castsi256_si128(v)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}
EMU __m256 emu_castps512_ps256(__m512 v) {
    return v.h[0];
}
EMU __m256 emu_extractf32x8_ps(__m512 v, int half) {
    return v.h[half];
}
EMU __m512 emu_fmadd_ps(__m512 a, __m512 b, __m512 c) {
    emu_count.fma512++;
    return EMU_PAIR(__m512, _mm256_fmadd_ps(a.h[0], b.h[0], c.h[0]),
                    _mm256_fmadd_ps(a.h[1], b.h[1], c.h[1]));
}
EMU __m512 emu_fnmadd_ps(__m512 a, __m512 b, __m512 c) {
    return EMU_PAIR(__m512, _mm256_fnmadd_ps(a.h[0], b.h[0], c.h[0]),
                    _mm256_fnmadd_ps(a.h[1], b.h[1], c.h[1]));
}

/* VPDPBUSD: every 32-bit lane of c and its four products of an unsigned byte of u and a signed one
 * of s, without saturation. A product has 16 bits and a sign, two of them fit maddwd's 32. */
EMU __m256i emu_dot256(__m256i c, __m256i u, __m256i s) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return _mm256_add_epi32(c, _mm256_add_epi32(even, odd));
}
EMU __m256i emu_dpbusd_avx_epi32(__m256i c, __m256i u, __m256i s) {
    emu_count.dot256++;
    return emu_dot256(c, u, s);
}
EMU __m512i emu_dpbusd_epi32(__m512i c, __m512i u, __m512i s) {
    emu_count.dot512++;
    return EMU_PAIR(__m512i, emu_dot256(c.h[0], u.h[0], s.h[0]),
                    emu_dot256(c.h[1], u.h[1], s.h[1]));
}

/* VBMI, and masks of bytes: bit i is of byte i. */
EMU __m512i emu_permutex2var_epi8(__m512i a, __m512i i, __m512i b) {
    uint8_t table[128], at[64], out[64];
    memcpy(table, &a, 64);
    memcpy(table + 64, &b, 64);
    memcpy(at, &i, 64);
    for (int j = 0; j < 64; j++) out[j] = table[at[j] & 127];
    return emu_loadu_si512(out);
}
EMU __m512i emu_permutexvar_epi8(__m512i i, __m512i a) {
    uint8_t table[64], at[64], out[64];
    memcpy(table, &a, 64);
    memcpy(at, &i, 64);
    for (int j = 0; j < 64; j++) out[j] = table[at[j] & 63];
    return emu_loadu_si512(out);
}
EMU __mmask64 emu_movepi8_mask(__m512i v) {
    return (uint32_t)_mm256_movemask_epi8(v.h[0]) | (uint64_t)(uint32_t)_mm256_movemask_epi8(v.h[1])
                                                        << 32;
}
EMU __mmask64 emu_test_epi8_mask(__m512i a, __m512i b) {
    const __m512i both = emu_and_si512(a, b);
    const __m256i zero = _mm256_setzero_si256();
    return ~emu_movepi8_mask(
        EMU_PAIR(__m512i, _mm256_cmpeq_epi8(both.h[0], zero), _mm256_cmpeq_epi8(both.h[1], zero)));
}
EMU __m512i emu_mask_blend_epi8(__mmask64 m, __m512i a, __m512i b) {
    uint8_t x[64], y[64];
    memcpy(x, &a, 64);
    memcpy(y, &b, 64);
    for (int j = 0; j < 64; j++)
        if (m >> j & 1) x[j] = y[j];
    return emu_loadu_si512(x);
}
EMU __m512i emu_mask_sub_epi8(__m512i other, __mmask64 m, __m512i a, __m512i b) {
    return emu_mask_blend_epi8(m, other, emu_sub_epi8(a, b));
}
EMU __m512i emu_dpwssd_epi32(__m512i c, __m512i a, __m512i b) {
    return emu_add_epi32(c, emu_madd_epi16(a, b));
}
/* Only 0xca: the bits of a where m has them, elsewhere those of b. */
EMU __m512i emu_ternarylogic_epi32(__m512i m, __m512i a, __m512i b, int how) {
    (void)how;
    return EMU_PAIR(
        __m512i,
        _mm256_or_si256(_mm256_and_si256(m.h[0], a.h[0]), _mm256_andnot_si256(m.h[0], b.h[0])),
        _mm256_or_si256(_mm256_and_si256(m.h[1], a.h[1]), _mm256_andnot_si256(m.h[1], b.h[1])));
}
EMU __m512 emu_castsi512_ps(__m512i v) {
    return EMU_PAIR(__m512, _mm256_castsi256_ps(v.h[0]), _mm256_castsi256_ps(v.h[1]));
}

EMU __m512i emu_castps_si512(__m512 v) {
    return EMU_PAIR(__m512i, _mm256_castps_si256(v.h[0]), _mm256_castps_si256(v.h[1]));
}
EMU __m512i emu_castsi128_si512(__m128i v) {
    return EMU_PAIR(__m512i, _mm256_zextsi128_si256(v), _mm256_setzero_si256());
}
EMU void emu_storeu_si512(void *p, __m512i v) {
    memcpy(p, &v, sizeof v);
}
EMU __m512i emu_mask_broadcastq_epi64(__m512i v, __mmask8 m, __m128i a) {
    int64_t x[8];
    memcpy(x, &v, sizeof x);
    for (int i = 0; i < 8; i++)
        if (m >> i & 1) memcpy(x + i, &a, sizeof x[i]);
    return emu_loadu_si512(x);
}

/* AMX (tiles.c). Misuse that a processor answers with an exception ends the program. */
void emu_tile_config(const void *config);
void emu_tile_release(void);
void emu_tile_zero(int t);
int emu_tile_rows(int t, int *row_bytes); /* of a tile that must be configured */
extern _Thread_local uint8_t emu_tile[8][16][64];
void emu_tile_dot(int c, int a, int b, bool a_signed, bool b_signed);

/* Here, not in tiles.c, so that the sanitizer sees what kernels load and store. */
EMU void emu_tile_load(int t, const void *p, size_t stride) {
    int bytes;
    const int rows = emu_tile_rows(t, &bytes);
    memset(emu_tile[t], 0, sizeof emu_tile[t]);
    for (int r = 0; r < rows; r++)
        memcpy(emu_tile[t][r], (const uint8_t *)p + (size_t)r * stride, (size_t)bytes);
}
EMU void emu_tile_store(int t, void *p, size_t stride) {
    int bytes;
    const int rows = emu_tile_rows(t, &bytes);
    for (int r = 0; r < rows; r++)
        memcpy((uint8_t *)p + (size_t)r * stride, emu_tile[t][r], (size_t)bytes);
}
#undef _tile_loadconfig
#define _tile_loadconfig emu_tile_config
#undef _tile_release
#define _tile_release emu_tile_release
#undef _tile_zero
#define _tile_zero emu_tile_zero
#undef _tile_loadd
#define _tile_loadd emu_tile_load
#undef _tile_stored
#define _tile_stored emu_tile_store
#undef _tile_dpbssd
#define _tile_dpbssd(c, a, b) emu_tile_dot(c, a, b, true, true)
#undef _tile_dpbsud
#define _tile_dpbsud(c, a, b) emu_tile_dot(c, a, b, true, false)

/* Some are macros in immintrin.h, which ones depends on the compiler and on -O. */
#undef _mm512_add_epi8
#define _mm512_add_epi8 emu_add_epi8
#undef _mm512_add_epi32
#define _mm512_add_epi32 emu_add_epi32
#undef _mm512_and_si512
#define _mm512_and_si512 emu_and_si512
#undef _mm512_broadcast_i32x4
#define _mm512_broadcast_i32x4 emu_broadcast_i32x4
#undef _mm512_castps512_ps256
#define _mm512_castps512_ps256 emu_castps512_ps256
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emu_cvtepi32_ps
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 emu_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 emu_cvtepu8_epi32
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32 emu_dpbusd_epi32
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps emu_fmadd_ps
#undef _mm512_fnmadd_ps
#define _mm512_fnmadd_ps emu_fnmadd_ps
#undef _mm512_loadu_ps
#define _mm512_loadu_ps emu_loadu_ps
#undef _mm512_loadu_si512
#define _mm512_loadu_si512 emu_loadu_si512
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps emu_maskz_loadu_ps
#undef _mm512_mul_ps
#define _mm512_mul_ps emu_mul_ps
#undef _mm512_maddubs_epi16
#define _mm512_maddubs_epi16 emu_maddubs_epi16
#undef _mm512_abs_epi8
#define _mm512_abs_epi8 emu_abs_epi8
#undef _mm512_mask_sub_epi8
#define _mm512_mask_sub_epi8 emu_mask_sub_epi8
#undef _mm512_dpwssd_epi32
#define _mm512_dpwssd_epi32 emu_dpwssd_epi32
#undef _mm512_mullo_epi32
#define _mm512_mullo_epi32 emu_mullo_epi32
#undef _mm512_or_si512
#define _mm512_or_si512 emu_or_si512
#undef _mm512_set1_epi32
#define _mm512_set1_epi32 emu_set1_epi32
#undef _mm512_set1_epi8
#define _mm512_set1_epi8 emu_set1_epi8
#undef _mm512_set1_ps
#define _mm512_set1_ps emu_set1_ps
#undef _mm512_set4_epi32
#define _mm512_set4_epi32 emu_set4_epi32
#undef _mm512_setzero_ps
#define _mm512_setzero_ps emu_setzero_ps
#undef _mm512_setzero_si512
#define _mm512_setzero_si512 emu_setzero_si512
#undef _mm512_shuffle_epi8
#define _mm512_shuffle_epi8 emu_shuffle_epi8
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 emu_srai_epi32
#undef _mm512_storeu_ps
#define _mm512_storeu_ps emu_storeu_ps
#undef _mm512_sub_epi32
#define _mm512_sub_epi32 emu_sub_epi32
#undef _mm512_sub_epi8
#define _mm512_sub_epi8 emu_sub_epi8
#undef _mm512_xor_si512
#define _mm512_xor_si512 emu_xor_si512
#undef _mm512_permutex2var_epi8
#define _mm512_permutex2var_epi8 emu_permutex2var_epi8
#undef _mm512_permutexvar_epi8
#define _mm512_permutexvar_epi8 emu_permutexvar_epi8
#undef _mm512_movepi8_mask
#define _mm512_movepi8_mask emu_movepi8_mask
#undef _mm512_test_epi8_mask
#define _mm512_test_epi8_mask emu_test_epi8_mask
#undef _mm512_mask_blend_epi8
#define _mm512_mask_blend_epi8 emu_mask_blend_epi8
#undef _mm512_ternarylogic_epi32
#define _mm512_ternarylogic_epi32 emu_ternarylogic_epi32
#undef _mm512_castsi512_ps
#define _mm512_castsi512_ps emu_castsi512_ps
#undef _mm512_castps_si512
#define _mm512_castps_si512 emu_castps_si512
#undef _mm512_castsi128_si512
#define _mm512_castsi128_si512 emu_castsi128_si512
#undef _mm512_storeu_si512
#define _mm512_storeu_si512 emu_storeu_si512
#undef _mm512_mask_broadcastq_epi64
#define _mm512_mask_broadcastq_epi64 emu_mask_broadcastq_epi64
#undef _mm512_unpacklo_epi8
#define _mm512_unpacklo_epi8 emu_unpacklo_epi8
#undef _mm512_unpackhi_epi8
#define _mm512_unpackhi_epi8 emu_unpackhi_epi8
#undef _mm512_shuffle_ps /* within 128 bits in both */
#define _mm512_shuffle_ps(a, b, how)                                                               \
    EMU_PAIR(__m512, _mm256_shuffle_ps((a).h[0], (b).h[0], how),                                   \
             _mm256_shuffle_ps((a).h[1], (b).h[1], how))
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32 emu_dpbusd_avx_epi32
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps emu_cvtph_ps
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps emu_extractf32x8_ps
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 emu_slli_epi16
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 emu_srli_epi16
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 emu_slli_epi32
#undef _mm512_srai_epi16
#define _mm512_srai_epi16 emu_srai_epi16
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 emu_srli_epi32
#endif

#endif
