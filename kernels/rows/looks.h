// SPDX-License-Identifier: MIT
/* kernels/rows/looks.h - codes of the packed IQ2 and IQ3 types by table lookups in registers:
 * signed levels, biased by 64 (IQ3_S: 16). Included by rows/grid.h after an ISA's grid.h, which
 * provides
 *
 *   l_look(table, i)        bytes of a table of 256, by unsigned bytes
 *   l_where(v, bits, a, b)  bytes of a where those of v and `bits` share no set bit, else of b
 *   l_either(m, a, b)       bits of a where m is set, else those of b
 *   l_code(table, v)        bytes of a table of 64, by the lowest six bits of each byte
 *   mix(x, to)              activations m, 8 + m, 4 + m, 12 + m of the sixteen at x, m = 0 .. 3
 *
 * A lookup returns the level numbers of several weights in a byte: four of 2 bits (IQ2) or two
 * nibbles (IQ3). So a vector holds numbers m, 8 + m, 4 + m and 12 + m of sixteen weights, and
 * the activations are put into the same order. */
#ifndef HONE_KERNELS_ROWS_LOOKS_H
#define HONE_KERNELS_ROWS_LOOKS_H

#include <stddef.h>

#include "kernels/grid.h"
#include "kernels/rows/rows.h"

#define CHUNKED 1
struct indices { /* empty: only rows/loads.h has indices */
    char none;
};
#define MIXED 1

/* Code tables. The index is a level number with sign bits above it; each table uses one of these
 * bits. P and N are the codes of the positive and negative levels. IQ2 has four sign bits; IQ3 has
 * two, and a don't-care bit. */
#define BIT_0(P, N) P, N, P, N, P, N, P, N
#define BIT_1(P, N) P, P, N, N, P, P, N, N
#define BIT_2(P, N) P, P, P, P, N, N, N, N
#define IQ2_PLUS 72, 89, 107, 64
#define IQ2_MINUS 56, 39, 21, 64
static const uint8_t __attribute__((unused))
iq2_code[4][64] = {{BIT_0(IQ2_PLUS, IQ2_MINUS), BIT_0(IQ2_PLUS, IQ2_MINUS)},
                   {BIT_1(IQ2_PLUS, IQ2_MINUS), BIT_1(IQ2_PLUS, IQ2_MINUS)},
                   {BIT_2(IQ2_PLUS, IQ2_MINUS), BIT_2(IQ2_PLUS, IQ2_MINUS)},
                   {BIT_2(IQ2_PLUS, IQ2_PLUS), BIT_2(IQ2_MINUS, IQ2_MINUS)}};

/* Looks up bytes i in a table of 512. `high`, masked by `ninth`, selects the half of the table.
 * look_1024 does the same for a table of 1024, with `tenth`. */
INLINE iv look_512(const uint8_t *table, iv i, iv high, iv ninth) {
    return l_where(high, ninth, l_look(table, i), l_look(table + 256, i));
}
INLINE iv look_1024(const uint8_t *table, iv i, iv high, iv ninth, iv tenth) {
    return l_where(high, tenth, look_512(table, i, high, ninth),
                   look_512(table + 512, i, high, ninth));
}

/* Returns the signs of sixteen weights from half 0 or 1 of s, in mixed order: bit m is for vector
 * m. */
INLINE iv mixed_signs(iv s, int half) {
    if (half) return l_or(l_shr(s, 16), l_and(l_shr(s, 4), l_i32(~0xffff)));
    return l_or(l_and(s, l_i32(0xffff)), l_and(l_shl(s, 12), l_i32(~0xffff)));
}

/* Computes the codes of IQ2 from the first and second halves of four vectors and four bytes of
 * signs. */
INLINE void codes_iq2(iv first, iv second, iv signs, iv *q) {
    UNROLL for (int half = 0; half < 2; half++) {
        const iv top = l_i32(~0xffff);
        const iv v = half ? l_or(l_shr(first, 16), l_and(second, top))
                          : l_or(l_and(first, l_i32(0xffff)), l_shl(second, 16));
        const iv s = l_shl(mixed_signs(signs, half), 2);
        UNROLL for (int m = 0; m < 4; m++) q[4 * half + m] =
            l_code(iq2_code[m], l_either(l_i8(3), l_shr(v, 2 * m), s));
    }
}
/* Computes the codes of IQ3 from four indices in the order of mixed_index. code[0] and code[1]
 * are the tables for sign bits 0 and 1. */
INLINE void codes_iq3(const uint8_t code[2][64], iv first, iv second, iv signs, int half, iv *q) {
    const iv s = mixed_signs(signs, half), no = l_i8(7);
    q[0] = l_code(code[0], l_either(no, first, l_shl(s, 3)));
    q[1] = l_code(code[1], l_either(no, l_shr(first, 4), l_shl(s, 3)));
    q[2] = l_code(code[0], l_either(no, second, l_shl(s, 1)));
    q[3] = l_code(code[1], l_either(no, l_shr(second, 4), l_shl(s, 1)));
}
INLINE iv mixed_index(const uint8_t *w) {
    return l_bytes(l_load(w), 0x03010200);
}

/* Reorders vectors of 32 weights from mixed order to weight order. */
INLINE void in_order(iv *q) {
    const iv even = l_i32(0x00ff00ff), odd = l_i32((int)0xff00ff00);
    const iv low = l_i32(0xffff), top = l_i32(~0xffff);
    for (int i = 0; i < 8; i += 4) {
        const iv a = l_or(l_and(q[i], even), l_shl(l_and(q[i + 1], even), 8));
        const iv b = l_or(l_and(q[i + 2], even), l_shl(l_and(q[i + 3], even), 8));
        const iv c = l_or(l_and(l_shr(q[i], 8), even), l_and(q[i + 1], odd));
        const iv d = l_or(l_and(l_shr(q[i + 2], 8), even), l_and(q[i + 3], odd));
        q[i] = l_or(l_and(a, low), l_shl(b, 16));
        q[i + 1] = l_or(l_shr(a, 16), l_and(b, top));
        q[i + 2] = l_or(l_and(c, low), l_shl(d, 16));
        q[i + 3] = l_or(l_shr(c, 16), l_and(d, top));
    }
}

/* Reorders the codes of activation rows (stride lda) to match mixed weight vectors. `to` has
 * room for n * nb blocks and is returned. */
INLINE const struct kern_act *mixed_acts(const struct kern_act *a, int64_t lda, int64_t n,
                                         int64_t nb, struct kern_act *to) {
    for (int64_t t = 0; t < n; t++)
        for (int64_t b = 0; b < nb; b++) {
            const struct kern_act *x = a + t * lda + b;
            struct kern_act *y = to + t * nb + b;
            memcpy(y, x, offsetof(struct kern_act, qs));
            for (int i = 0; i < 256; i += 16) mix(x->qs + i, y->qs + i);
        }
    return to;
}

#endif
