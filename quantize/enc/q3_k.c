// SPDX-License-Identifier: MIT
/* quantize/enc/q3_k.c - f32 rows to Q3_K: 16 sub-blocks of 16, codes -4..3, signed 6-bit scales.
 * The search and what happens to zeros, huge and denormal weights: symm.c. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct sym_block *b) {
    struct blk_Q3_K *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 16; k++) { /* 6 bits: low 4 in bytes 0-7, high 2 in bytes 8-11 */
        int sc = b->sc[k] + 32;
        o->scales[k % 8] |= (uint8_t)((sc & 15) << (k < 8 ? 0 : 4));
        o->scales[8 + k % 4] |= (uint8_t)((sc >> 4) << (2 * (k / 4)));
    }
    for (int i = 0; i < QK; i++) { /* hmask set: not below zero */
        int q = b->l[i] + 4;
        o->qs[32 * (i / 128) + i % 32] |= (uint8_t)((q & 3) << (2 * (i % 128 / 32)));
        o->hmask[i % 32] |= (uint8_t)((q >> 2) << (i / 32));
    }
}

static const struct sym_spec spec = {
    .type = QT_Q3_K,
    .n_sub = 16,
    .sub = 16,
    .lv = {-4, 3, NULL},
    .sc_lo = -32,
    .sc_hi = 31,
};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_sym_row(&spec, x, imp, n, dst, search, pack);
}

static void open_block(const float *x, const float *imp, enum search search, struct enc_open *o) {
    enc_sym_open(&spec, x, imp, search, o);
}

static void close_block(const struct enc_open *o, void *blk) {
    struct sym_block b;
    enc_sym_close(o, &b);
    pack(blk, &b);
}

const struct enc enc_type_q3_k = {QT_Q3_K, row};
const struct enc_blocks enc_blocks_q3_k = {QT_Q3_K, open_block, close_block};
