// SPDX-License-Identifier: MIT
/* quantize/enc/iq4_xs.c - f32 rows to IQ4_XS: 8 sub-blocks of 32, codes of the IQ4 table, signed
 * 6-bit scales. The search and what happens to zeros, huge and denormal weights: lanes_sym.h. This
 * file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_IQ4_XS *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 8; k++) { /* 6 bits, plus 32 */
        int sc = b->sc[k] + 32;
        o->scales_l[k / 2] |= (uint8_t)((sc & 15) << (4 * (k % 2)));
        o->scales_h = (uint16_t)(o->scales_h | (sc >> 4) << (2 * k));
        for (int i = 0; i < 16; i++) {
            int lo = enc_level_index(b->l[32 * k + i]), hi = enc_level_index(b->l[32 * k + 16 + i]);
            o->qs[16 * k + i] = (uint8_t)(lo | hi << 4);
        }
    }
}

static const struct enc_spec spec = {
    .type = QT_IQ4_XS,
    .family = ENC_SYM,
    .sub = 32,
    .lv = {-127, 113, enc_iq4_values},
    .sc_lo = -32,
    .sc_hi = 31,
};

const struct enc_blocks enc_blocks_iq4_xs = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_iq4_xs, x, imp, n, dst, search);
}

const struct enc enc_type_iq4_xs = {QT_IQ4_XS, row};
