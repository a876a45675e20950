// SPDX-License-Identifier: MIT
/* kernels/avx2/q5_k.c - Q5_K with AVX2: like q4_k.c, with fifth bits in one plane per bit of qh. */
#include "kernels/avx2/kquant.h"
#include "kernels/ops.h"
#include "kernels/avx2/lanes.h"
#include "kernels/rows/q5_k.h"

/* Returns the fifth bits of chunk c: the lowest bits of qh, shifted right by c. */
INLINE __m256i fifth(__m256i qh) {
    return _mm256_slli_epi16(_mm256_and_si256(qh, _mm256_set1_epi8(1)), 4);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q5_K *x = blk;
    const __m256i nib = _mm256_set1_epi8(15);
    for (int64_t b = 0; b < n / QK; b++, x++) {
        float f[16]; /* 8 scales, then 8 minima */
        const __m128i sm = scales_mins(x->scales);
        _mm256_storeu_ps(f, _mm256_mul_ps(_mm256_set1_ps(half(x->d)), s8_to_f32(sm)));
        _mm256_storeu_ps(
            f + 8, _mm256_mul_ps(_mm256_set1_ps(-half(x->dmin)), s8_to_f32(_mm_srli_si128(sm, 8))));
        __m256i qh = load32(x->qh);
        for (int k = 0; k < 8; k += 2, dst += 64) {
            const __m256i q = load32(x->qs + 16 * k);
            const __m256i lo = _mm256_or_si256(_mm256_and_si256(q, nib), fifth(qh));
            const __m256i hi = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(q, 4), nib),
                                               fifth(_mm256_srli_epi16(qh, 1)));
            put32_add(dst, lo, _mm256_set1_ps(f[k]), _mm256_set1_ps(f[8 + k]));
            put32_add(dst + 32, hi, _mm256_set1_ps(f[k + 1]), _mm256_set1_ps(f[9 + k]));
            qh = _mm256_srli_epi16(qh, 2);
        }
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q5_K *x = w;
    const struct blk_Q8_K *y = a;
    const __m256i nib = _mm256_set1_epi8(15);
    __m256 acc = _mm256_setzero_ps();
    __m128 acc_min = _mm_setzero_ps();
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        const __m256i sm = _mm256_cvtepi8_epi16(scales_mins(x->scales));
        const __m128i m = _mm_madd_epi16(_mm256_extracti128_si256(sm, 1), sums_of_32(y));
        acc_min = _mm_fmadd_ps(_mm_set1_ps(half(x->dmin) * y->d), _mm_cvtepi32_ps(m), acc_min);
        const __m256i sc = _mm256_permute2x128_si256(sm, sm, 0);
        __m256i s = _mm256_setzero_si256();
        __m256i qh = load32(x->qh);
        UNROLL for (int k = 0; k < 8; k += 2) {
            const __m256i q = load32(x->qs + 16 * k);
            const __m256i lo = _mm256_or_si256(_mm256_and_si256(q, nib), fifth(qh));
            const __m256i hi = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(q, 4), nib),
                                               fifth(_mm256_srli_epi16(qh, 1)));
            s = add_scaled(s, mul_u8(lo, load32(y->qs + 32 * k)), sc, k);
            s = add_scaled(s, mul_u8(hi, load32(y->qs + 32 * k + 32)), sc, k + 1);
            qh = _mm256_srli_epi16(qh, 2);
        }
        acc = _mm256_fmadd_ps(_mm256_set1_ps(half(x->d) * y->d), _mm256_cvtepi32_ps(s), acc);
    }
    return hsum(acc) - hsum4(acc_min);
}

const struct kern_ops kern_avx2_Q5_K = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
