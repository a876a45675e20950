// SPDX-License-Identifier: MIT
/* kernels/avx2/iq.h - loops of the IQ1, IQ2 and IQ3 formats for unpacked rows.
 *
 * A type's parts() extracts a block's indices, signs and scales for all 256 weights at once, so
 * a chunk of 32 weights costs little more than its lookups. Signs are applied to the
 * activations: levels stay unsigned (<= 62); those of IQ1 are signed bytes. */
#ifndef HONE_KERNELS_AVX2_IQ_H
#define HONE_KERNELS_AVX2_IQ_H

#include <string.h>

#include "base/bytes.h"
#include "containers/qtype.h"
#include "kernels/avx2/kquant.h"
#include "kernels/grid.h"

struct iq_head {
    float d;
    __m256i scale;      /* odd scales 2s+1, in the order of add_scaled */
    uint32_t sign[8];   /* bit i of word c: weight 32c + i is negative; not for IQ1 */
    uint16_t index[64]; /* grid indices, in weight order */
};
struct iq_type {
    int64_t size; /* block size in bytes */
    float unit;
    int per; /* weights per grid vector: 8 or 4; -8: signed bytes */
    void (*parts)(const void *block, struct iq_head *h);
};

/* ---- steps of parts() ---- */

/* Widens 16 bytes to 16 bits each. */
INLINE __m256i iq_widen(const void *p) {
    return _mm256_cvtepu8_epi16(load16(p));
}
INLINE void iq_index(struct iq_head *h, int i, __m256i v) {
    _mm256_storeu_si256((__m256i_u *)(void *)(h->index + 16 * i), v);
}
/* Expands 7-bit sign indices to bytes with an even number of set bits. */
INLINE void iq_parity(struct iq_head *h, __m256i t) {
    __m256i p = _mm256_xor_si256(t, _mm256_srli_epi16(t, 4));
    p = _mm256_xor_si256(p, _mm256_srli_epi16(p, 2));
    p = _mm256_and_si256(_mm256_xor_si256(p, _mm256_srli_epi16(p, 1)), _mm256_set1_epi8(1));
    _mm256_storeu_si256((__m256i_u *)(void *)h->sign, _mm256_or_si256(t, _mm256_slli_epi16(p, 7)));
}
INLINE __m256i iq_odd(__m256i s) {
    return _mm256_add_epi16(_mm256_add_epi16(s, s), _mm256_set1_epi16(1));
}
/* Combines the scales of the chunks' first and second halves, 16 bits each. */
INLINE __m256i iq_halves(__m128i first, __m128i second) {
    return iq_odd(_mm256_set_m128i(second, first));
}
/* Returns scales from eight bytes, one byte per chunk; its two nibbles scale the halves of the
 * chunk. */
INLINE __m256i iq_nibble_scales(const uint8_t *p) {
    const __m128i v = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i_u *)(const void *)p));
    return iq_halves(_mm_and_si128(v, _mm_set1_epi16(15)), _mm_srli_epi16(v, 4));
}
/* Splits the words of the eight chunks: four 7-bit sign indices, then four bits of scale. */
INLINE void iq_words(struct iq_head *h, __m256i u) {
    __m256i t = _mm256_and_si256(u, _mm256_set1_epi32(0x7f));
    t = _mm256_or_si256(t, _mm256_and_si256(_mm256_slli_epi32(u, 1), _mm256_set1_epi32(0x7f00)));
    t = _mm256_or_si256(t, _mm256_and_si256(_mm256_slli_epi32(u, 2), _mm256_set1_epi32(0x7f0000)));
    t = _mm256_or_si256(t,
                        _mm256_and_si256(_mm256_slli_epi32(u, 3), _mm256_set1_epi32(0x7f000000)));
    iq_parity(h, t);
    const __m256i s = _mm256_srli_epi32(u, 28);
    h->scale = iq_odd(_mm256_permute4x64_epi64(_mm256_packus_epi32(s, s), 0x88));
}

/* ---- the loops ---- */

/* Returns the levels of chunk c. */
INLINE __m256i iq_level(int per, const struct iq_head *h, const uint8_t *grid, int c) {
    const uint16_t *i = h->index + (per == 4 ? 8 : 4) * c;
    if (per == 4)
        return _mm256_setr_epi32(
            load_i32(grid + 4 * (size_t)i[0]), load_i32(grid + 4 * (size_t)i[1]),
            load_i32(grid + 4 * (size_t)i[2]), load_i32(grid + 4 * (size_t)i[3]),
            load_i32(grid + 4 * (size_t)i[4]), load_i32(grid + 4 * (size_t)i[5]),
            load_i32(grid + 4 * (size_t)i[6]), load_i32(grid + 4 * (size_t)i[7]));
    return _mm256_setr_epi64x(load_i64(grid + 8 * (size_t)i[0]), load_i64(grid + 8 * (size_t)i[1]),
                              load_i64(grid + 8 * (size_t)i[2]), load_i64(grid + 8 * (size_t)i[3]));
}
INLINE __m256i iq_negate(__m256i v, uint32_t sign) {
    const __m256i mask = bit_mask(sign);
    return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask);
}

