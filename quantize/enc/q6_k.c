// SPDX-License-Identifier: MIT
/* quantize/enc/q6_k.c - f32 rows to Q6_K: 16 sub-blocks of 16, codes -32..31, int8 scales.
 * The search and what happens to zeros, huge and denormal weights: lanes_sym.h. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_Q6_K *o = blk;
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 16; k++) o->scales[k] = (int8_t)b->sc[k];
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) {
            const int8_t *q = b->l + 128 * h + i;
            int a = q[0] + 32, c = q[32] + 32, e = q[64] + 32, g = q[96] + 32;
            o->ql[64 * h + i] = (uint8_t)((a & 15) | (e & 15) << 4);
            o->ql[64 * h + 32 + i] = (uint8_t)((c & 15) | (g & 15) << 4);
            o->qh[32 * h + i] = (uint8_t)(a >> 4 | (c >> 4) << 2 | (e >> 4) << 4 | (g >> 4) << 6);
        }
}

static const struct enc_spec spec = {
    .type = QT_Q6_K,
    .family = ENC_SYM,
    .sub = 16,
    .lv = {-32, 31, NULL},
    .sc_lo = -128,
    .sc_hi = 127,
};

const struct enc_blocks enc_blocks_q6_k = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_q6_k, x, imp, n, dst, search);
}

const struct enc enc_type_q6_k = {QT_Q6_K, row};
