// SPDX-License-Identifier: MIT
/* kernels/rows/q3_k.h - packed rows of Q3_K. Codes are biased by 4. Of eight words of codes, six
 * are stored two per byte, and the bits of the other two fill the space above them. */
#include "kernels/rows/rows.h"

enum { BLOCK = 110, BITS = 3, SUB = 16, SIGNED = 1, OFFSET = 2 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    const iv four = l_i8(15), two = l_i8(0x30), less = l_i8(32);
    const iv a = l_load(w + 2 * LANES), b = l_load(w + 6 * LANES), c = l_load(w + 10 * LANES);
    h->scale[0] = l_or(l_and(a, four), l_and(l_shl(c, 4), two));
    h->scale[1] = l_or(l_and(b, four), l_and(l_shl(c, 2), two));
    h->scale[2] = l_or(l_and(l_shr(a, 4), four), l_and(c, two));
    h->scale[3] = l_or(l_and(l_shr(b, 4), four), l_and(l_shr(c, 2), two));
    UNROLL for (int i = 0; i < 4; i++) h->scale[i] = h->min[i] = l_sub8(h->scale[i], less);
    h->d = h->dmin = l_half(w);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const uint8_t *p = w + (14 + 12 * k) * LANES;
    if (j < 6) {
        const iv v = l_load(p + 4 * (j / 2) * LANES);
        return l_and(j % 2 ? l_shr(v, 3) : v, l_i8(7));
    }
    return l_or(l_and(l_shr(l_load(p + 4 * (j - 6) * LANES), 6), l_i8(3)),
                l_and(l_shr(l_load(p + 8 * LANES), j - 2), l_i8(4)));
}

#include "kernels/rows/kquant.h"
