// SPDX-License-Identifier: MIT
/* quantize/enc/q6_k.c - f32 rows to Q6_K: 16 sub-blocks of 16, codes -32..31, int8 scales.
 * The search and what happens to zeros, huge and denormal weights: symm.c. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

#include <string.h>

static void pack(void *blk, const struct sym_block *b) {
    struct blk_Q6_K *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 16; k++) o->scales[k] = (int8_t)b->sc[k];
    for (int i = 0; i < QK; i++) {
        int q = b->l[i] + 32, n = i / 128, t = i % 128 / 32, l = i % 32;
        o->ql[64 * n + 32 * (t & 1) + l] |= (uint8_t)((q & 15) << (t < 2 ? 0 : 4));
        o->qh[32 * n + l] |= (uint8_t)((q >> 4) << (2 * t));
    }
}

static const struct sym_spec spec = {
    .type = QT_Q6_K,
    .n_sub = 16,
    .sub = 16,
    .lv = {-32, 31, NULL},
    .sc_lo = -128,
    .sc_hi = 127,
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

const struct enc enc_type_q6_k = {QT_Q6_K, row};
const struct enc_blocks enc_blocks_q6_k = {QT_Q6_K, open_block, close_block};
