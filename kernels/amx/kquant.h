// SPDX-License-Identifier: MIT
/* kernels/amx/kquant.h - AMX products of the k-quants; see tiles.h and fold.h. Included once by a
 * type's file, after its header of kernels/rows/. Offsets of codes are folded in too; minima
 * multiply the sums of the activations as in rows/kquant.h. One plane suffices for Q2_K, whose
 * products are at most 45, and for Q3_K, whose products, -124 to 128 (-4 * -32), fit a signed byte
 * after negation. */
#ifndef HONE_KERNELS_AMX_KQUANT_H
#define HONE_KERNELS_AMX_KQUANT_H

enum { SIZE = 256, DEPTH = 64, PLANES = BITS <= 3 ? 1 : 2, NEGATED = BITS == 3 };

struct tiled {
    iv code[PLANES][64], pair[OFFSET ? 1 : N_SCALES / 2];
    fv d, dmin;
};

INLINE fv finish_block(const struct tiled *p, iv s, const struct kern_act *a, fv acc) {
    iv m = l_i32(0);
    UNROLL for (int k = 0; k < N_SCALES / 2 && !OFFSET; k++) m = minima(m, p->pair[k], a, k);
    if (NEGATED) s = l_sub(l_i32(0), s);
    return float_steps(EXACT, p->d, p->dmin, s, m, a, acc);
}

#include "kernels/amx/fold.h"

INLINE void unpack_tiles(const uint8_t *w, int64_t n, struct tiled *p) {
    struct rows_head h;
    (void)n;
    head(w, &h);
    for (int i = 0; i < N_SCALES; i++) {
        const iv all = l_bytes(h.scale[i / 4], 0x01010101u * (unsigned)(i % 4));
        const struct multiplier m = multiplier_of(all, SIGNED, NEGATED);
        for (int j = i * (SUB / 4); j < (i + 1) * (SUB / 4); j++) {
            const iv q = l_sub8(code(w, j / 8, j % 8), l_i8(OFFSET ? 1 << OFFSET : 0));
            fold(q, m, SIGNED, PLANES, &p->code[0][j], &p->code[PLANES - 1][j]);
        }
    }
    for (int i = 0; i < N_SCALES / 2 && !OFFSET; i++)
        p->pair[i] = l_pair(h.min[i / 2], i % 2, SIGNED);
    p->d = h.d;
    p->dmin = h.dmin;
}

#include "kernels/amx/gemm.h"

#endif
