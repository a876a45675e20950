// SPDX-License-Identifier: MIT
/* quantize/enc/lanes.h - arithmetic on eight runs of weights in parallel lanes, with one scale per
 * run. The searches (lanes_*.h) are written once and compiled for CPU vectors (lanes_cpu.h) and for
 * device threads (cuda/lanes.cuh).
 *
 * A tile holds element i of eight runs (sub-blocks of a super-block, or blocks of 32) in eight
 * lanes. Each lane adds up its own elements in index order; lanes are independent except where
 * noted, and no operations are fused. So every target gives the result of the plain scalar loop.
 *
 * vf, vi, vd: a float, an int (a mask, for comparisons) and a double per lane. A plain float has
 * the same value in all lanes, and all lanes take the same branches. Functions are LANE_FN or
 * INLINE, constant tables LANE_TABLE. */
#ifndef HONE_QUANTIZE_ENC_LANES_H
#define HONE_QUANTIZE_ENC_LANES_H

#ifndef LANE_FN
#include "quantize/enc/lanes_cpu.h"
#endif

/* Scratch for eight lanes: a block's weights and search weights in natural order, with element i at
 * at(i, run); and blocks to compare with. */
struct lanes_mem {
    float *x, *w;
    struct enc_raw *mine;
};

INLINE vf clampv(vf v, vf lo, vf hi) {
    return minv(maxv(v, lo), hi);
}
/* Rounds to the nearest integer, ties to even; |v| < 2^22. */
INLINE vf rintv(vf v) {
    const vf magic = splat(12582912.0f);
    return (v + magic) - magic;
}
/* Returns a/b, or 0 if b is 0. */
INLINE vf ratio(vf a, vf b) {
    vi zero = b == splat(0);
    return pick(zero, splat(0), a / pick(zero, splat(1), b));
}
/* Returns the levels nearest to v. */
INLINE vf nearest(bool table, vf v, vf lo, vf hi) {
    v = clampv(v, lo, hi);
    if (!table) return rintv(v);
    return lookup(enc_iq4_level, truncv(splat(256) - splat(2) * v));
}
INLINE int code_of_zero(const struct levels *lv) {
    vf z = nearest(lv->tab != NULL, splat(0), splat((float)lv->lo), splat((float)lv->hi));
    return (int)lane_get(z, 0);
}

/* Returns, per lane, the signed element of largest magnitude; in a tie, the first. */
INLINE vf absmax(const struct tile *t, int n) {
    vf m = splat(0);
    for (int i = 0; i < n; i++) m = pick(absv(t->x[i]) > absv(m), t->x[i], m);
    return m;
}
/* Returns, per lane, the element with the largest w x^2. */
INLINE vf heaviest(const struct tile *t, int n) {
    vf most = splat(0), where = t->x[0];
    for (int i = 0; i < n; i++) {
        vf h = t->w[i] * t->x[i] * t->x[i];
        vi more = h > most;
        most = pick(more, h, most);
        where = pick(more, t->x[i], where);
    }
    return where;
}

/* ---- across lanes ---------------------------------------------------------------------------- */

INLINE float lane_sum(const vf *v, int n) { /* in order */
    float s = 0;
    for (int t = 0; t < n; t++)
        for (int k = 0; k < LANES; k++) s += lane_get(v[t], k);
    return s;
}
/* Adds the lanes to s, in order. */
INLINE double lane_add(double s, vf v) {
    for (int k = 0; k < LANES; k++) s += (double)lane_get(v, k);
    return s;
}
INLINE float lane_max(float m, vf v) {
    for (int k = 0; k < LANES; k++) {
        float a = lane_get(v, k);
        if (a > m) m = a;
    }
    return m;
}
/* Returns the value of largest magnitude among m and the lanes; in a tie, the first. */
INLINE float lane_absmax(float m, vf v) {
    for (int k = 0; k < LANES; k++) {
        float a = lane_get(v, k);
        if (fabsf(a) > fabsf(m)) m = a;
    }
    return m;
}

#endif
