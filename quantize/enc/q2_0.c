// SPDX-License-Identifier: MIT
/* quantize/enc/q2_0.c - Q2_0 encoder: 64 weights, codes -1..2. Search: lowbit.c. */
#include "quantize/enc/lowbit.h"
#include "quantize/enc/types.h"

#include <string.h>

/* Writes the scale and codes found in the block's format. */
static void pack(void *blk, const struct low_block *b) {
    struct blk_Q2_0 *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 64; i++) o->qs[i / 4] |= (uint8_t)((b->l[i] + 1) << (2 * (i % 4)));
}

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    static const struct low_spec spec = {QT_Q2_0, 64, -1, 2, false};
    enc_low_row(&spec, x, imp, n, dst, search, pack);
}

const struct enc enc_type_Q2_0 = {
    .type = QT_Q2_0,
    .row = row,
    .conventional = {0, 64, WP_ONE},
    .chosen = {0, 64, WP_RMS_ABS},
    .largest = 65504,
};
