// SPDX-License-Identifier: MIT
/* quantize/enc/q5_k.c - f32 rows to Q5_K: 8 sub-blocks of 32, 5-bit codes, 6-bit scales and minima.
 * The search and what happens to zeros, huge and denormal weights: lanes_aff.h. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_Q5_K *o = blk;
    o->d = enc_f16_bits(b->d);
    o->dmin = enc_f16_bits(b->m);
    enc_pack_scale_min(o->scales, b->sc, b->mn);
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < 32; i++) {
            int lo = b->l[64 * g + i], hi = b->l[64 * g + 32 + i];
            o->qs[32 * g + i] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        }
    for (int i = 0; i < 32; i++) {
        unsigned h = 0;
        for (int k = 0; k < 8; k++) h |= (unsigned)(b->l[32 * k + i] >> 4) << k;
        o->qh[i] = (uint8_t)h;
    }
}

static const struct enc_spec spec = {
    .type = QT_Q5_K,
    .family = ENC_AFF,
    .sub = 32,
    .lv = {0, 31, NULL},
    .sc_hi = 63,
    .imp = {-0.9f, 0.05f, 36},
    .plain = {-0.5f, 0.1f, 15},
};

const struct enc_blocks enc_blocks_q5_k = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_q5_k, x, imp, n, dst, search);
}

const struct enc enc_type_q5_k = {QT_Q5_K, row};
