// SPDX-License-Identifier: MIT
/* quantize/enc/q4_1.c - f32 rows to Q4_1: blocks of 32, x = d*q + m, q in 0..15.
 * The search and what happens to zeros, huge and denormal weights: lanes_b32.h. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_Q4_1 *o = blk;
    o->d = enc_f16_bits(b->d);
    o->m = enc_f16_bits(b->m);
    for (int i = 0; i < 16; i++) o->qs[i] = (uint8_t)(b->l[i] | (b->l[i + 16]) << 4);
}

static const struct enc_spec spec = {
    .type = QT_Q4_1,
    .family = ENC_B32,
    .sub = 32,
    .lv = {0, 15, NULL},
    .affine = true,
};

const struct enc_blocks enc_blocks_q4_1 = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_q4_1, x, imp, n, dst, search);
}

const struct enc enc_type_q4_1 = {QT_Q4_1, row};
