// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_block.h - block loading, search weights and errors for the searches of
 * lanes.c. */
#ifndef HONE_QUANTIZE_ENC_LANES_BLOCK_H
#define HONE_QUANTIZE_ENC_LANES_BLOCK_H

#include "quantize/enc/lanes.h"

/* ---- loading and weighing, in natural order; n a multiple of 8, run or sub: see at() --------- */

/* Loads n weights from x, clamped to +-limit. Returns false if all are at most 2^-25. */
LANE_FN bool load(float *dst, const float *x, int n, float limit, int run) {
    const vf hi = splat(limit), lo = splat(-limit);
    vf top = splat(0);
    lanes_sync();
    for (int i = 0; i < n; i += LANES) {
        vf v = loadv(x + i);
        top = maxv(absv(v), top);
        storev(dst + at(i, run), clampv(v, lo, hi));
    }
    lanes_sync();
    return lane_max(0, top) > 0x1p-25f;
}

/* Implements enc_mean2. */
LANE_FN float mean2(const float *x, int n, int run) {
    vd s = to_double(splat(0));
    for (int i = 0; i < n; i += LANES) {
        vd v = to_double(loadv(x + at(i, run)));
        s += v * v;
    }
    return (float)fmin(total(s) / (double)n, 1e30);
}

/* Returns the power of two that scales x > 0 into [1, 2). */
LANE_FN float unit_scale(float x) {
    int e = (int)(fp_bits(x) >> 23) - 127; /* subnormal: -127 */
    if (e > 126) e = 126;
    if (e < -126) e = -126;
    return fp_from_bits((uint32_t)(127 - e) << 23);
}

/* Computes the search weights of a kind, up to a power of two. */
LANE_FN void plain_weights(float *w, const float *x, int n, enum wplain kind, int sub) {
    const int run = kind == WP_RMS_ABS ? sub : n;
    vf top = splat(0);
    for (int i = 0; i < n; i += LANES) top = maxv(absv(loadv(x + at(i, sub))), top);
    float m = lane_max(0, top);
    const vf unit = splat(m > 0 ? unit_scale(m) : 1.0f); /* keeps squares in range */
    for (int b = 0; b < n; b += run) {
        vf sum = splat(0), add = splat(0);
        for (int i = b; i < b + run && kind == WP_RMS_ABS; i += LANES) {
            vf a = loadv(x + at(i, sub)) * unit;
            sum += a * a;
        }
        if (kind == WP_RMS_ABS) add = sqrtv(spread_sum(sum) / splat((float)run));
        for (int i = b; i < b + run; i += LANES) {
            vf a = absv(loadv(x + at(i, sub))) * unit;
            storev(w + at(i, sub), kind == WP_ONE ? splat(1) : kind == WP_SQ ? a * a : add + a);
        }
    }
}

LANE_FN void importance_weights(float *w, const float *x, const float *imp, int n, int sigma,
                                float mean, int sub) {
    const vf zero = splat(0), add = splat((float)sigma * mean);
    vf top = zero;
    for (int i = 0; i < n; i += LANES) top = maxv(loadv(imp + i), top);
    float m = lane_max(0, top);
    const vf s = splat(m > 0 ? unit_scale(m) : 1.0f); /* keeps products in range */
    for (int i = 0; i < n; i += LANES) {
        vf q = maxv(loadv(imp + i), zero) * s, v = loadv(x + at(i, sub));
        storev(w + at(i, sub), sigma ? q * sqrtv(add + v * v) : q);
    }
}

/* Implements enc_weights; `mean` is the mean over the rule's scope. */
LANE_FN void weights(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                     float mean, int sub) {
    lanes_sync();
    if (imp)
        importance_weights(w, x, imp, n, r->sigma, mean, sub);
    else
        plain_weights(w, x, n, r->plain, sub);
    vf top = splat(0);
    for (int i = 0; i < n; i += LANES) top = maxv(loadv(w + at(i, sub)), top);
    float m = lane_max(0, top);
    const vf s = splat(m > 0 ? unit_scale(m) : 0);
    for (int i = 0; i < n; i += LANES) {
        float *p = w + at(i, sub);
        storev(p, m > 0 ? maxv(loadv(p) * s, splat(0x1p-30f)) : splat(1));
    }
    lanes_sync();
}

/* Computes weights() with the mean that the rule requests: that of the block or that of its row. */
LANE_FN void block_weights(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                           float row_mean2, int sub) {
    float mean = 0;
    if (r->sigma && imp) mean = r->scope == 0 ? row_mean2 : mean2(x, n, sub);
    weights(w, x, imp, n, r, mean, sub);
}

/* Writes the codes of the first `runs` runs at scale d and minimum m; run k starts at q +
 * stride*k. */
LANE_FN void codes_at(const struct levels *lv, const struct tile *t, int n, vf d, vf m, int8_t *q,
                      int stride, int runs) {
    const vf lo = splat((float)lv->lo), hi = splat((float)lv->hi), inv = ratio(splat(1), d);
    for (int i = 0; i < n; i += 4) {
        vf l[4];
        for (int k = 0; k < 4; k++)
            l[k] = nearest(lv->tab != NULL, (t->x[i + k] - m) * inv, lo, hi);
        store_codes(q + i, stride, runs, l);
    }
}

/* ---- raw blocks ------------------------------------------------------------------------------ */

/* Makes o a zero super-block without minima, except for its codes. Sets field by field, because the
 * codes would otherwise be zeroed twice. */
LANE_FN void open_zero(const struct enc_spec *s, struct enc_raw *o) {
    o->n = QK;
    o->sub = s->sub;
    o->lv = s->lv;
    o->d = o->m = o->m_sign = 0;
    o->sc_lo = s->sc_lo;
    o->sc_hi = s->sc_hi;
    o->mn_hi = 0;
    memset(o->sc, 0, sizeof o->sc);
    memset(o->mn, 0, sizeof o->mn);
}

/* Returns the sum of w*(x - x^)^2 with decoded values x^. */
LANE_FN double open_error(const struct enc_raw *o, const float *x, const float *w) {
    vd e = to_double(splat(0));
    lanes_sync();
    for (int i = 0; i < o->n; i += LANES) {
        const int k = i / o->sub;
        vf y = splat(enc_raw_step(o, k)) * from_bytes(o->l + i) + splat(enc_raw_base(o, k));
        vd diff = to_double(y) - to_double(loadv(x + at(i, o->sub)));
        e += to_double(loadv(w + at(i, o->sub))) * diff * diff;
    }
    return total(e);
}

/* Adds the sum of imp*x*x to sums[0] and the sum of imp*x*x^ to sums[1], with x in natural
 * order. imp NULL: 1. */
LANE_FN void balance(const struct enc_raw *o, const float *x, const float *imp, double sums[2]) {
    for (int k = 0; k < o->n / o->sub; k++) {
        vf a = splat(0), b = splat(0);
        const vf step = splat(enc_raw_step(o, k)), base = splat(enc_raw_base(o, k));
        for (int i = k * o->sub; i < (k + 1) * o->sub; i += LANES) {
            vf v = loadv(x + i), wv = imp ? loadv(imp + i) * v : v;
            a += wv * v;
            b += wv * (step * from_bytes(o->l + i) + base);
        }
        sums[0] += total(to_double(a));
        sums[1] += total(to_double(b));
    }
}

#endif
