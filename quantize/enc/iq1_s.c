// SPDX-License-Identifier: MIT
/* quantize/enc/iq1_s.c - f32 rows to IQ1_S: 8 sub-blocks of 32, 2048 vectors of 8 from -1, 0, 1,
 * shifted alike in a sub-block. The search and what happens to zeros, huge and denormal weights:
 * gridq.c. This file packs. */
#include "kernels/grid.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct grid_block *b) {
    struct blk_IQ1_S *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 8; k++) { /* high index bits, scale, shift */
        unsigned word = (unsigned)b->sc[k] << 12 | (b->index[4 * k] >= KERN_IQ1 ? 0x8000u : 0);
        for (int l = 0; l < 4; l++) {
            const unsigned index = b->index[4 * k + l] % KERN_IQ1;
            o->qs[4 * k + l] = (uint8_t)index;
            word |= index >> 8 << (3 * l);
        }
        o->qh[k] = (uint16_t)word;
    }
}

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ1_S, x, imp, n, dst, search, pack);
}

const struct enc enc_type_iq1_s = {QT_IQ1_S, row};
