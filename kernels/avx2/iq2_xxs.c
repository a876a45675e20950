// SPDX-License-Identifier: MIT
/* kernels/avx2/iq2_xxs.c - IQ2_XXS with AVX2: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq2_xxs.c. */
#include "kernels/avx2/grid.h"
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_xxs.h"

/* Splits a block: eight pairs of four index bytes and a word. */
static inline void parts(const void *w, struct iq_head *h) {
    const struct blk_IQ2_XXS *x = w;
    const __m256 a = _mm256_castsi256_ps(load32(x->qs)),
                 b = _mm256_castsi256_ps(load32(x->qs + 16));
    const __m256i q = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)),
                  u = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)),
                  i = _mm256_permute4x64_epi64(q, 0xd8);
    h->d = half(x->d);
    iq_index(h, 0, _mm256_cvtepu8_epi16(_mm256_castsi256_si128(i)));
    iq_index(h, 1, _mm256_cvtepu8_epi16(_mm256_extracti128_si256(i, 1)));
    iq_words(h, _mm256_permute4x64_epi64(u, 0xd8));
}

IQ_OPS(IQ2_XXS, 0.125f, 8, iq2_xxs);
