// SPDX-License-Identifier: MIT
/* kernels/rows/rows.h - steps shared by the packed types of kernels/rows/. Code here is written
 * once for all vector widths: an ISA's lanes.h supplies the primitives, and kernels/packed.c
 * includes both. */
#ifndef HONE_KERNELS_ROWS_ROWS_H
#define HONE_KERNELS_ROWS_ROWS_H

#include "kernels/pack.h"

/* 1: products take signed codes, so those of IQ1 to IQ3 need no offset. Set by an ISA's grid.h. */
#ifndef SIGNED_CODES
#define SIGNED_CODES 0
#endif

/* Returns activations 4j .. 4j + 3 of the 32 at x, in the form that the products need. */
#ifndef OWN_ACTS
typedef iv xv;
INLINE xv l_act(const void *x, int j) {
    return l_at((const uint8_t *)x + 4 * j);
}
#endif

/* Bytes 4i .. 4i + 3 of the scales and minima of a block of 256 weights. */
struct rows_head {
    iv scale[4], min[4];
    fv d, dmin;
};

/* Prefetches the cache lines of bytes from .. to - 1 after w, 1 or 2 KiB ahead. Only a few lines at
 * a time, because a processor drops requests for which it has no room. With one token, two groups
 * are read alternately, a few lines each, because hardware prefetch is limited per stream
 * (docs/design/runtime.md), except where lookups are the bottleneck and there are too few registers
 * for two (rows/loads.h). With several tokens the processor sees too few reads ahead to keep memory
 * busy, so lines are fetched into L2 early, and from there into L1. */
INLINE void ahead(int n_tok, const uint8_t *w, int from, int to) {
    UNROLL for (int i = from / 64; i < to / 64; i++) {
        __builtin_prefetch(w + (n_tok > 1 ? 2048 : 128 * LANES) + 64 * i);
        if (n_tok > 1) __builtin_prefetch(w + 8192 + 64 * i, 0, 2);
    }
}
/* Keeps compilers from interleaving the steps of two groups, for which there are too few
 * registers. */
INLINE void apart(void) {
    __asm__ volatile("" ::: "memory");
}

/* Extracts the 8 scales and 8 minima of 6 bits from the 12 packed bytes of Q4_K and Q5_K. */
INLINE void six_bits(const uint8_t *w, struct rows_head *h) {
    const iv six = l_i8(0x3f), four = l_i8(0x0f), two = l_i8(0x30);
    const iv a = l_load(w), b = l_load(w + 4 * LANES), c = l_load(w + 8 * LANES);
    h->scale[0] = l_and(a, six);
    h->scale[1] = l_or(l_and(c, four), l_and(l_shr(a, 2), two));
    h->min[0] = l_and(b, six);
    h->min[1] = l_or(l_and(l_shr(c, 4), four), l_and(l_shr(b, 2), two));
}

/* Moves bits 4j .. 4j + 3 of a lane to the fifth bit of its four bytes. The multiplication moves
 * bit b to bit 8b + 4, where no two of its terms collide. */
INLINE iv fifth_bits(iv high, int j) {
    const iv four = l_and(l_shr(high, 4 * j), l_i32(15));
    return l_and(l_mul(four, l_i32(0x02040810)), l_i8(16));
}

#endif
