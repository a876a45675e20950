// SPDX-License-Identifier: MIT
/* quantize/enc/iq2_s.c - IQ2_S encoder: 16 sub-blocks of 16; 1024 vectors of 8 magnitudes, any
 * signs. gridq.c contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/types.h"

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ2_S, x, imp, n, dst, search, enc_pack_IQ2_S);
}

const struct enc enc_type_IQ2_S = {
    .type = QT_IQ2_S,
    .row = row,
    .conventional = {2, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
