// SPDX-License-Identifier: MIT
/* quantize/enc/q1_0.c - Q1_0 encoder: 128 weights, one bit each. Search: lowbit.c. */
#include "quantize/enc/lowbit.h"
#include "quantize/enc/types.h"

#include <string.h>

/* Writes the scale and codes found in the block's format. */
static void pack(void *blk, const struct low_block *b) {
    struct blk_Q1_0 *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 128; i++) o->qs[i / 8] |= (uint8_t)((b->l[i] > 0) << (i % 8));
}

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    static const struct low_spec spec = {QT_Q1_0, 128, -1, 1, true};
    enc_low_row(&spec, x, imp, n, dst, search, pack);
}

const struct enc enc_type_Q1_0 = {
    .type = QT_Q1_0,
    .row = row,
    .conventional = {0, 128, WP_ONE},
    .chosen = {0, 128, WP_ONE},
    .largest = 65504,
};
