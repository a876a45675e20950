// SPDX-License-Identifier: MIT
/* kernels/amx/plain.h - AMX products of types with a float scale per 32 weights; see tiles.h. A
 * product multiplies a block of 32 codes and has separate sums; eight products are the steps of
 * gemm.h. Included once by a type's file, after its header of kernels/rows/. */
#ifndef HONE_KERNELS_AMX_PLAIN_H
#define HONE_KERNELS_AMX_PLAIN_H

enum { DEPTH = 32 };
#include "kernels/amx/tiles.h"

enum { ABREAST = 1, STEPS = IN_ACT };
struct tiled {
    iv code[IN_ACT][SIZE / 4];
    struct head head[IN_ACT];
    int64_t n; /* blocks: IN_ACT, or fewer at the end of a row */
};
struct sums {
    iv sum[IN_ACT][HALF];
    const struct tiled *p;
    struct half half[ABREAST];
};

INLINE void unpack_tiles(const uint8_t *w, int64_t n, struct tiled *p) {
    p->n = n;
    for (int64_t i = 0; i < n; i++, w += BLOCK * LANES) {
        head(w, &p->head[i]);
        UNROLL for (int j = 0; j < SIZE / 4; j++) p->code[i][j] = code(w, 0, j);
    }
}

INLINE void finish_token(const struct sums *s, int h, int t, fv *acc, const struct kern_act *x) {
    fv sum = *acc;
    (void)h;
    UNROLL for (int i = 0; i < IN_ACT; i++) {
        if (i >= s->p->n) break;
        sum = scaled(&s->p->head[i], s->sum[i][t], x, i, sum);
    }
    *acc = sum;
}

#define PRODUCT(t)                                                                                 \
    do {                                                                                           \
        _tile_zero(t);                                                                             \
        TILE_LOAD(6, s->p->code[i], 64);                                                           \
        TILE_LOAD(4, s->half[0].x->qs + 32 * i, ld);                                               \
        _tile_dpbssd(t, 4, 6);                                                                     \
        TILE_STORE(t, s->sum[i]);                                                                  \
    } while (0)

INLINE void first_step(bool two) {
    (void)two;
}
INLINE void step(bool two, struct sums *s, int i, size_t ld) {
    (void)two;
    if (i >= s->p->n) return;
    if (i % 2)
        PRODUCT(1);
    else
        PRODUCT(0);
}
INLINE void last_step(bool two, struct sums *s) {
    (void)two;
    (void)s;
}

#include "kernels/amx/gemm.h"

#endif
