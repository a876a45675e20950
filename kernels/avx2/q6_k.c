// SPDX-License-Identifier: MIT
/* kernels/avx2/q6_k.c - Q6_K with AVX2: nibbles of ql and 2-bit planes of qh. Codes stay
 * unsigned, 0..63, in the dot (63*127*2 fits 16 bits); the sums of the activations correct the
 * -32. */
#include "kernels/avx2/kquant.h"
#include "kernels/ops.h"
#include "kernels/avx2/lanes.h"
#include "kernels/rows/q6_k.h"

/* Returns the codes of one chunk (32 weights). Chunks t and t+2 of a half, t 0 or 1, share the
 * bytes ql[32t..]; qh is already shifted right by 2t. */
INLINE __m256i low_code(__m256i ql, __m256i qh) {
    const __m256i hi = _mm256_and_si256(_mm256_slli_epi16(qh, 4), _mm256_set1_epi8(0x30));
    return _mm256_or_si256(_mm256_and_si256(ql, _mm256_set1_epi8(15)), hi);
}

INLINE __m256i high_code(__m256i ql, __m256i qh) {
    const __m256i hi = _mm256_and_si256(qh, _mm256_set1_epi8(0x30));
    return _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(ql, 4), _mm256_set1_epi8(15)), hi);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q6_K *x = blk;
    const __m256i c32 = _mm256_set1_epi8(32);
    for (int64_t b = 0; b < n / QK; b++, x++) {
        float sc[16];
        put16(sc, load16(x->scales), _mm256_set1_ps(half(x->d)));
        for (int h = 0; h < 2; h++, dst += 128) {
            __m256i qh = load32(x->qh + 32 * h);
            for (int t = 0; t < 2; t++) {
                const __m256i ql = load32(x->ql + 64 * h + 32 * t);
                put32_2(dst + 32 * t, _mm256_sub_epi8(low_code(ql, qh), c32), sc + 8 * h + 2 * t);
                put32_2(dst + 32 * t + 64, _mm256_sub_epi8(high_code(ql, qh), c32),
                        sc + 8 * h + 2 * t + 4);
                qh = _mm256_srli_epi16(qh, 2);
            }
        }
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q6_K *x = w;
    const struct blk_Q8_K *y = a;
    __m256 acc = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        const __m128i sc8 = load16(x->scales);
        const __m256i sc = even_odd(sc8);
        const __m256i off = _mm256_madd_epi16(_mm256_cvtepi8_epi16(sc8), load32(y->bsums));
        __m256i s = _mm256_slli_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), off), 5);
        UNROLL for (int h = 0; h < 2; h++) {
            __m256i qh = load32(x->qh + 32 * h);
            UNROLL for (int t = 0; t < 2; t++) {
                const __m256i ql = load32(x->ql + 64 * h + 32 * t);
                const int c = 4 * h + t;
                s = add_scaled(s, mul_u8(low_code(ql, qh), load32(y->qs + 32 * c)), sc, c);
                s = add_scaled(s, mul_u8(high_code(ql, qh), load32(y->qs + 32 * c + 64)), sc,
                               c + 2);
                qh = _mm256_srli_epi16(qh, 2);
            }
        }
        acc = _mm256_fmadd_ps(_mm256_set1_ps(half(x->d) * y->d), _mm256_cvtepi32_ps(s), acc);
    }
    return hsum(acc);
}

const struct kern_ops kern_avx2_Q6_K = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
