// SPDX-License-Identifier: MIT
/* kernels/i8mm/signed.h - FEAT_I8MM products of types with signed codes; see tiles.h. Included once
 * by a type's file, after its header of kernels/rows/. */
#ifndef HONE_KERNELS_I8MM_SIGNED_H
#define HONE_KERNELS_I8MM_SIGNED_H

#include "kernels/grid.h"
#include "kernels/i8mm/steps.h"

enum { PER_SCALE = 32 };

struct tiled {
    int8x16_t code[SIZE / 8][4];
    int32x4_t scale[CHUNKS][4];
    struct head head;
};

INLINE void unpack_tiles(const uint8_t *w, const struct kern_grid *grid, struct tiled *p) {
    (void)grid;
    head(w, &p->head);
    UNROLL for (int k = 0; k < CHUNKS; k++) {
        UNROLL for (int j = 0; j < 8; j += 2)
            side_by_side(code(w, k, j), code(w, k, j + 1), p->code[4 * k + j / 2]);
        if (CHUNKS > 1) twice(FACTOR(&p->head, k), p->scale[k]);
    }
}

INLINE fv finish_block(const struct tiled *p, iv s, const struct kern_act *a, int i, fv acc) {
    return scaled(&p->head, s, a, i, acc);
}

#include "kernels/i8mm/tiles.h"

#endif
