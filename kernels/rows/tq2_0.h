// SPDX-License-Identifier: MIT
/* kernels/rows/tq2_0.h - packed rows of TQ2_0. Stored codes are biased by 1; a minimum of 1 * d
 * compensates. */
#include "kernels/rows/rows.h"

enum { BLOCK = 66, BITS = 2, SUB = 32, SIGNED = 0, OFFSET = 0 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_half(w + 64 * LANES);
    UNROLL for (int i = 0; i < 2; i++) h->scale[i] = h->min[i] = l_i8(1);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const iv v = l_load(w + 4 * (8 * (k / 4) + j) * LANES);
    return l_and(l_shr(v, 2 * (k % 4)), l_i8(3));
}

#include "kernels/rows/kquant.h"
