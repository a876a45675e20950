// SPDX-License-Identifier: MIT
/* quantize/enc/q5_1.c - f32 rows to Q5_1: blocks of 32, x = d*q + m, q in 0..31.
 * The search and what happens to zeros, huge and denormal weights: block32.c. This file packs. */
#include "core/bytes.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(void *blk, const struct b32_block *b) {
    struct blk_Q5_1 *o = blk;
    o->d = enc_f16_bits(b->d);
    o->m = enc_f16_bits(b->m);
    uint32_t high = 0;
    for (int i = 0; i < 16; i++) {
        int lo = b->l[i], hi = b->l[i + 16];
        o->qs[i] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        high |= (uint32_t)(lo >> 4) << i | (uint32_t)(hi >> 4) << (i + 16);
    }
    store_u32(o->qh, high);
}

static const struct b32_spec spec = {QT_Q5_1, {0, 31, NULL}, true};

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

const struct enc enc_type_q5_1 = {QT_Q5_1, row};
const struct enc_blocks enc_blocks_q5_1 = {QT_Q5_1, open_block, close_block};
