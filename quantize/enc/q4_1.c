// SPDX-License-Identifier: MIT
/* quantize/enc/q4_1.c - f32 rows to Q4_1: blocks of 32, x = d*q + m, q in 0..15.
 * The search and what happens to zeros, huge and denormal weights: block32.c. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(void *blk, const struct b32_block *b) {
    struct blk_Q4_1 *o = blk;
    o->d = enc_f16_bits(b->d);
    o->m = enc_f16_bits(b->m);
    for (int i = 0; i < 16; i++) o->qs[i] = (uint8_t)(b->l[i] | (b->l[i + 16]) << 4);
}

static const struct b32_spec spec = {QT_Q4_1, {0, 15, NULL}, true};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_b32_row(&spec, x, imp, n, dst, search, pack);
}

static void open_block(const float *x, const float *imp, enum search search, struct enc_open *o) {
    enc_b32_open(&spec, x, imp, search, o);
}

static void close_block(const struct enc_open *o, void *blk) {
    struct b32_block b;
    enc_b32_close(o, &b);
    pack(blk, &b);
}

const struct enc enc_type_q4_1 = {QT_Q4_1, row};
const struct enc_blocks enc_blocks_q4_1 = {QT_Q4_1, open_block, close_block};
