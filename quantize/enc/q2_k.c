// SPDX-License-Identifier: MIT
/* quantize/enc/q2_k.c - Q2_K encoder: 16 sub-blocks of 16, 2-bit codes, 4-bit scales and minima.
 * lanes_aff.h contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/pack.h"
#include "quantize/enc/super.h"
#include "quantize/enc/types.h"

static const struct enc_spec spec = {
    .type = QT_Q2_K,
    .family = ENC_AFF,
    .sub = 16,
    .lv = {0, 3, NULL},
    .sc_hi = 15,
    .imp = {-0.9f, 0.05f, 36},
    .plain = {-0.5f, 0.1f, 15},
    .plain_abs = true,
};

static const struct enc_blocks blocks = {&spec, enc_pack_Q2_K};

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_row(&blocks, x, imp, n, dst, search);
}

const struct enc enc_type_Q2_K = {
    .type = QT_Q2_K,
    .row = row,
    .blocks = &blocks,
    .conventional = {1, 256, WP_ABS},
    .chosen = {1, 256, WP_RMS_ABS},
};
