// SPDX-License-Identifier: MIT
/* quantize/enc/q2_k.c - f32 rows to Q2_K: 16 sub-blocks of 16, 2-bit codes, 4-bit scales and
 * minima. The search and what happens to zeros, huge and denormal weights: lanes_aff.h. This file
 * packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_Q2_K *o = blk;
    o->d = enc_f16_bits(b->d);
    o->dmin = enc_f16_bits(b->m);
    for (int k = 0; k < 16; k++) o->scales[k] = (uint8_t)(b->sc[k] | b->mn[k] << 4);
    for (int i = 0; i < 64; i++) { /* byte i: elements i%32 + 128*(i/32) + 32*t at bits 2t */
        const int8_t *q = b->l + 128 * (i / 32) + i % 32;
        o->qs[i] = (uint8_t)(q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6);
    }
}

static const struct enc_spec spec = {
    .type = QT_Q2_K,
    .family = ENC_AFF,
    .sub = 16,
    .lv = {0, 3, NULL},
    .sc_hi = 15,
    .imp = {-0.9f, 0.05f, 36},
    .plain = {-0.5f, 0.1f, 15},
    .plain_abs = true,
};

const struct enc_blocks enc_blocks_q2_k = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_q2_k, x, imp, n, dst, search);
}

const struct enc enc_type_q2_k = {QT_Q2_K, row};
