// SPDX-License-Identifier: MIT
/* kernels/rows/loads.h - codes of the packed IQ types by loads from the grid, for instruction sets
 * whose permutations only read tables of 16 bytes. Included by rows/grid.h, or a type's file, after
 * an ISA's grid.h or loads.h, which provides
 *   l_store(p, v), l_add8(a, b)
 *   l_low(a, b), l_high(a, b)   a and b interleaved by byte, rows 0, 1, 4, 5 .. and 2, 3, 6, 7 ..
 *   l_eight(table, i, q)        vectors i[row] of eight weights: the first four, the last four
 * and, unless ONLY_IQ1 is defined,
 *   l_xor(a, b)
 *   SIGNED_CODES                1: products take signed codes
 *   l_bit(v, bits)              255 where the bytes of v and `bits` share a set bit, else 0
 *   l_four(table, i)            vectors i[row] of four weights
 *
 * Every row has its own index, so each loaded vector belongs to one row. Two shuffles turn eight
 * of them into two vectors of four weights of every row. */
#ifndef HONE_KERNELS_ROWS_LOADS_H
#define HONE_KERNELS_ROWS_LOADS_H

#include "kernels/grid.h"
#include "kernels/rows/rows.h"

#define CHUNKED 1
#define MIXED 0

/* Forces a value into memory. Compilers would extract the indices from the vector just stored,
 * which is slower than loading them. */
#define FROM_MEMORY(x) __asm__("" : "+m"(x))

/* Four indices per row. */
struct indices {
    uint16_t of[4 * LANES]; /* row order: 0, 1, 4, 5 .., 2, 3, 6, 7 .. */
};
/* Stores indices given as low bytes and high bits. Loads of 2 bytes must wait for a preceding
 * vector store, so a block's indices are stored while the preceding block is processed. */
INLINE void put_indices(struct indices *x, iv low, iv high) {
    l_store(x->of, l_low(low, high));
    l_store(x->of + 2 * LANES, l_high(low, high));
    FROM_MEMORY(*x);
}
INLINE unsigned index_of(const struct indices *x, int row, int j) {
    return x->of[2 * LANES * (row >> 1 & 1) + 8 * (row >> 2) + 4 * (row & 1) + j];
}

/* Loads the levels of 8 weights as two vectors. The index of each row is the j-th of its four bytes
 * at w. */
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

/* Sets the bytes of m[0] and m[1] to 255 where the j-th sign byte has a bit set, else 0. */
INLINE void sign_masks(iv signs, int j, iv *m) {
    const iv s = l_bytes(signs, 0x01010101u * (unsigned)j);
    m[0] = l_bit(s, l_i32(0x08040201));
    m[1] = l_bit(s, l_i32((int)0x80402010));
}
/* Negates the levels of 8 weights according to the j-th byte of signs, and adds `more` if codes are
 * unsigned. */
INLINE void with_signs(iv signs, int j, int more, iv *q) {
    iv m[2];
    sign_masks(signs, j, m);
    UNROLL for (int i = 0; i < 2; i++) q[i] =
        l_sub8(l_xor(q[i], m[i]), SIGNED_CODES ? m[i] : l_sub8(m[i], l_i8(more)));
}
#endif

/* Spreads the lowest four bits of a lane over its bytes; two_in_each spreads the lowest eight, two
 * bits each. */
INLINE iv bit_in_each(iv v) {
    return l_and(l_mul(l_and(v, l_i32(15)), l_i32(0x00204081)), l_i8(1));
}
INLINE iv two_in_each(iv v) {
    const iv a = l_or(l_and(v, l_i32(3)), l_and(l_shl(v, 6), l_i32(0x300)));
    return l_or(a,
                l_or(l_and(l_shl(v, 12), l_i32(0x30000)), l_and(l_shl(v, 18), l_i32(0x3000000))));
}

/* Spreads the lowest twelve bits of a lane over its bytes, three bits each. */
INLINE iv three_in_each(iv v) {
    const iv a = l_or(l_and(v, l_i32(7)), l_and(l_shl(v, 5), l_i32(0x700)));
    return l_or(a,
                l_or(l_and(l_shl(v, 10), l_i32(0x70000)), l_and(l_shl(v, 15), l_i32(0x7000000))));
}

/* Loads the codes of 8 IQ1 weights: shifted levels in eighths, plus MORE_1. The table holds the
 * levels shifted up; up, a byte per eight weights, is MORE_1, or MORE_1 - 2 to shift them down. */
enum { MORE_1 = SIGNED_CODES ? 0 : 16 };
INLINE void iq1_codes(const struct kern_grid *g, const struct indices *x, int j, iv up, iv *q) {
    const iv more = l_bytes(up, 0x01010101u * (unsigned)j);
    level8((const void *)g->iq1, x, j, q);
    UNROLL for (int i = 0; i < 2; i++) q[i] = l_add8(q[i], more);
}

#endif
