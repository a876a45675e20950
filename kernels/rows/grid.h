// SPDX-License-Identifier: MIT
/* kernels/rows/grid.h - signs and scales of the packed IQ2 and IQ3 types, for rows/kquant.h.
 * Included by a type's file after an ISA's grid.h, which provides l_xor(a, b) and the steps that
 * looks.h or loads.h needs. */
#ifndef HONE_KERNELS_ROWS_GRID_H
#define HONE_KERNELS_ROWS_GRID_H

#ifdef LOOKS /* lookups in registers */
#include "kernels/rows/looks.h"
#else
#include "kernels/rows/loads.h"
#endif

/* Adds to each of four 7-bit sign fields, one per byte, an eighth bit that makes the number of set
 * bits even. */
INLINE iv even_signs(iv v) {
    static const int8_t odd[16] = {0,    -128, -128, 0,    -128, 0,    0,    -128,
                                   -128, 0,    0,    -128, 0,    -128, -128, 0};
    return l_or(v, l_table(odd, l_and(l_xor(v, l_shr(v, 4)), l_i8(15))));
}
/* Adds the eighth bits to a 28-bit word of four 7-bit sign fields. */
INLINE iv packed_signs(iv v) {
    const iv a = l_or(l_and(v, l_i32(0x7f)), l_and(l_shl(v, 1), l_i32(0x7f00)));
    const iv b = l_or(l_and(l_shl(v, 2), l_i32(0x7f0000)), l_and(l_shl(v, 3), l_i32(0x7f000000)));
    return even_signs(l_or(a, b));
}

/* Returns four odd scales: twice each nibble of bytes b and b + 1 of a lane, plus one. */
INLINE iv odd_scales(iv v, unsigned b) {
    const iv t = l_bytes(v, b * 0x01010101u + 0x01010000u);
    const iv s = l_or(l_and(t, l_i32(0x000f000f)), l_and(l_shr(t, 4), l_i32(0x0f000f00)));
    return l_or(l_add(s, s), l_i8(1));
}
/* Reads the scales from the top four bits of words 0, `step`, 2 * `step` and so on of a block. */
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
