// SPDX-License-Identifier: MIT
/* quantize/enc/q4_1.c - Q4_1 encoder: blocks of 32, x = d*q + m, q in 0..15. lanes_b32.h contains
 * the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_Q4_1,
    .family = ENC_B32,
    .sub = 32,
    .lv = {0, 15, NULL},
    .affine = true,
};

static const struct enc_blocks blocks = {&spec, enc_pack_Q4_1};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_Q4_1 = {
    .type = QT_Q4_1,
    .row = row,
    .blocks = &blocks,
    .conventional = {1, 0, WP_ONE},
    .chosen = {0, 0, WP_RMS_ABS},
};
