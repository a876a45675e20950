// SPDX-License-Identifier: MIT
/* quantize/enc/iq4_xs.c - IQ4_XS encoder: 8 sub-blocks of 32, codes of the IQ4 table, signed
 * 6-bit scales. lanes_sym.h contains the search and the treatment of zero, huge and denormal
 * weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_IQ4_XS,
    .family = ENC_SYM,
    .sub = 32,
    .lv = {-127, 113, enc_iq4_values},
    .sc_lo = -32,
    .sc_hi = 31,
};

static const struct enc_blocks blocks = {&spec, enc_pack_IQ4_XS};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_IQ4_XS = {
    .type = QT_IQ4_XS,
    .row = row,
    .blocks = &blocks,
    .conventional = {2, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
