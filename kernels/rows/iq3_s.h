// SPDX-License-Identifier: MIT
/* kernels/rows/iq3_s.h - packed rows of IQ3_S: indices, high index bits, signs and scales in
 * separate fields. */
#include "kernels/rows/grid.h"

enum { BLOCK = 110, BITS = 5, SUB = 32, SIGNED = 0, OFFSET = 4 };

#if MIXED
#define PLUS 17, 19, 21, 23, 25, 27, 29, 31
#define MINUS 15, 13, 11, 9, 7, 5, 3, 1
static const uint8_t iq3_code[2][64] = {{BIT_0(PLUS, MINUS)}, {BIT_1(PLUS, MINUS)}};
#endif

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_half(w);
    UNROLL for (int i = 0; i < 2; i++) h->scale[i] = h->min[i] =
        odd_scales(l_load(w + 106 * LANES), 2 * (unsigned)i);
}
#if !MIXED
#define N_INDICES 16
INLINE void put_block(const uint8_t *w, struct indices *x) {
    for (int i = 0; i < 16; i++)
        put_indices(x + i, l_load(w + (2 + 4 * i) * LANES),
                    bit_in_each(l_shr(l_load(w + (66 + 4 * (i / 8)) * LANES), 4 * (i % 8))));
}
#endif
/* Returns the signs of 32 weights, one byte per eight. */
INLINE iv shared_bits(const uint8_t *w, int k) {
    return l_load(w + (74 + 4 * k) * LANES);
}
#if MIXED
INLINE void codes32(const uint8_t *w, int k, const struct indices *x, const struct kern_grid *g,
                    iv *q) {
    (void)x;
    const iv signs = shared_bits(w, k);
    const iv high =
        l_bytes(l_load(w + (66 + 4 * (k / 4)) * LANES), 0x01010101u * (unsigned)(k % 4));
    /* Bit 4 * half + i belongs to index i, in mixed order. */
    UNROLL for (int half = 0; half < 2; half++) {
        const iv i = mixed_index(w + (2 + 4 * (2 * k + half)) * LANES);
        const iv ninth = l_i32(half ? (int)0x80204010 : 0x08020401);
        codes_iq3(iq3_code, look_512(g->iq3_s_no[0], i, high, ninth),
                  look_512(g->iq3_s_no[1], i, high, ninth), signs, half, q + 4 * half);
    }
}
#else
#define LEVEL_BITS 4
INLINE void levels8(const uint8_t *w, int k, int j, const struct indices *x,
                    const struct kern_grid *g, iv *q) {
    (void)w;
    UNROLL for (int i = 0; i < 2; i++) q[i] = level4(g->iq3_s, x + 2 * k + j / 2, 2 * (j % 2) + i);
}
#endif

#include "kernels/rows/kquant.h"
