// SPDX-License-Identifier: MIT
/* kernels/avx2/iq1_m.c - IQ1_M with AVX2: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq1_m.c. */
#include "kernels/codebook.h"
#include "kernels/avx2/grid.h"
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq1_m.h"

/* Splits a block. A nibble of qh has bits 8 to 10 of an index and, above them, the shift of the
 * levels. Each of four words holds 3-bit scales of two chunks at bits 0, 3, 6 and 9. */
static inline void parts(const void *w, struct iq_head *h) {
    const struct blk_IQ1_M *x = w;
    const __m128i qh = load16(x->qh), four = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(qh, four), high = _mm_and_si128(_mm_srli_epi16(qh, 4), four);
    const __m256i a = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(low, high)),
                  b = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(low, high));
    iq_index(h, 0, _mm256_or_si256(iq_widen(x->qs), _mm256_slli_epi16(a, 8)));
    iq_index(h, 1, _mm256_or_si256(iq_widen(x->qs + 16), _mm256_slli_epi16(b, 8)));
    const __m128i s = _mm_loadl_epi64((const __m128i_u *)(const void *)x->scales),
                  s2 = _mm_unpacklo_epi16(s, s);
    const __m128i first = _mm_mullo_epi16(s2, _mm_set1_epi32(0x00802000)),
                  second = _mm_mullo_epi16(s2, _mm_set1_epi32(0x00100400));
    h->d = half(kern_iq1_m_d(x));
    h->scale = iq_halves(_mm_srli_epi16(first, 13), _mm_srli_epi16(second, 13));
}

IQ_OPS(IQ1_M, 0.125f, -8, iq1);
