// SPDX-License-Identifier: MIT
/* quantize/enc/q8_0.c - f32 rows to Q8_0: blocks of 32, x = d*q. -128 is never written: several
 * kernels take the absolute value of q in int8.
 * The search and what happens to zeros, huge and denormal weights: block32.c. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(void *blk, const struct b32_block *b) {
    struct blk_Q8_0 *o = blk;
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 32; i++) o->qs[i] = b->l[i];
}

static const struct b32_spec spec = {QT_Q8_0, {-127, 127, NULL}, false};

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

const struct enc enc_type_q8_0 = {QT_Q8_0, row};
const struct enc_blocks enc_blocks_q8_0 = {QT_Q8_0, open_block, close_block};
