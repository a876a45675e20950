// SPDX-License-Identifier: MIT
/* quantize/enc/q5_k.c - Q5_K encoder: 8 sub-blocks of 32, 5-bit codes, 6-bit scales and minima.
 * lanes_aff.h contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_Q5_K,
    .family = ENC_AFF,
    .sub = 32,
    .lv = {0, 31, NULL},
    .sc_hi = 63,
    .imp = {-0.9f, 0.05f, 36},
    .plain = {-0.5f, 0.1f, 15},
};

static const struct enc_blocks blocks = {&spec, enc_pack_Q5_K};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_Q5_K = {
    .type = QT_Q5_K,
    .row = row,
    .blocks = &blocks,
    .conventional = {2, 256, WP_RMS_ABS},
    .chosen = {0, 256, WP_RMS_ABS},
};
