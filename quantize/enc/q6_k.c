// SPDX-License-Identifier: MIT
/* quantize/enc/q6_k.c - Q6_K encoder: 16 sub-blocks of 16, codes -32..31, int8 scales. lanes_sym.h
 * contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_Q6_K,
    .family = ENC_SYM,
    .sub = 16,
    .lv = {-32, 31, NULL},
    .sc_lo = -128,
    .sc_hi = 127,
};

static const struct enc_blocks blocks = {&spec, enc_pack_Q6_K};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_Q6_K = {
    .type = QT_Q6_K,
    .row = row,
    .blocks = &blocks,
    .conventional = {0, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
