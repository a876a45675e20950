// SPDX-License-Identifier: MIT
/* kernels/avx2/iq2_s.c - IQ2_S with AVX2: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq2_s.c. */
#include "kernels/avx2/grid.h"
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_s.h"

/* Returns 16 indices. Bits 8 and 9 of an index are one of the four pairs in a byte of qh. */
INLINE __m256i index16(const struct blk_IQ2_S *x, int i) {
    const __m128i four = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m128i h = _mm_shuffle_epi8(_mm_cvtsi32_si128(load_i32(x->qh + 4 * i)), four);
    const __m256i up = _mm256_set1_epi64x(0x0004001000400100);
    const __m256i high = _mm256_mullo_epi16(_mm256_cvtepu8_epi16(h), up);
    return _mm256_or_si256(iq_widen(x->qs + 16 * i),
                           _mm256_and_si256(high, _mm256_set1_epi16(0x300)));
}
/* Splits a block into scale, grid indices, signs and sub-block scales. */
static inline void parts(const void *w, struct iq_head *h) {
    const struct blk_IQ2_S *x = w;
    h->d = half(x->d);
    UNROLL for (int i = 0; i < 2; i++) iq_index(h, i, index16(x, i));
    memcpy(h->sign, x->qs + 32, sizeof h->sign);
    h->scale = iq_nibble_scales(x->scales);
}

IQ_OPS(IQ2_S, 0.125f, 8, iq2_s);
