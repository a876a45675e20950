// SPDX-License-Identifier: MIT
/* kernels/rows/grid.h - what the packed IQ2 and IQ3 types share, for rows/kquant.h: signs and
 * scales. Included by a type's file behind an ISA's grid.h, which gives l_xor(a, b) and what
 * looks.h asks for, or loads.h. */
#ifndef HONE_KERNELS_ROWS_GRID_H
#define HONE_KERNELS_ROWS_GRID_H

#ifdef LOOKS /* in registers */
#include "kernels/rows/looks.h"
#else
#include "kernels/rows/loads.h"
#endif

/* Adds to four signs of 7 bits, one in each byte, the eighth bit that makes the number of set
 * ones even. */
INLINE iv even_signs(iv v) {
    static const int8_t odd[16] = {0,    -128, -128, 0,    -128, 0,    0,    -128,
                                   -128, 0,    0,    -128, 0,    -128, -128, 0};
    return l_or(v, l_table(odd, l_and(l_xor(v, l_shr(v, 4)), l_i8(15))));
}
/* Does the same for 28 bits, seven of which belong to a byte. */
INLINE iv packed_signs(iv v) {
    const iv a = l_or(l_and(v, l_i32(0x7f)), l_and(l_shl(v, 1), l_i32(0x7f00)));
    const iv b = l_or(l_and(l_shl(v, 2), l_i32(0x7f0000)), l_and(l_shl(v, 3), l_i32(0x7f000000)));
    return even_signs(l_or(a, b));
}

/* Returns four odd scales: twice each nibble of bytes b and b + 1 of a lane, and one more. */
INLINE iv odd_scales(iv v, unsigned b) {
    const iv t = l_bytes(v, b * 0x01010101u + 0x01010000u);
    const iv s = l_or(l_and(t, l_i32(0x000f000f)), l_and(l_shr(t, 4), l_i32(0x0f000f00)));
    return l_or(l_add(s, s), l_i8(1));
}
/* Takes the scales from the top four bits of words 0, `step`, 2 * `step` and so on of a block. */
INLINE void top_scales(const uint8_t *w, int step, struct rows_head *h) {
    UNROLL for (int i = 0; i < 2; i++) {
        iv s = l_i32(0);
        UNROLL for (int k = 0; k < 4; k++) {
            const iv top = l_shr(l_load(w + 4 * step * (4 * i + k) * LANES), 28);
            s = l_or(s, l_shl(top, 8 * k));
        }
        h->scale[i] = h->min[i] = l_or(l_add(s, s), l_i8(1));
    }
}

#endif
