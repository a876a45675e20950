// SPDX-License-Identifier: MIT
/* kernels/avx2/q3_k.c - Q3_K with AVX2: 2-bit planes of 32 bytes, and the third bits, one plane
 * per bit of hmask. Codes stay unsigned, 0..7, in the dot; the sums of the activations correct
 * the -4. */
#include "base/bytes.h"
#include "kernels/avx2/kquant.h"
#include "kernels/ops.h"
#include "kernels/avx2/lanes.h"
#include "kernels/rows/q3_k.h"

/* Returns the 16 scales, -32 to 31. Bytes 0 to 7 hold the low nibbles of the scales, bytes 8 to 11
 * the two high bits. */
INLINE __m128i scales(const struct blk_Q3_K *x) {
    const uint64_t low = load_u64(x->scales);
    const uint32_t high = load_u32(x->scales + 8);
    const uint64_t nib = 0x0f0f0f0f0f0f0f0f;
    const __m128i l = _mm_set_epi64x((int64_t)(low >> 4 & nib), (int64_t)(low & nib));
    const uint32_t two = 0x03030303;
    const __m128i h = _mm_setr_epi32((int)(high & two), (int)(high >> 2 & two),
                                     (int)(high >> 4 & two), (int)(high >> 6 & two));
    return _mm_sub_epi8(_mm_or_si128(l, _mm_slli_epi16(h, 4)), _mm_set1_epi8(32));
}

/* Returns the codes of a chunk (32 weights): the two lowest bits of q, plus the lowest bit of
 * hm. */
INLINE __m256i codes(__m256i q, __m256i hm) {
    const __m256i low = _mm256_and_si256(q, _mm256_set1_epi8(3));
    const __m256i high = _mm256_slli_epi16(_mm256_and_si256(hm, _mm256_set1_epi8(1)), 2);
    return _mm256_or_si256(low, high);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_Q3_K *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++) {
        float sc[16];
        put16(sc, scales(x), _mm256_set1_ps(half(x->d)));
        __m256i hm = load32(x->hmask);
        for (int h = 0; h < 2; h++) {
            __m256i q = load32(x->qs + 32 * h);
            for (int k = 8 * h; k < 8 * h + 8; k += 2, dst += 32) {
                put32_2(dst, _mm256_sub_epi8(codes(q, hm), _mm256_set1_epi8(4)), sc + k);
                q = _mm256_srli_epi16(q, 2);
                hm = _mm256_srli_epi16(hm, 1);
            }
        }
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_Q3_K *x = w;
    const struct blk_Q8_K *y = a;
    __m256 acc = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        const __m128i sc8 = scales(x);
        const __m256i sc = even_odd(sc8);
        const __m256i off = _mm256_madd_epi16(_mm256_cvtepi8_epi16(sc8), load32(y->bsums));
        __m256i s = _mm256_slli_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), off), 2);
        __m256i hm = load32(x->hmask);
        UNROLL for (int h = 0; h < 2; h++) {
            __m256i q = load32(x->qs + 32 * h);
            UNROLL for (int c = 4 * h; c < 4 * h + 4; c++) {
                s = add_scaled(s, mul_u8(codes(q, hm), load32(y->qs + 32 * c)), sc, c);
                q = _mm256_srli_epi16(q, 2);
                hm = _mm256_srli_epi16(hm, 1);
            }
        }
        acc = _mm256_fmadd_ps(_mm256_set1_ps(half(x->d) * y->d), _mm256_cvtepi32_ps(s), acc);
    }
    return hsum(acc);
}

const struct kern_ops kern_avx2_Q3_K = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
