// SPDX-License-Identifier: MIT
/* kernels/rows/q5_k.h - Q5_K, packed. As Q4_K; bit k of qh's bytes is the fifth bit of sub-block k.
 */
#include "kernels/rows/rows.h"

enum { BLOCK = 176, BITS = 5, SUB = 32, SIGNED = 0, OFFSET = 0 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = l_half(w);
    h->dmin = l_half(w + 2 * LANES);
    six_bits(w + 4 * LANES, h);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const iv v = l_load(w + (48 + 4 * (8 * (k / 2) + j)) * LANES);
    const iv high = l_load(w + (16 + 4 * j) * LANES);
    return l_or(l_and(k % 2 ? l_shr(v, 4) : v, l_i8(15)),
                l_and(k < 4 ? l_shl(high, 4 - k) : l_shr(high, k - 4), l_i8(16)));
}

#include "kernels/rows/kquant.h"
