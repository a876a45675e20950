// SPDX-License-Identifier: MIT
/* quantize/enc/q8_0.c - Q8_0 encoder: blocks of 32, x = d*q. Never writes -128, because several
 * kernels take the absolute value of q in int8. lanes_b32.h contains the search and the treatment
 * of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_Q8_0,
    .family = ENC_B32,
    .sub = 32,
    .lv = {-127, 127, NULL},
    .by_largest = true,
};

static const struct enc_blocks blocks = {&spec, enc_pack_Q8_0};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_Q8_0 = {
    .type = QT_Q8_0,
    .row = row,
    .blocks = &blocks,
    .conventional = {0, 0, WP_ONE},
    .chosen = {0, 0, WP_ONE},
};
