// SPDX-License-Identifier: MIT
/* kernels/rows/iq1_m.h - packed rows of IQ1_M. A nibble per 8 weights holds the high bits of an
 * index and the sign of the shift. Four 16-bit words hold four scales each and a nibble of d. */
#include "kernels/rows/loads.h"

enum { BLOCK = 56, BITS = 5, SUB = 16, SIGNED = 0, OFFSET = 4 };

INLINE void head(const uint8_t *w, struct rows_head *h) {
    iv d = l_i32(0);
    UNROLL for (int i = 0; i < 4; i++) {
        const iv word = l_u16(w + (48 + 2 * i) * LANES);
        const iv s = three_in_each(word);
        h->scale[i] = h->min[i] = l_or(l_add(s, s), l_i8(1));
        d = l_or(d, l_shl(l_shr(word, 12), 4 * i));
    }
    int32_t word[LANES];
    uint16_t half_of[LANES];
    l_store(word, d);
    for (int r = 0; r < LANES; r++) half_of[r] = (uint16_t)word[r];
    h->d = h->dmin = l_mulf(l_half(half_of), l_set(0.125f));
}
/* Returns the nibbles of 32 weights, one per byte. */
INLINE iv nibbles_of(const uint8_t *w, int k) {
    const unsigned b = 2 * ((unsigned)k % 2);
    const iv t = l_bytes(l_load(w + (32 + 4 * (k / 2)) * LANES), b * 0x01010101u + 0x01010000u);
    return l_or(l_and(t, l_i32(0x000f000f)), l_and(l_shr(t, 4), l_i32(0x0f000f00)));
}
#define N_INDICES 8
INLINE void put_block(const uint8_t *w, struct indices *x) {
    for (int k = 0; k < 8; k++)
        put_indices(x + k, l_load(w + 4 * k * LANES), l_and(nibbles_of(w, k), l_i8(7)));
}
INLINE iv shared_bits(const uint8_t *w, int k) {
    return l_sub8(l_i8(MORE_1), l_and(l_shr(nibbles_of(w, k), 2), l_i8(2)));
}
INLINE void codes8(const uint8_t *w, int k, int j, iv up, const struct indices *x,
                   const struct kern_grid *g, iv *q) {
    (void)w;
    iq1_codes(g, x + k, j, up, q);
}

#include "kernels/rows/kquant.h"
