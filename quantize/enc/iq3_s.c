// SPDX-License-Identifier: MIT
/* quantize/enc/iq3_s.c - IQ3_S encoder: 8 sub-blocks of 32; 512 vectors of 4 magnitudes, any
 * signs. gridq.c contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/types.h"

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ3_S, x, imp, n, dst, search, enc_pack_IQ3_S);
}

const struct enc enc_type_IQ3_S = {
    .type = QT_IQ3_S,
    .row = row,
    .conventional = {2, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
