// SPDX-License-Identifier: MIT
/* quantize/enc/bf16.c - BF16 encoder: rounds to nearest even. Finite values that would round to
 * infinity become the largest finite value. Ignores importance and the search mode. */
#include "quantize/enc/types.h"

#include "base/bytes.h"
#include "base/fp.h"

#include "base/attr.h"

/* Encodes a row, clamping values beyond the largest finite one. Ignores importance. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    UNUSED(imp);
    UNUSED(search);
    uint8_t *p = dst;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = fp_f32_to_bf16(x[i]);
        if ((h & 0x7f80u) == 0x7f80u)
            h = (uint16_t)((h & 0x8000u) | 0x7f7fu); /* rounded past the largest finite value */
        store_u16(p + 2 * i, h);
    }
}

const struct enc enc_type_BF16 = {
    .type = QT_BF16, .row = row, .conventional = {0, 256, WP_ONE}, .chosen = {0, 256, WP_ONE}};
