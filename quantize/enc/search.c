// SPDX-License-Identifier: MIT
/* quantize/enc/search.c - scalars that the searches share, and which lanes.c is in use. */
#include "quantize/enc/search.h"

#include <math.h>
#include <stdatomic.h>

#include "core/fp.h"
#include "quantize/enc/super.h"

const int8_t enc_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
/* Index of the level nearest to v, by j = trunc(256 - 2v): the midpoints between levels are
 * multiples of 1/2, so every half-open interval of length 1/2 belongs to one level (a midpoint to
 * the lower). */
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
/* The levels themselves, by the same number. */
const float enc_iq4_level[512] = {
    113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113,
    113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89,
    89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89,
    89, 89, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69,
    69, 69, 69, 69, 69, 69, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53,
    53, 53, 53, 53, 53, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38,
    38, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 13, 13, 13, 13, 13, 13,
    13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10,
    -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -35, -35, -35, -35, -35, -35, -35,
    -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49,
    -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65,
    -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83,
    -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -104, -104, -104, -104, -104,
    -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104,
    -104, -104, -104, -104, -104, -104, -104, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127,
};
// clang-format on

/* ---- scalars ------------------------------------------------------------------------------------
 */

float enc_f16(float x) {
    return fp_f16_to_f32(enc_f16_bits(x));
}

uint16_t enc_f16_bits(float x) {
    return fp_f32_to_f16(enc_clampf(x, -65504.0f, 65504.0f));
}

float enc_level(const struct levels *lv, float v) {
    v = enc_clampf(v, (float)lv->lo, (float)lv->hi);
    return lv->tab ? enc_iq4_level[(int)(256.0f - 2.0f * v)] : enc_rint(v);
}

int enc_level_index(float level) {
    return iq4_nearest[(int)(256.0f - 2.0f * level)];
}

float enc_absmax(const float *x, int n) {
    float m = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(m)) m = x[i];
    return m;
}

/* ---- instruction sets ---------------------------------------------------------------------------
 */

/* The table in use; NULL until the first use or enc_use. */
static _Atomic(const struct enc_lanes *) in_use;

void enc_use(enum kern_isa upto) {
    const struct enc_lanes *t = &enc_lanes_base;
#ifdef __x86_64__
    enum kern_isa best = kern_isa_best();
    if ((upto < best ? upto : best) >= KERN_AVX2) t = &enc_lanes_avx2;
#else
    (void)upto;
#endif
    atomic_store_explicit(&in_use, t, memory_order_relaxed);
}

const struct enc_lanes *enc_lanes(void) {
    const struct enc_lanes *t = atomic_load_explicit(&in_use, memory_order_relaxed);
    if (t) return t;
    enc_use(kern_isa_best());
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

bool enc_load(float *dst, const float *x, int n, float limit) {
    return enc_lanes()->load(dst, x, n, limit);
}

void enc_weights(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                 float mean2, int sub) {
    enc_lanes()->weights(w, x, imp, n, r, mean2, sub);
}

float enc_mean2(const float *x, int64_t n) {
    return (float)fmin(enc_lanes()->mean2(x, n), 1e30);
}

/* ---- positive values ----------------------------------------------------------------------------
 */

static float pos_error(int n, int lmax, const float *x, const float *w, float iscale) {
    float d = 1.0f / iscale, e = 0;
    for (int i = 0; i < n; i++) {
        float diff = x[i] - d * enc_rint(enc_clampf(iscale * x[i], 0, (float)lmax));
        e += w[i] * diff * diff;
    }
    return e;
}

/* Up to five sweeps: each code takes its best value given the others, if the merit rises. */
static void pos_descend(int n, int lmax, const float *x, const float *w, uint8_t *l, float *sxl,
                        float *sll) {
    for (int sweep = 0; sweep < 5; sweep++) {
        bool changed = false;
        for (int i = 0; i < n; i++) {
            float li = l[i], a = *sxl - w[i] * x[i] * li, b = *sll - w[i] * li * li;
            if (a <= 0 || b <= 0) continue;
            float nl = enc_rint(enc_clampf(x[i] * b / a, 0, (float)lmax));
            if (nl == li) continue;
            a += w[i] * x[i] * nl;
            b += w[i] * nl * nl;
            if (a * a * *sll <= *sxl * *sxl * b) continue;
            *sxl = a;
            *sll = b;
            l[i] = (uint8_t)nl;
            changed = true;
        }
        if (!changed) return;
    }
}

float enc_pos(int n, int lmax, const float *x, const float *w, uint8_t *l) {
    float top = 0, best = INFINITY, iscale = 0, sxl = 0, sll = 0;
    for (int i = 0; i < n; i++)
        if (x[i] > top) top = x[i];
    for (int i = 0; i < n; i++) l[i] = 0;
    if (top < 0x1p-40f) return 0;
    for (int t = 0; t < 9; t++) {
        int k = t == 0 ? 0 : t <= 4 ? t - 5 : t - 4; /* the plain start first, then -4..4 */
        float is = ((float)lmax + 0.1f * (float)k) / top, e = pos_error(n, lmax, x, w, is);
        if (e < best) {
            best = e;
            iscale = is;
        }
    }
    for (int i = 0; i < n; i++) {
        float li = enc_rint(enc_clampf(iscale * x[i], 0, (float)lmax));
        l[i] = (uint8_t)li;
        sxl += w[i] * x[i] * li;
        sll += w[i] * li * li;
    }
    pos_descend(n, lmax, x, w, l, &sxl, &sll);
    return sll > 0 ? sxl / sll : 0;
}
