// SPDX-License-Identifier: MIT
/* quantize/enc/iq1_m.c - f32 rows to IQ1_M: 16 sub-blocks of 16, 2048 vectors of 8 from -1, 0, 1,
 * each with a shift. The search and what happens to zeros, huge and denormal weights: gridq.c. This
 * file packs. */
#include "core/bytes.h"
#include "kernels/codebook.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct grid_block *b) {
    struct blk_IQ1_M *o = blk;
    memset(o, 0, sizeof *o);
    for (int h = 0; h < 32; h++) { /* index: 11 bits, above them the shift */
        o->qs[h] = (uint8_t)b->index[h];
        o->qh[h / 2] |= (uint8_t)(b->index[h] >> 8 << (4 * (h % 2)));
    }
    for (int i = 0; i < 4; i++) {
        unsigned word = 0;
        for (int k = 0; k < 4; k++) word |= (unsigned)b->sc[4 * i + k] << (3 * k);
        store_u16(o->scales + 2 * i, (uint16_t)word);
    }
    kern_iq1_m_set_d(o, enc_f16_bits(b->d));
}

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ1_M, x, imp, n, dst, search, pack);
}

const struct enc enc_type_iq1_m = {QT_IQ1_M, row};
