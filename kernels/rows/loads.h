// SPDX-License-Identifier: MIT
/* kernels/rows/loads.h - codes of the packed IQ types by loads from the grid, for instruction sets
 * whose permutations read tables of 16 bytes. Included by rows/grid.h, or a type's file, behind an
 * ISA's grid.h or loads.h, which gives
 *   l_store(p, v), l_add8(a, b)
 *   l_low(a, b), l_high(a, b)   bytes of a and b in turn, of rows 0, 1, 4, 5 .. and 2, 3, 6, 7 ..
 *   l_eight(table, i, q)        vectors i[row] of eight weights: the first four, the last four
 * and, unless ONLY_IQ1 is defined,
 *   l_xor(a, b)
 *   SIGNED_CODES                1, if products take signed codes
 *   l_bit(v, bits)              255 where a byte of v and that of `bits` have a bit in common, or 0
 *   l_four(table, i)            vectors i[row] of four weights
 *
 * Every row has an index, so every vector that is loaded belongs to one row; two shuffles
 * make of eight of them two vectors of four weights of every row. */
#ifndef HONE_KERNELS_ROWS_LOADS_H
#define HONE_KERNELS_ROWS_LOADS_H

#include "kernels/grid.h"
#include "kernels/rows/rows.h"

#define CHUNKED 1
#define MIXED 0

/* Keeps a value in memory: compilers would take indices out of the vector that was stored, which is
 * slower than loads. */
#define FROM_MEMORY(x) __asm__("" : "+m"(x))

struct indices {            /* Four indices of each row. */
    uint16_t of[4 * LANES]; /* The rows' order is 0, 1, 4, 5 .., 2, 3, 6, 7 .. */
};
/* Stores indices of low bytes and what is above them. What was stored as a vector is long on its
 * way to a load of two bytes: a block's indices are stored while the block before it is read. */
INLINE void put_indices(struct indices *x, iv low, iv high) {
    l_store(x->of, l_low(low, high));
    l_store(x->of + 2 * LANES, l_high(low, high));
    FROM_MEMORY(*x);
}
INLINE unsigned index_of(const struct indices *x, int row, int j) {
    return x->of[2 * LANES * (row >> 1 & 1) + 8 * (row >> 2) + 4 * (row & 1) + j];
}

/* Loads the levels of 8 weights, two vectors, by the j-th indices: of four bytes of each row at w,
 * or of x.
 */
INLINE void level8_by_bytes(const uint8_t (*table)[8], const uint8_t *w, int j, iv *q) {
    unsigned i[LANES];
    UNROLL for (int r = 0; r < LANES; r++) i[r] = w[4 * r + j];
    l_eight(table[0], i, q);
}
INLINE void level8(const uint8_t *table, const struct indices *x, int j, iv *q) {
    unsigned i[LANES];
    UNROLL for (int r = 0; r < LANES; r++) i[r] = index_of(x, r, j);
    l_eight(table, i, q);
}
#ifndef ONLY_IQ1
/* Loads the levels of 4 weights. */
INLINE iv level4_by_bytes(const uint8_t (*table)[4], const uint8_t *w, int j) {
    unsigned i[LANES];
    UNROLL for (int r = 0; r < LANES; r++) i[r] = w[4 * r + j];
    return l_four(table[0], i);
}
INLINE iv level4(const uint8_t (*table)[4], const struct indices *x, int j) {
    unsigned i[LANES];
    UNROLL for (int r = 0; r < LANES; r++) i[r] = index_of(x, r, j);
    return l_four(table[0], i);
}

/* Sets m[0] and m[1] to 255 where the j-th byte of signs has a bit for a weight of eight, or 0. */
INLINE void sign_masks(iv signs, int j, iv *m) {
    const iv s = l_bytes(signs, 0x01010101u * (unsigned)j);
    m[0] = l_bit(s, l_i32(0x08040201));
    m[1] = l_bit(s, l_i32((int)0x80402010));
}
/* Gives levels of 8 weights the j-th byte of their signs, and `more` where codes are unsigned. */
INLINE void with_signs(iv signs, int j, int more, iv *q) {
    iv m[2];
    sign_masks(signs, j, m);
    UNROLL for (int i = 0; i < 2; i++) q[i] =
        l_sub8(l_xor(q[i], m[i]), SIGNED_CODES ? m[i] : l_sub8(m[i], l_i8(more)));
}
#endif

/* Puts one bit of a lane's lowest four, or two of its lowest eight, in each byte. */
INLINE iv bit_in_each(iv v) {
    return l_and(l_mul(l_and(v, l_i32(15)), l_i32(0x00204081)), l_i8(1));
}
INLINE iv two_in_each(iv v) {
    const iv a = l_or(l_and(v, l_i32(3)), l_and(l_shl(v, 6), l_i32(0x300)));
    return l_or(a,
                l_or(l_and(l_shl(v, 12), l_i32(0x30000)), l_and(l_shl(v, 18), l_i32(0x3000000))));
}

/* Puts three bits of a lane's lowest twelve in each byte. */
INLINE iv three_in_each(iv v) {
    const iv a = l_or(l_and(v, l_i32(7)), l_and(l_shl(v, 5), l_i32(0x700)));
    return l_or(a,
                l_or(l_and(l_shl(v, 10), l_i32(0x70000)), l_and(l_shl(v, 15), l_i32(0x7000000))));
}

/* Loads codes of 8 weights of IQ1: levels in eighths, shifted, and MORE_1. The table has those
 * that are shifted up; up: MORE_1, and 2 less where they are shifted down, a byte for eight
 * weights. */
enum { MORE_1 = SIGNED_CODES ? 0 : 16 };
INLINE void iq1_codes(const struct kern_grid *g, const struct indices *x, int j, iv up, iv *q) {
    const iv more = l_bytes(up, 0x01010101u * (unsigned)j);
    level8((const void *)g->iq1, x, j, q);
    UNROLL for (int i = 0; i < 2; i++) q[i] = l_add8(q[i], more);
}

#endif
