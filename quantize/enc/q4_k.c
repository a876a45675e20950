// SPDX-License-Identifier: MIT
/* quantize/enc/q4_k.c - f32 rows to Q4_K: 8 sub-blocks of 32, 4-bit codes, 6-bit scales and minima.
 * The search and what happens to zeros, huge and denormal weights: affine.c. This file packs. */
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static void pack(void *blk, const struct aff_block *b) {
    struct blk_Q4_K *o = blk;
    o->d = enc_f16_bits(b->d);
    o->dmin = enc_f16_bits(b->dmin);
    enc_pack_scale_min(o->scales, b->sc, b->mn);
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < 32; i++) {
            int lo = b->q[64 * g + i], hi = b->q[64 * g + 32 + i];
            o->qs[32 * g + i] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        }
}

static const struct aff_spec spec = {
    .type = QT_Q4_K,
    .n_sub = 8,
    .sub = 32,
    .qmax = 15,
    .smax = 63,
    .imp = {-0.9f, 0.05f, 36},
    .plain = {-1.0f, 0.1f, 20},
    .plain_abs = false,
};

static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_aff_row(&spec, x, imp, n, dst, search, pack);
}

static void open_block(const float *x, const float *imp, enum search search, struct enc_open *o) {
    enc_aff_open(&spec, x, imp, search, o);
}

static void close_block(const struct enc_open *o, void *blk) {
    struct aff_block b;
    enc_aff_close(o, &b);
    pack(blk, &b);
}

const struct enc enc_type_q4_k = {QT_Q4_K, row};
const struct enc_blocks enc_blocks_q4_k = {QT_Q4_K, open_block, close_block};
