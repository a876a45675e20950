// SPDX-License-Identifier: MIT
/* kernels/amx/plain.h - types with a float scale per 32 weights by AMX; see tiles.h. One product of
 * 32 codes per block and float steps after each. Included once by a type's file, after its header
 * of kernels/rows/. */
#ifndef HONE_KERNELS_AMX_PLAIN_H
#define HONE_KERNELS_AMX_PLAIN_H

enum { DEPTH = 32, PLANES = 1 };

struct tiled {
    iv code[PLANES][SIZE / 4];
    struct head head;
};

INLINE void unpack_tiles(const uint8_t *w, struct tiled *p) {
    head(w, &p->head);
    UNROLL for (int j = 0; j < SIZE / 4; j++) p->code[0][j] = code(w, 0, j);
}

INLINE fv finish_block(const struct tiled *p, iv s, const struct kern_act *a, int i, fv acc) {
    return scaled(&p->head, s, a, i, acc);
}

#include "kernels/amx/tiles.h"

#endif
