// SPDX-License-Identifier: MIT
/* quantize/enc/f16.c - F16 encoder: rounds to nearest even and keeps subnormals. Values beyond
 * +-65504 become +-65504, because an infinity would spoil every product. Ignores importance and the
 * search mode. */
#include "quantize/enc/search.h"
#include "quantize/enc/types.h"

#include "base/bytes.h"

#include "base/attr.h"

/* Encodes a row; ignores importance. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    UNUSED(imp);
    UNUSED(search);
    uint8_t *p = dst;
    for (int64_t i = 0; i < n; i++) store_u16(p + 2 * i, enc_f16_bits(x[i]));
}

const struct enc enc_type_F16 = {.type = QT_F16,
                                 .row = row,
                                 .conventional = {0, 256, WP_ONE},
                                 .chosen = {0, 256, WP_ONE},
                                 .largest = 65504};
