// SPDX-License-Identifier: MIT
/* quantize/enc/pos.h - weighted quantization of positive values, with which the conventional search
 * encodes scales and minima, independently of each other. All lanes compute the same values. */
#ifndef HONE_QUANTIZE_ENC_POS_H
#define HONE_QUANTIZE_ENC_POS_H

#include "quantize/enc/lanes.h"

LANE_FN float pos_error(int n, int lmax, const float *x, const float *w, float iscale) {
    float d = 1.0f / iscale, e = 0;
    for (int i = 0; i < n; i++) {
        float diff = x[i] - d * enc_rint(enc_clampf(iscale * x[i], 0, (float)lmax));
        e += w[i] * diff * diff;
    }
    return e;
}

/* Makes up to five sweeps. In each, every code takes its best value given the others if that raises
 * the merit. */
LANE_FN void pos_descend(int n, int lmax, const float *x, const float *w, uint8_t *l, float *sxl,
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

/* Quantizes n positive values to 0..lmax with weights. Stores the codes in l and returns the
 * least-squares scale. */
LANE_FN float pos_fit(int n, int lmax, const float *x, const float *w, uint8_t *l) {
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

#endif
