// SPDX-License-Identifier: MIT
/* quantize/enc/q3_k.c - Q3_K encoder: 16 sub-blocks of 16, codes -4..3, signed 6-bit scales.
 * lanes_sym.h contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_Q3_K,
    .family = ENC_SYM,
    .sub = 16,
    .lv = {-4, 3, NULL},
    .sc_lo = -32,
    .sc_hi = 31,
};

static const struct enc_blocks blocks = {&spec, enc_pack_Q3_K};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_Q3_K = {
    .type = QT_Q3_K,
    .row = row,
    .blocks = &blocks,
    .conventional = {2, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
