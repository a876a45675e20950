// SPDX-License-Identifier: MIT
/* kernels/rows/q5_k.h - packed rows of Q5_K. Of eight words of codes, five are stored one code per
 * byte; the bits of the other three fill the space above them. */
#include "kernels/rows/rows.h"

enum { BLOCK = 176, BITS = 5, SUB = 32, SIGNED = 0, OFFSET = 0 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = l_half(w);
    h->dmin = l_half(w + 2 * LANES);
    six_bits(w + 4 * LANES, h);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const uint8_t *p = w + (16 + 20 * k) * LANES;
    if (j < 5) return l_and(l_load(p + 4 * j * LANES), l_i8(31));
    const iv low = l_and(l_shr(l_load(p + 8 * (j - 5) * LANES), 5), l_i8(7));
    const iv b = l_load(p + 4 * LANES), d = l_load(p + 12 * LANES);
    if (j == 5) return l_or(low, l_and(l_shr(b, 3), l_i8(24)));
    if (j == 6) return l_or(low, l_and(l_shr(d, 3), l_i8(24)));
    return l_or(low, l_or(l_and(l_shr(b, 2), l_i8(8)), l_and(l_shr(d, 1), l_i8(16))));
}

#include "kernels/rows/kquant.h"
