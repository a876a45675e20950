// SPDX-License-Identifier: MIT
/* kernels/rows/q6_k.h - packed rows of Q6_K. Codes are biased by 32. Of four words of codes, three
 * are stored one code per byte; the fourth is stored above them, two bits at a time. */
#include "kernels/rows/rows.h"

enum { BLOCK = 210, BITS = 6, SUB = 16, SIGNED = 1, OFFSET = 5 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_half(w);
    UNROLL for (int i = 0; i < 4; i++) h->scale[i] = h->min[i] = l_load(w + (2 + 4 * i) * LANES);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const uint8_t *p = w + (18 + 12 * (2 * k + j / 4)) * LANES;
    if (j % 4 < 3) return l_and(l_load(p + 4 * (j % 4) * LANES), l_i8(63));
    return l_or(
        l_or(l_and(l_shr(l_load(p), 6), l_i8(3)), l_and(l_shr(l_load(p + 4 * LANES), 4), l_i8(12))),
        l_and(l_shr(l_load(p + 8 * LANES), 2), l_i8(48)));
}

#include "kernels/rows/kquant.h"
