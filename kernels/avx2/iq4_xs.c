// SPDX-License-Identifier: MIT
/* kernels/avx2/iq4_xs.c - IQ4_XS with AVX2: a byte shuffle maps nibbles to levels; signed
 * products. */
#include "base/bytes.h"
#include "kernels/codebook.h"
#include "kernels/avx2/kquant.h"
#include "kernels/ops.h"
#include "kernels/avx2/lanes.h"
#include "kernels/rows/iq4_xs.h"

/* Returns the 8 scales, from -32 to 31, as 16-bit lanes. */
INLINE __m128i scales(const struct blk_IQ4_XS *x) {
    const __m128i low = _mm_set1_epi32((int)load_u32(x->scales_l)),
                  high = _mm_set1_epi16((short)x->scales_h);
    /* Lane b takes nibble b%2 of byte b/2 of scales_l, then bits 2b of scales_h. Multiplying by
     * a power of two and shifting right moves each field down. */
    const __m128i spread = _mm_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1);
    __m128i l = _mm_shuffle_epi8(low, spread);
    l = _mm_srli_epi16(_mm_mullo_epi16(l, _mm_setr_epi16(16, 1, 16, 1, 16, 1, 16, 1)), 4);
    l = _mm_and_si128(l, _mm_set1_epi16(15));
    __m128i h = _mm_mullo_epi16(
        high, _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 4, 1));
    h = _mm_and_si128(_mm_srli_epi16(h, 10), _mm_set1_epi16(0x30));
    return _mm_sub_epi16(_mm_or_si128(l, h), _mm_set1_epi16(32));
}

INLINE __m256i codes(const struct blk_IQ4_XS *x, int k) {
    const __m256i level = _mm256_broadcastsi128_si256(load16(kern_iq4_level));
    return _mm256_shuffle_epi8(level, nibbles(x->qs + 16 * k));
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_IQ4_XS *x = blk;
    for (int64_t b = 0; b < n / QK; b++, x++) {
        float sc[8];
        const __m256 s = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(scales(x)));
        _mm256_storeu_ps(sc, _mm256_mul_ps(_mm256_set1_ps(half(x->d)), s));
        for (int k = 0; k < 8; k++, dst += 32) put32(dst, codes(x, k), _mm256_set1_ps(sc[k]));
    }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_IQ4_XS *x = w;
    const struct blk_Q8_K *y = a;
    __m256 acc = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / QK; b++, x++, y++) {
        const __m256i sc = _mm256_broadcastsi128_si256(scales(x));
        __m256i s = _mm256_setzero_si256();
        UNROLL for (int k = 0; k < 8; k++) s =
            add_scaled(s, mul_s8(codes(x, k), load32(y->qs + 32 * k)), sc, k);
        acc = _mm256_fmadd_ps(_mm256_set1_ps(half(x->d) * y->d), _mm256_cvtepi32_ps(s), acc);
    }
    return hsum(acc);
}

const struct kern_ops kern_avx2_IQ4_XS = {
    .decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
