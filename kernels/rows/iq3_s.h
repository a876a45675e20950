// SPDX-License-Identifier: MIT
/* kernels/rows/iq3_s.h - IQ3_S, packed. */
#include "kernels/rows/grid.h"

enum { BLOCK = 110, SUB = 32 };

#define PLUS 65, 67, 69, 71, 73, 75, 77, 79
#define MINUS 63, 61, 59, 57, 55, 53, 51, 49
static const uint8_t iq3_code[2][64] = {{BIT_0(PLUS, MINUS)}, {BIT_1(PLUS, MINUS)}};

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_half(w);
    UNROLL for (int i = 0; i < 2; i++) h->scale[i] = h->min[i] =
        odd_scales(l_load(w + 106 * LANES), 2 * (unsigned)i);
}
INLINE void mixed_codes(const uint8_t *w, int k, iv *q) {
    const struct kern_grid *g = kern_grid_get();
    const iv signs = l_load(w + (74 + 4 * k) * LANES);
    const iv high =
        l_bytes(l_load(w + (66 + 4 * (k / 4)) * LANES), 0x01010101u * (unsigned)(k % 4));
    /* Bit 4 * half + i belongs to index i, which is mixed. */
    UNROLL for (int half = 0; half < 2; half++) {
        const iv i = mixed_index(w + (2 + 4 * (2 * k + half)) * LANES);
        const iv ninth = l_i32(half ? (int)0x80204010 : 0x08020401);
        codes_iq3(iq3_code, look_512(g->iq3_s_no[0], i, high, ninth),
                  look_512(g->iq3_s_no[1], i, high, ninth), signs, half, q + 4 * half);
    }
}

#include "kernels/rows/kquant.h"
