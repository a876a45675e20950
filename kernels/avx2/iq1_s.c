// SPDX-License-Identifier: MIT
/* kernels/avx2/iq1_s.c - IQ1_S with AVX2: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq1_s.c. */
#include "kernels/avx2/grid.h"
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq1_s.h"

/* Returns 16 indices. Bits 8..10 of the j-th of four are in qh, starting at bit 3j; the highest bit
 * of qh, which shifts the levels, becomes bit 11. */
INLINE __m256i index16(const struct blk_IQ1_S *x, int i) {
    const __m128i qh = _mm_loadl_epi64((const __m128i_u *)(const void *)(x->qh + 4 * i));
    const __m256i four = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4,
                                          5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
    const __m256i h = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(qh), four);
    const __m256i up = _mm256_mullo_epi16(h, _mm256_set1_epi64x(0x0000000400200100)),
                  down = _mm256_and_si256(_mm256_srli_epi16(h, 1),
                                          _mm256_set1_epi64x(0x0700000000000000));
    const __m256i high = _mm256_or_si256(_mm256_and_si256(up, _mm256_set1_epi16(0x700)), down);
    const __m256i shift = _mm256_and_si256(_mm256_srli_epi16(h, 4), _mm256_set1_epi16(0x800));
    return _mm256_or_si256(iq_widen(x->qs + 16 * i), _mm256_or_si256(high, shift));
}
/* Splits a block into scale, grid indices and sub-block scales. */
static inline void parts(const void *w, struct iq_head *h) {
    const struct blk_IQ1_S *x = w;
    const __m128i s = _mm_and_si128(_mm_srli_epi16(load16(x->qh), 12), _mm_set1_epi16(7));
    h->d = half(x->d);
    UNROLL for (int i = 0; i < 2; i++) iq_index(h, i, index16(x, i));
    h->scale = iq_halves(s, s);
}

IQ_OPS(IQ1_S, 0.125f, -8, iq1);
