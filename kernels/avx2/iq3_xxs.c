// SPDX-License-Identifier: MIT
/* kernels/avx2/iq3_xxs.c - IQ3_XXS with AVX2: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq3_xxs.c. */
#include "kernels/avx2/grid.h"
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq3_xxs.h"

/* Splits a block into scale, grid indices, signs and sub-block scales. */
static inline void parts(const void *w, struct iq_head *h) {
    const struct blk_IQ3_XXS *x = w;
    h->d = half(x->d);
    UNROLL for (int i = 0; i < 4; i++) iq_index(h, i, iq_widen(x->qs + 16 * i));
    iq_words(h, load32(x->qs + 64));
}

IQ_OPS(IQ3_XXS, 0.25f, 4, iq3_xxs);
