// SPDX-License-Identifier: MIT
/* quantize/enc/q5_0.c - f32 rows to Q5_0: blocks of 32, x = d*(q - 16), q in 0..31.
 * The search and what happens to zeros, huge and denormal weights: lanes_b32.h. This file packs. */
#include "core/bytes.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(const struct enc_open *restrict b, void *restrict blk) {
    struct blk_Q5_0 *o = blk;
    o->d = enc_f16_bits(b->d);
    uint32_t high = 0;
    for (int i = 0; i < 16; i++) {
        int lo = b->l[i] + 16, hi = b->l[i + 16] + 16;
        o->qs[i] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        high |= (uint32_t)(lo >> 4) << i | (uint32_t)(hi >> 4) << (i + 16);
    }
    store_u32(o->qh, high);
}

static const struct enc_spec spec = {
    .type = QT_Q5_0,
    .family = ENC_B32,
    .sub = 32,
    .lv = {-16, 15, NULL},
};

const struct enc_blocks enc_blocks_q5_0 = {&spec, pack};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&enc_blocks_q5_0, x, imp, n, dst, search);
}

const struct enc enc_type_q5_0 = {QT_Q5_0, row};
