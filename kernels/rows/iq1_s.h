// SPDX-License-Identifier: MIT
/* kernels/rows/iq1_s.h - packed rows of IQ1_S. A 16-bit word per 32 weights holds the high bits of
 * four indices, the scale, and the sign of the shift. */
#include "kernels/rows/loads.h"

enum { BLOCK = 50, BITS = 5, SUB = 32, SIGNED = 0, OFFSET = 4 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.125f));
    UNROLL for (int i = 0; i < 2; i++) {
        iv s = l_i32(0);
        UNROLL for (int k = 0; k < 4; k++) {
            const iv word = l_u16(w + (34 + 2 * (4 * i + k)) * LANES);
            s = l_or(s, l_shl(l_and(l_shr(word, 12), l_i32(7)), 8 * k));
        }
        h->scale[i] = h->min[i] = l_or(l_add(s, s), l_i8(1));
    }
}
#define N_INDICES 8
INLINE void put_block(const uint8_t *w, struct indices *x) {
    for (int k = 0; k < 8; k++) {
        const iv word = l_u16(w + (34 + 2 * k) * LANES);
        put_indices(x + k, l_load(w + (2 + 4 * k) * LANES), three_in_each(word));
    }
}
INLINE iv shared_bits(const uint8_t *w, int k) {
    const iv down = l_and(l_shr(l_u16(w + (34 + 2 * k) * LANES), 14), l_i32(2));
    return l_sub8(l_i8(MORE_1), l_bytes(down, 0));
}
INLINE void codes8(const uint8_t *w, int k, int j, iv up, const struct indices *x,
                   const struct kern_grid *g, iv *q) {
    (void)w;
    iq1_codes(g, x + k, j, up, q);
}

#include "kernels/rows/kquant.h"
