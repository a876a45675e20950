// SPDX-License-Identifier: MIT
/* kernels/i8mm/kquant.h - FEAT_I8MM products of 256-weight types with integer scales and
 * unsigned codes; see tiles.h. Codes have at most 7 bits, so they fit signed bytes. Offsets and
 * minima multiply the sums of the activations as in rows/kquant.h. Included once by a type's
 * file, after its header of kernels/rows/. */
#ifndef HONE_KERNELS_I8MM_KQUANT_H
#define HONE_KERNELS_I8MM_KQUANT_H

#include "kernels/i8mm/steps.h"

enum { SIZE = 256, PER_SCALE = SUB };

struct tiled {
    int8x16_t code[32][4];
    int32x4_t scale[N_SCALES][4];
    iv pair[N_SCALES / 2];
    fv d, dmin;
};

INLINE void unpack_tiles(const uint8_t *w, const struct kern_grid *grid, struct tiled *p) {
    struct rows_head h;
    struct indices x[N_INDICES];
    head(w, &h);
    put_block(w, x);
    for (int k = 0; CHUNKED && k < 8; k++) {
        iv q[8];
        codes32(w, k, x, grid, q);
        UNROLL for (int j = 0; j < 8; j += 2) side_by_side(q[j], q[j + 1], p->code[4 * k + j / 2]);
    }
    UNROLL for (int k = 0; k < 8 && !CHUNKED; k++) UNROLL for (int j = 0; j < 8; j += 2)
        side_by_side(code(w, k, j), code(w, k, j + 1), p->code[4 * k + j / 2]);
    UNROLL for (int i = 0; i < N_SCALES; i++)
        twice(u_scale(h.scale[i / 4], i % 4, SIGNED), p->scale[i]);
    UNROLL for (int i = 0; i < N_SCALES / 2 && !EXACT; i++) p->pair[i] =
        l_pair(h.min[i / 2], i % 2, SIGNED);
    p->d = h.d;
    p->dmin = h.dmin;
}

INLINE fv finish_block(const struct tiled *p, iv s, const struct kern_act *a, int i, fv acc) {
    iv m = l_i32(0);
    (void)i;
    UNROLL for (int k = 0; k < N_SCALES / 2 && !EXACT; k++) m = minima(m, p->pair[k], a, k);
    return float_steps(EXACT, p->d, p->dmin, s, m, a, acc);
}

#include "kernels/i8mm/tiles.h"

#endif
