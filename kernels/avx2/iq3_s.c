// SPDX-License-Identifier: MIT
/* kernels/avx2/iq3_s.c - IQ3_S with AVX2: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq3_s.c. */
#include "kernels/avx2/grid.h"
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq3_s.h"

/* Returns 16 indices. Bit 8 of an index is one of the eight bits in a byte of qh. */
INLINE __m256i index16(const struct blk_IQ3_S *x, int i) {
    const __m128i eight = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i h = _mm_shuffle_epi8(_mm_cvtsi32_si128(load_u16(x->qh + 2 * i)), eight);
    const __m256i up = _mm256_broadcastsi128_si256(_mm_setr_epi16(256, 128, 64, 32, 16, 8, 4, 2));
    const __m256i high = _mm256_mullo_epi16(_mm256_cvtepu8_epi16(h), up);
    return _mm256_or_si256(iq_widen(x->qs + 16 * i),
                           _mm256_and_si256(high, _mm256_set1_epi16(0x100)));
}
/* Splits a block into scale, grid indices, signs and sub-block scales. */
static inline void parts(const void *w, struct iq_head *h) {
    const struct blk_IQ3_S *x = w;
    const __m128i s = _mm_cvtsi32_si128(load_i32(x->scales)), four = _mm_set1_epi8(15);
    const __m128i scale = _mm_cvtepu8_epi16(
        _mm_unpacklo_epi8(_mm_and_si128(s, four), _mm_and_si128(_mm_srli_epi16(s, 4), four)));
    h->d = half(x->d);
    UNROLL for (int i = 0; i < 4; i++) iq_index(h, i, index16(x, i));
    memcpy(h->sign, x->signs, sizeof h->sign);
    h->scale = iq_halves(scale, scale);
}

IQ_OPS(IQ3_S, 1.0f, 4, iq3_s);
