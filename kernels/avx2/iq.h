// SPDX-License-Identifier: MIT
/* kernels/avx2/iq.h - the loops of the IQ1, IQ2 and IQ3 formats; a type's file gives, for a chunk
 * of 32 weights, the level bytes (looked up 8 or 4 at a time), the sign mask, and the odd scales
 * 2s+1 of its two halves. Signs are applied to the activations: levels stay unsigned (<= 62).
 * Lookups bound the speed. */
#ifndef HONE_KERNELS_AVX2_IQ_H
#define HONE_KERNELS_AVX2_IQ_H

#include "core/bytes.h"
#include "core/qtype.h"
#include "kernels/avx2/avx2.h"
#include "kernels/grid.h"

struct iq_chunk {
    __m256i level, sign; /* sign: 0xff where negative */
    int scale[2];
};

/* The sign masks of four 7-bit indices. */
INLINE __m256i iq_sign7(const struct kern_grid *g, uint32_t u) {
    return _mm256_setr_epi64x(load_i64(g->sign_mask[u & 127]), load_i64(g->sign_mask[u >> 7 & 127]),
                              load_i64(g->sign_mask[u >> 14 & 127]),
                              load_i64(g->sign_mask[u >> 21 & 127]));
}
INLINE __m256i negate(__m256i v, __m256i mask) {
    return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask);
}

/* Signed levels (IQ1) as magnitudes and signs. */
INLINE struct iq_chunk iq_signed(__m256i v, int s0, int s1) {
    const __m256i sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), v);
    return (struct iq_chunk){_mm256_abs_epi8(v), sign, {s0, s1}};
}
/* The super scale of most types: the block begins with it. */
INLINE uint16_t iq_first(const void *w) {
    return load_u16(w);
}

INLINE void iq_decode(const uint8_t *w, int64_t size, float unit, float *dst, int64_t n,
                      uint16_t (*super)(const void *),
                      struct iq_chunk (*chunk)(const void *, const struct kern_grid *, int)) {
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, w += size) {
        const float d = half(super(w)) * unit;
        for (int c = 0; c < 8; c++, dst += 32) {
            const struct iq_chunk x = chunk(w, g, c);
            const __m256i v = negate(x.level, x.sign);
            put16(dst, _mm256_castsi256_si128(v), _mm256_set1_ps(d * (float)x.scale[0]));
            put16(dst + 16, _mm256_extracti128_si256(v, 1), _mm256_set1_ps(d * (float)x.scale[1]));
        }
    }
}

INLINE float iq_dot(const uint8_t *w, int64_t size, float unit, const struct blk_Q8_K *y, int64_t n,
                    uint16_t (*super)(const void *),
                    struct iq_chunk (*chunk)(const void *, const struct kern_grid *, int)) {
    const struct kern_grid *g = kern_grid_get();
    __m256 acc = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / QK; b++, w += size, y++) {
        __m256i s = _mm256_setzero_si256();
        for (int c = 0; c < 8; c++) {
            const struct iq_chunk x = chunk(w, g, c);
            const __m256i p = mul_u8(x.level, negate(load32(y->qs + 32 * c), x.sign));
            const __m256i sc = _mm256_set_m128i(_mm_set1_epi16((short)x.scale[1]),
                                                _mm_set1_epi16((short)x.scale[0]));
            s = _mm256_add_epi32(s, _mm256_madd_epi16(p, sc));
        }
        const float d = half(super(w)) * unit * y->d;
        acc = _mm256_fmadd_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(s), acc);
    }
    return hsum(acc);
}

#endif
