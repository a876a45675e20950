// SPDX-License-Identifier: MIT
/* quantize/enc/f32.c - F32 encoder: copies the weights. Ignores importance and the search mode. */
#include "quantize/enc/types.h"

#include <string.h>

#include "base/attr.h"

/* Copies a row; ignores importance. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    UNUSED(imp);
    UNUSED(search);
    memcpy(dst, x, (size_t)n * sizeof *x);
}

const struct enc enc_type_F32 = {
    .type = QT_F32, .row = row, .conventional = {0, 256, WP_ONE}, .chosen = {0, 256, WP_ONE}};
