// SPDX-License-Identifier: MIT
/* containers/q8_0.c - Q8_0 encoder. It multiplies by the reciprocal instead of dividing, as the
 * encoder of existing files does; that changes about one code in 100,000. */
#include "containers/q8_0.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fp.h"
#include "containers/qtype.h"

/* Returns v rounded to a code from -127 to 127. */
static int8_t round_code(float v) {
    /* Infinity becomes the largest code, NaN becomes 0. */
    if (!(fabsf(v) < 127.5f)) return v > 0 ? 127 : v < 0 ? -127 : 0;
    return (int8_t)roundf(v);
}

/* Encodes 32 values; infinity becomes the largest code, NaN 0. */
static void encode_block(const float *x, struct blk_Q8_0 *b) {
    float amax = 0;
    for (int i = 0; i < 32; i++) amax = fmaxf(amax, fabsf(x[i]));
    const float d = amax / 127.0f;
    const float id = d > 0 ? 1.0f / d : 0.0f;
    b->d = fp_f32_to_f16(d);
    for (int i = 0; i < 32; i++) b->qs[i] = round_code(x[i] * id);
}

void q8_0_row(const float *x, void *dst, int64_t n) {
    uint8_t *out = dst;
    for (int64_t i = 0; i + 32 <= n; i += 32, out += sizeof(struct blk_Q8_0)) {
        struct blk_Q8_0 b;
        encode_block(x + i, &b);
        memcpy(out, &b, sizeof b);
    }
}