/* Forces h into memory. Compilers would extract the indices from the stored vector, which is slower
 * than loading them. */
#define IN_MEMORY(h) __asm__("" : "+m"(h))

INLINE void iq_decode(struct iq_type t, const uint8_t *grid, const uint8_t *w, float *dst,
                      int64_t n) {
    /* Indices of this block and the next, which is prepared early so that lookups need not wait. */
    struct iq_head h[2];
    if (n) t.parts(w, h);
    for (int64_t b = 0; b < n / QK; b++, w += t.size) {
        const struct iq_head *x = h + b % 2;
        const float d = x->d * t.unit;
        int16_t s[16];
        if (b + 1 < n / QK) t.parts(w + t.size, h + (b + 1) % 2);
        IN_MEMORY(h);
        memcpy(s, &x->scale, sizeof s);
        UNROLL for (int c = 0; c < 8; c++, dst += 32) {
            __m256i v = iq_level(t.per, x, grid, c);
            if (t.per > 0) v = iq_negate(v, x->sign[c]);
            put16(dst, _mm256_castsi256_si128(v), _mm256_set1_ps(d * (float)s[c]));
            put16(dst + 16, _mm256_extracti128_si256(v, 1), _mm256_set1_ps(d * (float)s[8 + c]));
        }
    }
}

INLINE float iq_dot(struct iq_type t, const uint8_t *grid, const uint8_t *w,
                    const struct blk_Q8_K *y, int64_t n) {
    __m256 acc = _mm256_setzero_ps();
    struct iq_head h[2];
    if (n) t.parts(w, h);
    for (int64_t b = 0; b < n / QK; b++, w += t.size, y++) {
        const struct iq_head *x = h + b % 2;
        __m256i s = _mm256_setzero_si256();
        if (b + 1 < n / QK) t.parts(w + t.size, h + (b + 1) % 2);
        IN_MEMORY(h);
        UNROLL for (int c = 0; c < 8; c++) {
            const __m256i v = iq_level(t.per, x, grid, c), a = load32(y->qs + 32 * c);
            const __m256i p = t.per < 0 ? mul_s8(v, a) : mul_u8(v, iq_negate(a, x->sign[c]));
            s = add_scaled(s, p, x->scale, c);
        }
        acc = _mm256_fmadd_ps(_mm256_set1_ps(x->d * t.unit * y->d), _mm256_cvtepi32_ps(s), acc);
    }
    return hsum(acc);
}

/* ---- many activation rows with one row of weights ---- A few blocks are unpacked once, into bytes
 * that need no lookups, and then multiplied with every activation row. Sums are added in the same
 * order as in iq_dot, so the results have the same bits. */
enum { IQ_BLOCKS = 8, IQ_TOKENS = 32, IQ_ABREAST = 4 };

struct iq_apart { /* an unpacked block */
    /* Per chunk: magnitudes, and bytes with the weights' signs. */
    __m256i level[8], sign[8];
    __m256i scale[8]; /* scales of each chunk's products, for both halves */
    float d;
};

INLINE void iq_take_apart(struct iq_type t, const uint8_t *grid, const uint8_t *w,
                          struct iq_apart *x) {
    struct iq_head h[1];
    t.parts(w, h);
    IN_MEMORY(h);
    x->d = h->d * t.unit;
    UNROLL for (int c = 0; c < 8; c++) {
        const __m256i pick = _mm256_set1_epi16((short)((2 * c + 1) << 8 | 2 * c));
        const __m256i v = iq_level(t.per, h, grid, c);
        x->scale[c] = _mm256_shuffle_epi8(h->scale, pick);
        x->level[c] = _mm256_abs_epi8(v);
        x->sign[c] = t.per < 0 ? v : _mm256_or_si256(bit_mask(h->sign[c]), _mm256_set1_epi8(1));
    }
}

/* Multiplies n_blocks blocks by `abreast` rows, `stride` bytes apart, and adds the products to
 * acc. */
