// SPDX-License-Identifier: MIT
/* kernels/rows/iq2_s.h - IQ2_S, packed. */
#include "kernels/rows/grid.h"

enum { BLOCK = 82, SUB = 16 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.125f));
    UNROLL for (int i = 0; i < 4; i++) h->scale[i] = h->min[i] =
        odd_scales(l_load(w + (74 + 4 * (i / 2)) * LANES), 2 * ((unsigned)i % 2));
}
INLINE void mixed_codes(const uint8_t *w, int k, iv *q) {
    const struct kern_grid *g = kern_grid_get();
    const iv i = l_load(w + (2 + 4 * k) * LANES), signs = l_load(w + (34 + 4 * k) * LANES);
    const iv high =
        l_bytes(l_load(w + (66 + 4 * (k / 4)) * LANES), 0x01010101u * (unsigned)(k % 4));
    const iv ninth = l_i32(0x40100401), tenth = l_i32((int)0x80200802);
    codes_iq2(look_1024(g->iq2_s_no[0], i, high, ninth, tenth),
              look_1024(g->iq2_s_no[1], i, high, ninth, tenth), signs, q);
}

#include "kernels/rows/kquant.h"
