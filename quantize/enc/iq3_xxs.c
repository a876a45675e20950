// SPDX-License-Identifier: MIT
/* quantize/enc/iq3_xxs.c - f32 rows to IQ3_XXS: 8 sub-blocks of 32, 256 vectors of 4 magnitudes,
 * even signs. The search and what happens to zeros, huge and denormal weights: gridq.c. This file
 * packs. */
#include "core/bytes.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct grid_block *b) {
    struct blk_IQ3_XXS *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int h = 0; h < 64; h++) o->qs[h] = (uint8_t)b->index[h];
    for (int k = 0; k < 8; k++) { /* four sign numbers and the scale */
        uint32_t rest = (uint32_t)b->sc[k] << 28;
        for (int l = 0; l < 4; l++) rest |= (uint32_t)(b->sign[4 * k + l] & 127) << (7 * l);
        store_u32(o->qs + 64 + 4 * k, rest);
    }
}

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ3_XXS, x, imp, n, dst, search, pack);
}

const struct enc enc_type_iq3_xxs = {QT_IQ3_XXS, row};
