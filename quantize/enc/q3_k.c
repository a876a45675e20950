// SPDX-License-Identifier: MIT
/* quantize/enc/q3_k.c - f32 rows to Q3_K: 16 sub-blocks of 16, codes -4..3, signed 6-bit scales.
 * The search and what happens to zeros, huge and denormal weights: lanes_sym.h. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_Q3_K *o = blk;
    memset(o->scales, 0, sizeof o->scales);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 16; k++) { /* 6 bits: low 4 in bytes 0-7, high 2 in bytes 8-11 */
        int sc = b->sc[k] + 32;
        o->scales[k % 8] |= (uint8_t)((sc & 15) << (k < 8 ? 0 : 4));
        o->scales[8 + k % 4] |= (uint8_t)((sc >> 4) << (2 * (k / 4)));
    }
    for (int h = 0; h < 2; h++) /* low two bits of the code plus 4 */
        for (int i = 0; i < 32; i++) {
            const int8_t *q = b->l + 128 * h + i;
            o->qs[32 * h + i] =
                (uint8_t)((q[0] & 3) | (q[32] & 3) << 2 | (q[64] & 3) << 4 | (q[96] & 3) << 6);
        }
    for (int i = 0; i < 32; i++) { /* set: not below zero */
        unsigned below = 0;
        for (int k = 0; k < 8; k++) below |= (unsigned)(b->l[32 * k + i] & 0x80) >> (7 - k);
        o->hmask[i] = (uint8_t)~below;
    }
}

static const struct enc_spec spec = {
    .type = QT_Q3_K,
    .family = ENC_SYM,
    .sub = 16,
    .lv = {-4, 3, NULL},
    .sc_lo = -32,
    .sc_hi = 31,
};

const struct enc_blocks enc_blocks_q3_k = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_q3_k, x, imp, n, dst, search);
}

const struct enc enc_type_q3_k = {QT_Q3_K, row};
