// SPDX-License-Identifier: MIT
/* kernels/avx2/iq3_xxs.c - IQ3_XXS by AVX2; loops in iq.h, layout in kernels/ref/iq3_xxs.c. */
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"

static inline void head(const void *w, struct iq_head *h) {
    const struct blk_IQ3_XXS *x = w;
    h->d = half(x->d);
    UNROLL for (int i = 0; i < 4; i++) iq_index(h, i, iq_widen(x->qs + 16 * i));
    iq_words(h, load32(x->qs + 64));
}

IQ_OPS(IQ3_XXS, 0.25f, 4, iq3_xxs);
