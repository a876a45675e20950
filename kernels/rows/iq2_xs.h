// SPDX-License-Identifier: MIT
/* kernels/rows/iq2_xs.h - IQ2_XS, packed. The low bytes of the indices, then the high ones: a ninth
 * bit below seven of signs. */
#include "kernels/rows/grid.h"

enum { BLOCK = 74, SUB = 16 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.125f));
    UNROLL for (int i = 0; i < 4; i++) h->scale[i] = h->min[i] =
        odd_scales(l_load(w + (66 + 4 * (i / 2)) * LANES), 2 * ((unsigned)i % 2));
}
INLINE void mixed_codes(const uint8_t *w, int k, iv *q) {
    const struct kern_grid *g = kern_grid_get();
    const iv i = l_load(w + (2 + 4 * k) * LANES), high = l_load(w + (34 + 4 * k) * LANES);
    const iv ninth = l_i8(1), signs = even_signs(l_and(l_shr(high, 1), l_i8(127)));
    codes_iq2(look_512(g->iq2_xs_no[0], i, high, ninth), look_512(g->iq2_xs_no[1], i, high, ninth),
              signs, q);
}

#include "kernels/rows/kquant.h"
