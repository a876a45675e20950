// SPDX-License-Identifier: MIT
/* kernels/amx/iq4_xs.c - AMX int8 products of packed IQ4_XS rows with many tokens, 16 at a time.
 * Levels of -127 to 113 times scales of -32 to 31. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_xs.h"

enum { DEPTH = 64, PLANES = 2 };
#define FEW kern_avx512_IQ4_XS

struct tiled {
    iv code[PLANES][64];
    struct head head;
};

INLINE fv finish_block(const struct tiled *p, iv s, const struct kern_act *a, fv acc) {
    return scaled(&p->head, s, a, 0, acc);
}

#include "kernels/amx/fold.h"

INLINE void unpack_tiles(const uint8_t *w, int64_t n, struct tiled *p) {
    (void)n;
    head(w, &p->head);
    for (int k = 0; k < 8; k++) {
        const struct multiplier m = multiplier_of(l_bytes(factor(&p->head, k), 0), true, false);
        for (int j = 0; j < 8; j++)
            fold(code(w, k, j), m, true, PLANES, &p->code[0][8 * k + j], &p->code[1][8 * k + j]);
    }
}

#include "kernels/amx/gemm.h"

const struct kern_ops kern_amx_IQ4_XS = {.gemm = gemm_tiles, .rows = LANES};
