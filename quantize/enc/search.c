// SPDX-License-Identifier: MIT
/* quantize/enc/search.c - scalar helpers of the searches, and choice of the lanes.c to use. */
#include "quantize/enc/search.h"

#include <math.h>
#include <stdatomic.h>

#include "base/ctx.h"
#include "base/fp.h"
#include "quantize/enc/super.h"

const int8_t enc_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
/* Index of the level nearest to v, at trunc(256 - 2v). All midpoints between levels are
 * multiples of 1/2, so every half-open interval of length 1/2 belongs to one level; a midpoint
 * belongs to the lower level. */
// clang-format off
static const int8_t iq4_nearest[512] = {
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14,
    14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14,
    14, 14, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13,
    13, 13, 13, 13, 13, 13, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12,
    12, 12, 12, 12, 12, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11,
    11, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 9, 9, 9, 9, 9, 9,
    9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5, 5, 5, 5, 5, 5,
    5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};
/* The levels themselves, with the same indexing. */
const float enc_iq4_level[512] = {
#include "quantize/enc/iq4_level.def"
};
// clang-format on

/* ---- scalars --------------------------------------------------------------------------------- */

int enc_level_index(float level) {
    return iq4_nearest[(int)(256.0f - 2.0f * level)];
}

float enc_absmax(const float *x, int n) {
    float m = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(m)) m = x[i];
    return m;
}

/* ---- instruction sets ------------------------------------------------------------------------ */

void enc_use(enum kern_isa upto) {
    const struct enc_lanes *t = &enc_lanes_base;
#ifdef __x86_64__
    enum kern_isa best = kern_isa_best();
    if ((upto < best ? upto : best) >= KERN_AVX2) t = &enc_lanes_avx2;
#else
    (void)upto;
#endif
    atomic_store_explicit(&ctx_current()->enc, t, memory_order_relaxed);
}

const struct enc_lanes *enc_lanes(void) {
    _Atomic(const struct enc_lanes *) *in_use = &ctx_current()->enc;
    const struct enc_lanes *t = atomic_load_explicit(in_use, memory_order_relaxed);
    if (t) return t;
    enc_use(kern_isa_best());
    return atomic_load_explicit(in_use, memory_order_relaxed);
}

bool enc_load(float *dst, const float *x, int n, float limit) {
    return enc_lanes()->load(dst, x, n, limit);
}

void enc_weights(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                 float mean2, int sub) {
    enc_lanes()->weights(w, x, imp, n, r, mean2, sub);
}

float enc_mean2(const float *x, int64_t n) {
    return enc_lanes()->mean2(x, n);
}
