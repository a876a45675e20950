// SPDX-License-Identifier: MIT
/* quantize/enc/iq2_xs.c - f32 rows to IQ2_XS: 16 sub-blocks of 16, 512 vectors of 8 magnitudes,
 * even signs. The search and what happens to zeros, huge and denormal weights: gridq.c. This file
 * packs. */
#include "quantize/enc/gridq.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct grid_block *b) {
    struct blk_IQ2_XS *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int h = 0; h < 32; h++) o->qs[h] = (uint16_t)(b->index[h] | (b->sign[h] & 127) << 9);
    for (int k = 0; k < 16; k++) o->scales[k / 2] |= (uint8_t)(b->sc[k] << (4 * (k % 2)));
}

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ2_XS, x, imp, n, dst, search, pack);
}

const struct enc enc_type_iq2_xs = {QT_IQ2_XS, row};
