// SPDX-License-Identifier: MIT
/* kernels/avx2/iq2_xs.c - IQ2_XS with AVX2: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq2_xs.c. */
#include "kernels/avx2/grid.h"
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_xs.h"

/* Splits a block into indices, signs and scales. A word has 9 bits of index and 7 of sign index. */
static inline void parts(const void *w, struct iq_head *h) {
    const struct blk_IQ2_XS *x = w;
    const __m256i a = load32(x->qs), b = load32(x->qs + 16), low = _mm256_set1_epi16(511);
    const __m256i sign = _mm256_packus_epi16(_mm256_srli_epi16(a, 9), _mm256_srli_epi16(b, 9));
    h->d = half(x->d);
    iq_index(h, 0, _mm256_and_si256(a, low));
    iq_index(h, 1, _mm256_and_si256(b, low));
    iq_parity(h, _mm256_permute4x64_epi64(sign, 0xd8));
    h->scale = iq_nibble_scales(x->scales);
}

IQ_OPS(IQ2_XS, 0.125f, 8, iq2_xs);