INLINE void iq_meet(int abreast, const struct iq_apart *x, int64_t n_blocks,
                    const struct blk_Q8_K *a, uint64_t stride, __m256 *acc) {
    __m256 sum[IQ_ABREAST];
    UNROLL for (int i = 0; i < abreast; i++) sum[i] = acc[i];
    for (int64_t b = 0; b < n_blocks; b++, x++) {
        const struct blk_Q8_K *y[IQ_ABREAST];
        __m256i s[IQ_ABREAST];
        UNROLL for (int i = 0; i < abreast; i++) {
            y[i] = (const void *)((const uint8_t *)(a + b) + (uint64_t)i * stride);
            s[i] = _mm256_setzero_si256();
        }
        UNROLL for (int c = 0; c < 8; c++) UNROLL for (int i = 0; i < abreast; i++) {
            const __m256i v = _mm256_sign_epi8(load32(y[i]->qs + 32 * c), x->sign[c]);
            s[i] = _mm256_add_epi32(
                s[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x->level[c], v), x->scale[c]));
        }
        UNROLL for (int i = 0; i < abreast; i++) sum[i] =
            _mm256_fmadd_ps(_mm256_set1_ps(x->d * y[i]->d), _mm256_cvtepi32_ps(s[i]), sum[i]);
    }
    UNROLL for (int i = 0; i < abreast; i++) acc[i] = sum[i];
}

/* Multiplies a weight row by at most IQ_TOKENS rows. */
INLINE void iq_some(struct iq_type t, const uint8_t *grid, const uint8_t *w, const uint8_t *a,
                    uint64_t stride, int64_t n_tok, float *out, int64_t ldo, int64_t n) {
    struct iq_apart x[IQ_BLOCKS];
    __m256 acc[IQ_TOKENS];
    for (int64_t i = 0; i < n_tok; i++) acc[i] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / QK; b += IQ_BLOCKS) {
        const int64_t nb = n / QK - b < IQ_BLOCKS ? n / QK - b : IQ_BLOCKS;
        const struct blk_Q8_K *y = (const void *)a;
        int64_t i = 0;
        for (int64_t k = 0; k < nb; k++) iq_take_apart(t, grid, w + (b + k) * t.size, &x[k]);
        for (; i + IQ_ABREAST <= n_tok; i += IQ_ABREAST)
            iq_meet(IQ_ABREAST, x, nb,
                    (const void *)(a + (uint64_t)i * stride + (uint64_t)b * sizeof *y), stride,
                    acc + i);
        for (; i < n_tok; i++)
            iq_meet(1, x, nb, (const void *)(a + (uint64_t)i * stride + (uint64_t)b * sizeof *y),
                    stride, acc + i);
    }
    for (int64_t i = 0; i < n_tok; i++) out[i * ldo] = hsum(acc[i]);
}

INLINE void iq_dots(struct iq_type t, const uint8_t *grid, const uint8_t *w, const uint8_t *a,
                    uint64_t stride, int64_t n_tok, float *out, int64_t ldo, int64_t n) {
    if (n_tok < IQ_ABREAST) {
        for (int64_t i = 0; i < n_tok; i++)
            out[i * ldo] = iq_dot(t, grid, w, (const void *)(a + (uint64_t)i * stride), n);
        return;
    }
    for (int64_t i = 0; i < n_tok; i += IQ_TOKENS)
        iq_some(t, grid, w, a + (uint64_t)i * stride, stride,
                n_tok - i < IQ_TOKENS ? n_tok - i : IQ_TOKENS, out + i * ldo, ldo, n);
}

#define IQ_OPS(TYPE, UNIT, PER, GRID)                                                              \
    static const struct iq_type iq_type = {sizeof(struct blk_##TYPE), UNIT, PER, parts};           \
    static void decode(const void *restrict w, float *restrict dst, int64_t n) {                   \
        iq_decode(iq_type, (const void *)kern_grid_get()->GRID, w, dst, n);                        \
    }                                                                                              \
    static float dot(const void *restrict w, const void *restrict y, int64_t n) {                  \
        return iq_dot(iq_type, (const void *)kern_grid_get()->GRID, w, y, n);                      \
    }                                                                                              \
    static void dots(const void *restrict w, const void *restrict a, uint64_t stride,              \
                     int64_t n_tok, float *restrict out, int64_t ldo, int64_t n) {                 \
        iq_dots(iq_type, (const void *)kern_grid_get()->GRID, w, a, stride, n_tok, out, ldo, n);   \
    }                                                                                              \
    const struct kern_ops kern_avx2_##TYPE = {                                                     \
        .decode = decode, .dot = dot, .dots = dots, .gemm = gemm, .rows = LANES}

#endif
