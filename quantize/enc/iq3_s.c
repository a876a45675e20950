// SPDX-License-Identifier: MIT
/* quantize/enc/iq3_s.c - f32 rows to IQ3_S: 8 sub-blocks of 32, 512 vectors of 4 magnitudes, all
 * signs. The search and what happens to zeros, huge and denormal weights: gridq.c. This file packs.
 */
#include "quantize/enc/gridq.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct grid_block *b) {
    struct blk_IQ3_S *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int h = 0; h < 64; h++) {
        o->qs[h] = (uint8_t)b->index[h];
        o->qh[h / 8] |= (uint8_t)(b->index[h] >> 8 << (h % 8));
    }
    memcpy(o->signs, b->sign, sizeof o->signs);
    for (int k = 0; k < 8; k++) o->scales[k / 2] |= (uint8_t)(b->sc[k] << (4 * (k % 2)));
}

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ3_S, x, imp, n, dst, search, pack);
}

const struct enc enc_type_iq3_s = {QT_IQ3_S, row};
