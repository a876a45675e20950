// SPDX-License-Identifier: MIT
/* kernels/rows/iq2_xxs.h - IQ2_XXS, packed. Of eight bytes four are indices, four signs and a
 * scale. */
#include "kernels/rows/grid.h"

enum { BLOCK = 66, SUB = 32 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.125f));
    top_scales(w + 6 * LANES, 2, h);
}
INLINE void mixed_codes(const uint8_t *w, int k, iv *q) {
    const struct kern_grid *g = kern_grid_get();
    const iv i = l_load(w + (2 + 8 * k) * LANES), s = l_load(w + (6 + 8 * k) * LANES);
    codes_iq2(l_look(g->iq2_xxs_no[0], i), l_look(g->iq2_xxs_no[1], i), packed_signs(s), q);
}

#include "kernels/rows/kquant.h"
