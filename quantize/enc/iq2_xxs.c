// SPDX-License-Identifier: MIT
/* quantize/enc/iq2_xxs.c - IQ2_XXS encoder: 8 sub-blocks of 32; 256 vectors of 8 magnitudes,
 * even signs. gridq.c contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/types.h"

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ2_XXS, x, imp, n, dst, search, enc_pack_IQ2_XXS);
}

const struct enc enc_type_IQ2_XXS = {
    .type = QT_IQ2_XXS,
    .row = row,
    .conventional = {1, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
