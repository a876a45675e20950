// SPDX-License-Identifier: MIT
/* kernels/rows/tq1_0.h - packed rows of TQ1_0. A digit is a code plus 1; a minimum of 1 * d
 * compensates. A byte is a fraction of 256 with five base-3 digits: digit n is the
 * carry when the remainder, byte * 3^n modulo 256, is multiplied by 3. */
#include "kernels/rows/rows.h"

enum { BLOCK = 54, BITS = 2, SUB = 32, SIGNED = 0, OFFSET = 0 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_half(w + 52 * LANES);
    UNROLL for (int i = 0; i < 2; i++) h->scale[i] = h->min[i] = l_i8(1);
}
/* Returns three times the remainder of every other byte; digit n of each starts at bit 8. */
INLINE iv carried(iv bytes, int n) {
    static const int power[5] = {1, 3, 9, 27, 81};
    const iv low = l_i32(0x00ff00ff);
    iv v = l_and(bytes, low);
    if (n) v = l_and(l_mul(v, l_i32(power[n])), low);
    return l_add(v, l_add(v, v));
}
/* Returns the base-3 digits of weights 4 (8 k + j) to 4 (8 k + j) + 3 in each lane. Weights 0 to
 * 159 are stored in 32 bytes, five per byte; weights 160 to 239 in 16 bytes, five per byte; the
 * rest in 4 bytes, four per byte. */
INLINE iv code(const uint8_t *w, int k, int j) {
    const int at = 4 * (8 * k + j) - 160;
    const int unit = at < 0 ? j : at < 80 ? 8 + at % 16 / 4 : 12;
    const int n = at < 0 ? k : at < 80 ? at / 16 : (at - 80) / 4;
    const iv v = l_load(w + 4 * unit * LANES);
    return l_or(l_and(l_shr(carried(v, n), 8), l_i32(0x00030003)),
                l_and(carried(l_shr(v, 8), n), l_i32(0x03000300)));
}

#include "kernels/rows/kquant.h"
