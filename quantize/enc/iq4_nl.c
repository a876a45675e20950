// SPDX-License-Identifier: MIT
/* quantize/enc/iq4_nl.c - IQ4_NL encoder: blocks of 32, x = d*T[q] with a table T of 16 values.
 * lanes_b32.h contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_IQ4_NL,
    .family = ENC_B32,
    .sub = 32,
    .lv = {-127, 113, enc_iq4_values},
};

static const struct enc_blocks blocks = {&spec, enc_pack_IQ4_NL};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_IQ4_NL = {
    .type = QT_IQ4_NL,
    .row = row,
    .blocks = &blocks,
    .conventional = {2, 32, WP_SQ},
    .chosen = {0, 32, WP_RMS_ABS},
};
