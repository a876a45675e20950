// SPDX-License-Identifier: MIT
/* quantize/enc/q5_0.c - Q5_0 encoder: blocks of 32, x = d*(q - 16), q in 0..31. lanes_b32.h
 * contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_Q5_0,
    .family = ENC_B32,
    .sub = 32,
    .lv = {-16, 15, NULL},
};

static const struct enc_blocks blocks = {&spec, enc_pack_Q5_0};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_Q5_0 = {
    .type = QT_Q5_0,
    .row = row,
    .blocks = &blocks,
    .conventional = {1, 0, WP_ONE},
    .chosen = {0, 0, WP_RMS_ABS},
};
