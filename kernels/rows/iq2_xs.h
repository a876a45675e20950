// SPDX-License-Identifier: MIT
/* kernels/rows/iq2_xs.h - packed rows of IQ2_XS. First the low bytes of the index words, then the
 * high bytes, which hold the ninth index bit and, above it, seven sign bits. */
#include "kernels/rows/grid.h"

enum { BLOCK = 74, BITS = 7, SUB = 16, SIGNED = 0, OFFSET = 6 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.125f));
    UNROLL for (int i = 0; i < 4; i++) h->scale[i] = h->min[i] =
        odd_scales(l_load(w + (66 + 4 * (i / 2)) * LANES), 2 * ((unsigned)i % 2));
}
#if !MIXED
#define N_INDICES 8
INLINE void put_block(const uint8_t *w, struct indices *x) {
    for (int k = 0; k < 8; k++)
        put_indices(x + k, l_load(w + (2 + 4 * k) * LANES),
                    l_and(l_load(w + (34 + 4 * k) * LANES), l_i8(1)));
}
#endif
/* Returns the signs of 32 weights, one byte per eight. */
INLINE iv shared_bits(const uint8_t *w, int k) {
    const iv high = l_load(w + (34 + 4 * k) * LANES);
    return even_signs(l_and(l_shr(high, 1), l_i8(127)));
}
#if MIXED
INLINE void codes32(const uint8_t *w, int k, const struct indices *x, const struct kern_grid *g,
                    iv *q) {
    (void)x;
    const iv signs = shared_bits(w, k);
    const iv high = l_load(w + (34 + 4 * k) * LANES);
    const iv i = l_load(w + (2 + 4 * k) * LANES), ninth = l_i8(1);
    codes_iq2(look_512(g->iq2_xs_no[0], i, high, ninth), look_512(g->iq2_xs_no[1], i, high, ninth),
              signs, q);
}
#else
#define LEVEL_BITS 6
INLINE void levels8(const uint8_t *w, int k, int j, const struct indices *x,
                    const struct kern_grid *g, iv *q) {
    (void)w;
    level8(g->iq2_xs[0], x + k, j, q);
}
#endif

#include "kernels/rows/kquant.h"
