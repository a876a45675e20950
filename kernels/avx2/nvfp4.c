// SPDX-License-Identifier: MIT
/* kernels/avx2/nvfp4.c - NVFP4 with AVX2: one Q8_0 block of activations spans two scales of 16
 * weights. Packed rows: rows/nvfp4.h. */
#include "kernels/avx2/lanes.h"
#include "kernels/codebook.h"
#include "kernels/ops.h"
#include "kernels/rows/nvfp4.h"

/* Returns the codes of weights 32h..32h+31 of a block. They are in bytes 16h..16h+15: the low
 * nibbles of eight bytes hold eight weights, their high nibbles the next eight. */
INLINE __m256i codes(const struct blk_NVFP4 *x, int h) {
    const __m128i level = load16(kern_fp4_level), mask = _mm_set1_epi8(15),
                  q = load16(x->qs + 16 * h);
    const __m128i lo = _mm_and_si128(q, mask), hi = _mm_and_si128(_mm_srli_epi16(q, 4), mask);
    const __m256i c = _mm256_set_m128i(_mm_unpackhi_epi64(lo, hi), _mm_unpacklo_epi64(lo, hi));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(level), c);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_NVFP4 *x = blk;
    for (int64_t b = 0; b < n / 64; b++, x++, dst += 64)
        for (int h = 0; h < 2; h++) {
            const __m256i c = codes(x, h);
            put16(dst + 32 * h, _mm256_castsi256_si128(c),
                  _mm256_set1_ps(kern_ue4m3_half(x->d[2 * h])));
            put16(dst + 32 * h + 16, _mm256_extracti128_si256(c, 1),
                  _mm256_set1_ps(kern_ue4m3_half(x->d[2 * h + 1])));
        }
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_NVFP4 *x = w;
    const struct blk_Q8_0 *y = a;
    __m256 acc = _mm256_setzero_ps();
    for (int64_t b = 0; b < n / 32; b++, y++) {
        const int h = (int)(b % 2);
        const struct blk_NVFP4 *xb = x + b / 2;
        const float dy = half(y->d);
        const __m256 d = _mm256_set_m128(_mm_set1_ps(kern_ue4m3_half(xb->d[2 * h + 1]) * dy),
                                         _mm_set1_ps(kern_ue4m3_half(xb->d[2 * h]) * dy));
        const __m256i p = pairs(mul_s8(codes(xb, h), load32(y->qs)));
        acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(p), acc);
    }
    return hsum(acc);
}

const struct kern_ops kern_avx2_NVFP4 = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
