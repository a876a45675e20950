// SPDX-License-Identifier: MIT
/* kernels/rows/q4_k.h - packed rows of Q4_K. Low nibbles are a sub-block of 32, high nibbles the
 * next one. */
#include "kernels/rows/rows.h"

enum { BLOCK = 144, BITS = 4, SUB = 32, SIGNED = 0, OFFSET = 0 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = l_half(w);
    h->dmin = l_half(w + 2 * LANES);
    six_bits(w + 4 * LANES, h);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const iv v = l_load(w + (16 + 4 * (8 * (k / 2) + j)) * LANES);
    return l_and(k % 2 ? l_shr(v, 4) : v, l_i8(15));
}

#include "kernels/rows/kquant.h"
