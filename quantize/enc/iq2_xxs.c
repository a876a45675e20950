// SPDX-License-Identifier: MIT
/* quantize/enc/iq2_xxs.c - f32 rows to IQ2_XXS: 8 sub-blocks of 32, 256 vectors of 8 magnitudes,
 * even signs. The search and what happens to zeros, huge and denormal weights: gridq.c. This file
 * packs. */
#include "core/bytes.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct grid_block *b) {
    struct blk_IQ2_XXS *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 8; k++) { /* four entries, then four sign numbers and the scale */
        uint32_t entries = 0, rest = (uint32_t)b->sc[k] << 28;
        for (int l = 0; l < 4; l++) {
            entries |= (uint32_t)b->index[4 * k + l] << (8 * l);
            rest |= (uint32_t)(b->sign[4 * k + l] & 127) << (7 * l);
        }
        store_u32((uint8_t *)o->qs + 8 * k, entries);
        store_u32((uint8_t *)o->qs + 8 * k + 4, rest);
    }
}

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ2_XXS, x, imp, n, dst, search, pack);
}

const struct enc enc_type_iq2_xxs = {QT_IQ2_XXS, row};
