// SPDX-License-Identifier: MIT
/* kernels/rows/q2_k.h - packed rows of Q2_K. A scale byte holds the scale in its low nibble and the
 * minimum in its high nibble. */
#include "kernels/rows/rows.h"

enum { BLOCK = 84, BITS = 2, SUB = 16, SIGNED = 0, OFFSET = 0 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    UNROLL for (int i = 0; i < 4; i++) {
        const iv v = l_load(w + 4 * i * LANES);
        h->scale[i] = l_and(v, l_i8(15));
        h->min[i] = l_and(l_shr(v, 4), l_i8(15));
    }
    h->d = l_half(w + 80 * LANES);
    h->dmin = l_half(w + 82 * LANES);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const iv v = l_load(w + (16 + 4 * (8 * (k / 4) + j)) * LANES);
    return l_and(l_shr(v, 2 * (k % 4)), l_i8(3));
}

#include "kernels/rows/kquant.h"
