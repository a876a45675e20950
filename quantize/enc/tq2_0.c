// SPDX-License-Identifier: MIT
/* quantize/enc/tq2_0.c - TQ2_0 encoder: 256 weights of three levels, two bits each. Search:
 * lowbit.c. */
#include "quantize/enc/lowbit.h"
#include "quantize/enc/types.h"

#include <string.h>

/* Writes the scale and codes found in the block's format. */
static void pack(void *blk, const struct low_block *b) {
    struct blk_TQ2_0 *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 256; i++)
        o->qs[32 * (i / 128) + i % 32] |= (uint8_t)((b->l[i] + 1) << (2 * (i % 128 / 32)));
}

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    static const struct low_spec spec = {QT_TQ2_0, 256, -1, 1, false};
    enc_low_row(&spec, x, imp, n, dst, search, pack);
}

const struct enc enc_type_TQ2_0 = {
    .type = QT_TQ2_0,
    .row = row,
    .conventional = {0, 256, WP_ONE},
    .chosen = {0, 256, WP_RMS_ABS},
    .largest = 65504,
};
