// SPDX-License-Identifier: MIT
/* kernels/rows/iq2_xxs.h - packed rows of IQ2_XXS. Of every eight bytes, four are indices and four
 * hold signs and a scale. */
#include "kernels/rows/grid.h"

enum { BLOCK = 66, BITS = 7, SUB = 32, SIGNED = 0, OFFSET = 6 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.125f));
    top_scales(w + 6 * LANES, 2, h);
}
/* Returns the signs of 32 weights, one byte per eight. */
INLINE iv shared_bits(const uint8_t *w, int k) {
    return packed_signs(l_load(w + (6 + 8 * k) * LANES));
}
#if MIXED
INLINE void codes32(const uint8_t *w, int k, const struct indices *x, const struct kern_grid *g,
                    iv *q) {
    (void)x;
    const iv signs = shared_bits(w, k);
    const iv i = l_load(w + (2 + 8 * k) * LANES);
    codes_iq2(l_look(g->iq2_xxs_no[0], i), l_look(g->iq2_xxs_no[1], i), signs, q);
}
#else
#define LEVEL_BITS 6
INLINE void levels8(const uint8_t *w, int k, int j, const struct indices *x,
                    const struct kern_grid *g, iv *q) {
    (void)x;
    level8_by_bytes(g->iq2_xxs, w + (2 + 8 * k) * LANES, j, q);
}
#endif

#include "kernels/rows/kquant.h"
