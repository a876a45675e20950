// SPDX-License-Identifier: MIT
/* quantize/enc/iq4_nl.c - f32 rows to IQ4_NL: blocks of 32, x = d*T[q], T a table of 16 values.
 * The search and what happens to zeros, huge and denormal weights: block32.c. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(void *blk, const struct b32_block *b) {
    struct blk_IQ4_NL *o = blk;
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 16; i++)
        o->qs[i] = (uint8_t)(enc_level_index(b->l[i]) | (enc_level_index(b->l[i + 16])) << 4);
}

static const struct b32_spec spec = {QT_IQ4_NL, {-127, 113, enc_iq4_values}, false};

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

const struct enc enc_type_iq4_nl = {QT_IQ4_NL, row};
const struct enc_blocks enc_blocks_iq4_nl = {QT_IQ4_NL, open_block, close_block};
