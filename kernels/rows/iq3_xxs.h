// SPDX-License-Identifier: MIT
/* kernels/rows/iq3_xxs.h - packed rows of IQ3_XXS. First all indices, then signs and scales. */
#include "kernels/rows/grid.h"

enum { BLOCK = 98, BITS = 7, SUB = 32, SIGNED = 0, OFFSET = 6 };

#if MIXED
#define PLUS 68, 76, 84, 92, 100, 108, 116, 126
#define MINUS 60, 52, 44, 36, 28, 20, 12, 2
static const uint8_t iq3_code[2][64] = {{BIT_0(PLUS, MINUS)}, {BIT_1(PLUS, MINUS)}};
#endif

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.25f));
    top_scales(w + 66 * LANES, 1, h);
}
/* Returns the signs of 32 weights, one byte per eight. */
INLINE iv shared_bits(const uint8_t *w, int k) {
    return packed_signs(l_load(w + (66 + 4 * k) * LANES));
}
#if MIXED
INLINE void codes32(const uint8_t *w, int k, const struct indices *x, const struct kern_grid *g,
                    iv *q) {
    (void)x;
    const iv signs = shared_bits(w, k);
    UNROLL for (int half = 0; half < 2; half++) {
        const iv i = mixed_index(w + (2 + 4 * (2 * k + half)) * LANES);
        codes_iq3(iq3_code, l_look(g->iq3_xxs_no[0], i), l_look(g->iq3_xxs_no[1], i), signs, half,
                  q + 4 * half);
    }
}
#else
#define LEVEL_BITS 6
INLINE void levels8(const uint8_t *w, int k, int j, const struct indices *x,
                    const struct kern_grid *g, iv *q) {
    (void)x;
    const uint8_t *at = w + (2 + 4 * (2 * k + j / 2)) * LANES;
    UNROLL for (int i = 0; i < 2; i++) q[i] = level4_by_bytes(g->iq3_xxs, at, 2 * (j % 2) + i);
}
#endif

#include "kernels/rows/kquant.h"
