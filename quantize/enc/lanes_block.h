// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_block.h - what all searches of lanes.c share: blocks in natural order, loaded,
 * weighed and judged. */
#ifndef HONE_QUANTIZE_ENC_LANES_BLOCK_H
#define HONE_QUANTIZE_ENC_LANES_BLOCK_H

#include "quantize/enc/lanes.h"

/* ---- loading and weighing, in natural order; n a multiple of 8 ----------------------------------
 */

INLINE float largest(vf v) {
    float m = v[0];
    for (int k = 1; k < LANES; k++)
        if (v[k] > m) m = v[k];
    return m;
}

/* The sum of all lanes, in every lane. */
INLINE vf spread_sum(vf v) {
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    return v + __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
}

static bool load(float *dst, const float *x, int n, float limit) {
    const vf hi = splat(limit), lo = splat(-limit);
    vf top = splat(0);
    for (int i = 0; i < n; i += LANES) {
        vf v = loadv(x + i);
        top = maxv(absv(v), top);
        storev(dst + i, clampv(v, lo, hi));
    }
    return largest(top) > 0x1p-25f;
}

static double mean2(const float *x, int64_t n) {
    vd s = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vd v = __builtin_convertvector(loadv(x + i), vd);
        s += v * v;
    }
    double t = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
    for (; i < n; i++) t += (double)x[i] * (double)x[i];
    return t / (double)n;
}

/* The power of two that brings x > 0 into [1, 2). */
static float unit_scale(float x) {
    int e = (int)(fp_bits(x) >> 23) - 127; /* subnormal: -127 */
    if (e > 126) e = 126;
    if (e < -126) e = -126;
    return fp_from_bits((uint32_t)(127 - e) << 23);
}

/* Up to a power of two. */
static void plain_weights(float *w, const float *x, int n, enum wplain kind, int sub) {
    const int run = kind == WP_RMS_ABS ? sub : n;
    vf top = splat(0);
    for (int i = 0; i < n; i += LANES) top = maxv(absv(loadv(x + i)), top);
    float m = largest(top);
    const vf unit = splat(m > 0 ? unit_scale(m) : 1.0f); /* squares stay in range */
    for (int b = 0; b < n; b += run) {
        vf sum = splat(0), add = splat(0);
        for (int i = b; i < b + run && kind == WP_RMS_ABS; i += LANES) {
            vf a = loadv(x + i) * unit;
            sum += a * a;
        }
        if (kind == WP_RMS_ABS) add = sqrtv(spread_sum(sum) / splat((float)run));
        for (int i = b; i < b + run; i += LANES) {
            vf a = absv(loadv(x + i)) * unit;
            storev(w + i, kind == WP_ONE ? splat(1) : kind == WP_SQ ? a * a : add + a);
        }
    }
}

static void importance_weights(float *w, const float *x, const float *imp, int n, int sigma,
                               float mean2) {
    const vf zero = splat(0), add = splat((float)sigma * mean2);
    vf top = zero;
    for (int i = 0; i < n; i += LANES) top = maxv(loadv(imp + i), top);
    float m = largest(top);
    const vf s = splat(m > 0 ? unit_scale(m) : 1.0f); /* keeps the products in range */
    for (int i = 0; i < n; i += LANES) {
        vf q = maxv(loadv(imp + i), zero) * s, v = loadv(x + i);
        storev(w + i, sigma ? q * sqrtv(add + v * v) : q);
    }
}

static void weights(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                    float mean2, int sub) {
    if (imp)
        importance_weights(w, x, imp, n, r->sigma, mean2);
    else
        plain_weights(w, x, n, r->plain, sub);
    vf top = splat(0);
    for (int i = 0; i < n; i += LANES) top = maxv(loadv(w + i), top);
    float m = largest(top);
    const vf s = splat(m > 0 ? unit_scale(m) : 0);
    for (int i = 0; i < n; i += LANES)
        storev(w + i, m > 0 ? maxv(loadv(w + i) * s, splat(0x1p-30f)) : splat(1));
}

/* Codes of scale d, minimum m, to q. */
static void codes_at(const struct levels *lv, const struct tile *t, int n, vf d, vf m, int8_t *q) {
    const vf lo = splat((float)lv->lo), hi = splat((float)lv->hi), inv = ratio(splat(1), d);
    for (int i = 0; i < n; i += 4) {
        vf l[4];
        for (int k = 0; k < 4; k++) l[k] = nearest(lv->tab, (t->x[i + k] - m) * inv, lo, hi);
        store_codes(q, n, i, l);
    }
}

/* ---- blocks that are open ----------------------------------------------------------------------
 */

/* sum w*(x - x^)^2, x^ as it will be decoded. */
static double open_error(const struct enc_open *o, const float *x, const float *w) {
    vd e = {0};
    for (int i = 0; i < o->n; i += LANES) {
        const int k = i / o->sub;
        vf y = splat(enc_open_step(o, k)) * from_bytes(o->l + i) + splat(enc_open_base(o, k));
        vd diff = __builtin_convertvector(y, vd) - __builtin_convertvector(loadv(x + i), vd);
        e += __builtin_convertvector(loadv(w + i), vd) * diff * diff;
    }
    return ((e[0] + e[4]) + (e[1] + e[5])) + ((e[2] + e[6]) + (e[3] + e[7]));
}

INLINE double total(vf v) {
    return (((double)v[0] + (double)v[4]) + ((double)v[1] + (double)v[5])) +
           (((double)v[2] + (double)v[6]) + ((double)v[3] + (double)v[7]));
}

static void balance(const struct enc_open *o, const float *x, const float *imp, double sums[2]) {
    for (int k = 0; k < o->n / o->sub; k++) {
        vf a = splat(0), b = splat(0);
        const vf step = splat(enc_open_step(o, k)), base = splat(enc_open_base(o, k));
        for (int i = k * o->sub; i < (k + 1) * o->sub; i += LANES) {
            vf v = loadv(x + i), wv = imp ? loadv(imp + i) * v : v;
            a += wv * v;
            b += wv * (step * from_bytes(o->l + i) + base);
        }
        sums[0] += total(a);
        sums[1] += total(b);
    }
}

#endif
