// SPDX-License-Identifier: MIT
/* quantize/enc/q4_0.c - f32 rows to Q4_0: blocks of 32, x = d*(q - 8), q in 0..15.
 * The search and what happens to zeros, huge and denormal weights: lanes_b32.h. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_Q4_0 *o = blk;
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 16; i++) o->qs[i] = (uint8_t)((b->l[i] + 8) | (b->l[i + 16] + 8) << 4);
}

static const struct enc_spec spec = {
    .type = QT_Q4_0,
    .family = ENC_B32,
    .sub = 32,
    .lv = {-8, 7, NULL},
};

const struct enc_blocks enc_blocks_q4_0 = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_q4_0, x, imp, n, dst, search);
}

const struct enc enc_type_q4_0 = {QT_Q4_0, row};
