// SPDX-License-Identifier: MIT
/* kernels/avx2/q2_k.c - Q2_K with AVX2: 2-bit planes of 32 bytes; scales and minima are the
 * nibbles of 16 bytes. */
#include "kernels/avx2/kquant.h"
#include "kernels/ops.h"
#include "kernels/avx2/lanes.h"
#include "kernels/rows/q2_k.h"

INLINE __m128i scales(const struct blk_Q2_K *x) {
    return _mm_and_si128(load16(x->scales), _mm_set1_epi8(15));
}

INLINE __m128i mins(const struct blk_Q2_K *x) {
    return _mm_and_si128(_mm_srli_epi16(load16(x->scales), 4), _mm_set1_epi8(15));
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q2_K *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++) {
        float sc[16], mn[16];
        put16(sc, scales(x), _mm256_set1_ps(half(x->d)));
        put16(mn, mins(x), _mm256_set1_ps(-half(x->dmin)));
        for (int h = 0; h < 2; h++) {
            __m256i q = load32(x->qs + 32 * h);
            for (int k = 8 * h; k < 8 * h + 8; k += 2, dst += 32) {
                put32_add2(dst, _mm256_and_si256(q, _mm256_set1_epi8(3)), sc + k, mn + k);
                q = _mm256_srli_epi16(q, 2);
            }
        }
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q2_K *x = w;
    const struct blk_Q8_K *y = a;
    __m256 acc = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        const __m256i sc = even_odd(scales(x));
        const __m256i sm = _mm256_madd_epi16(_mm256_cvtepi8_epi16(mins(x)), load32(y->bsums));
        __m256i s = _mm256_setzero_si256();
        UNROLL for (int h = 0; h < 2; h++) {
            __m256i q = load32(x->qs + 32 * h);
            UNROLL for (int c = 4 * h; c < 4 * h + 4; c++) {
                const __m256i u = _mm256_and_si256(q, _mm256_set1_epi8(3));
                s = add_scaled(s, mul_u8(u, load32(y->qs + 32 * c)), sc, c);
                q = _mm256_srli_epi16(q, 2);
            }
        }
        acc = _mm256_fmadd_ps(_mm256_set1_ps(half(x->d) * y->d), _mm256_cvtepi32_ps(s), acc);
        acc = _mm256_fnmadd_ps(_mm256_set1_ps(half(x->dmin) * y->d), _mm256_cvtepi32_ps(sm), acc);
    }
    return hsum(acc);
}

const struct kern_ops kern_avx2_Q2_K = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
