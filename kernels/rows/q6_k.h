// SPDX-License-Identifier: MIT
/* kernels/rows/q6_k.h - Q6_K, packed. Codes are 32 too large. */
#include "kernels/rows/rows.h"

enum { BLOCK = 210, BITS = 6, SUB = 16, SIGNED = 1, OFFSET = 5 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    UNROLL for (int i = 0; i < 4; i++) h->scale[i] = h->min[i] = l_load(w + (192 + 4 * i) * LANES);
    h->d = h->dmin = l_half(w + 208 * LANES);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    const int half = k / 4, plane = k % 4;
    const iv low = l_load(w + 4 * (16 * half + 8 * (plane % 2) + j) * LANES);
    const iv high = l_load(w + (128 + 4 * (8 * half + j)) * LANES);
    return l_or(
        l_and(plane < 2 ? low : l_shr(low, 4), l_i8(15)),
        l_and(plane < 2 ? l_shl(high, 4 - 2 * plane) : l_shr(high, 2 * plane - 4), l_i8(0x30)));
}

#include "kernels/rows/kquant.h"
