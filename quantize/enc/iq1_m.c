// SPDX-License-Identifier: MIT
/* quantize/enc/iq1_m.c - IQ1_M encoder: 16 sub-blocks of 16; 2048 vectors of 8 from -1, 0, 1,
 * each with its own shift. gridq.c contains the search and the treatment of zero, huge and denormal
 * weights. */
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/types.h"

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ1_M, x, imp, n, dst, search, enc_pack_IQ1_M);
}

const struct enc enc_type_IQ1_M = {
    .type = QT_IQ1_M,
    .row = row,
    .conventional = {2, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
