// SPDX-License-Identifier: MIT
/* quantize/enc/iq3_xxs.c - IQ3_XXS encoder: 8 sub-blocks of 32; 256 vectors of 4 magnitudes,
 * even signs. gridq.c contains the search and the treatment of zero, huge and denormal weights. */
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/types.h"

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    enc_grid_row(QT_IQ3_XXS, x, imp, n, dst, search, enc_pack_IQ3_XXS);
}

const struct enc enc_type_IQ3_XXS = {
    .type = QT_IQ3_XXS,
    .row = row,
    .conventional = {2, 256, WP_SQ},
    .chosen = {0, 256, WP_RMS_ABS},
};
