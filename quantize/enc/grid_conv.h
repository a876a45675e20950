// SPDX-License-Identifier: MIT
/* quantize/enc/grid_conv.h - the conventional search for the IQ2 and IQ3 formats, written from its
 * description (docs/design/quantize.md). It is the tests' baseline and a starting point of the best
 * search.
 *
 * Signs are separated first (with parity, the least important sign of an odd group is flipped).
 * Scales are tried on a grid with the equally spaced levels 1, 3, 5, ...; a vector that is not on
 * the format's grid is replaced by the best of its nearest entries under sqrt(w). Sub-scales are
 * then quantized independently; the codes stay. One thread handles a sub-block. */
#ifndef HONE_QUANTIZE_ENC_GRID_CONV_H
#define HONE_QUANTIZE_ENC_GRID_CONV_H

#include "quantize/enc/lanes.h"

struct conv_sub { /* one sub-block */
    const struct grid_spec *s;
    const struct near_table *t;
    const float *w;
    float root[32]; /* square roots of the weights */
    float a[32];    /* magnitudes; flipped ones are negative */
};
struct conv_trial {
    uint16_t index[8];
    bool on_grid[8];
    float sxq, sqq;
};

/* Returns the grid entry for `per` weights at scale 1/id. */
LANE_FN int conv_entry(const struct conv_sub *u, int h, float id, bool *on_grid) {
    const struct grid_spec *s = u->s;
    const float *a = u->a + h * s->per, *root = u->root + h * s->per;
    int code = 0;
    for (int e = 0; e < s->per; e++) {
        int l =
            (int)enc_rint(enc_clamp_code(0.5f * (id * a[e] - 1.0f), 0, (float)(s->n_level - 1)));
        code |= l << (grid_bits(s) * e);
    }
    int at = u->t->start[code], best = 0;
    *on_grid = at >= 0;
    if (at >= 0) return at;
    const uint16_t *list = u->t->list + (-1 - at);
    float least = INFINITY, scale = 1.0f / id;
    for (int i = 1; i <= list[0]; i++) {
        float err = 0;
        for (int e = 0; e < s->per; e++) {
            float diff = scale * (float)(2 * u->t->code[list[i]][e] + 1) - a[e];
            err += root[e] * diff * diff;
        }
        if (!(err < least)) continue;
        least = err;
        best = list[i];
    }
    return best;
}

INLINE void conv_sums(const struct conv_sub *u, struct conv_trial *t) {
    const struct grid_spec *s = u->s;
    t->sxq = t->sqq = 0;
    for (int i = 0; i < s->sub; i++) {
        float q = (float)(2 * u->t->code[t->index[i / s->per]][i % s->per] + 1);
        t->sxq += u->w[i] * u->a[i] * q;
        t->sqq += u->w[i] * q * q;
    }
}

/* Finds the scale and entries of one sub-block; may flip signs of groups. */
LANE_FN float conv_search(struct conv_sub *u, uint8_t *sign, uint16_t *index) {
    const struct grid_spec *s = u->s;
    struct conv_trial best, t;
    float top = 0, merit = 0, scale = 0;
    memset(&best, 0, sizeof best);
    for (int i = 0; i < s->sub; i++)
        if (u->a[i] > top) top = u->a[i];
    if (top < 0x1p-40f) return 0;
    for (int k = -s->t; k <= s->t; k++) {
        float id = ((float)(2 * s->n_level - 1) + (float)k * s->step) / top;
        for (int h = 0; h < s->sub / s->per; h++)
            t.index[h] = (uint16_t)conv_entry(u, h, id, &t.on_grid[h]);
        conv_sums(u, &t);
        if (!(t.sqq > 0 && t.sxq * t.sxq > merit * t.sqq)) continue;
        merit = t.sxq * t.sxq / t.sqq;
        scale = t.sxq / t.sqq;
        best = t;
    }
    if (scale > 0) { /* once more at the fitted scale, for vectors that were off the grid */
        for (int h = 0; h < s->sub / s->per; h++) {
            bool on;
            if (!best.on_grid[h]) best.index[h] = (uint16_t)conv_entry(u, h, 1.0f / scale, &on);
        }
        conv_sums(u, &best);
        scale = best.sxq / best.sqq;
    }
    if (scale < 0) {
        scale = -scale;
        for (int o = 0; o < s->sub / 8; o++) sign[o] = (uint8_t)~sign[o];
    }
    memcpy(index, best.index, (size_t)(s->sub / s->per) * sizeof *index);
    return scale;
}

/* Separates signs from magnitudes; in an odd group of 8, flips the sign that matters least. */
INLINE void take_signs(const struct grid_spec *s, const float *x, const float *w, float *a,
                       uint8_t *sign) {
    for (int o = 0; o < s->sub / 8; o++) {
        const float *xo = x + 8 * o, *wo = w + 8 * o;
        unsigned bits = 0;
        int least = 0;
        for (int e = 0; e < 8; e++) {
            if (xo[e] < 0) bits |= 1u << e;
            a[8 * o + e] = fabsf(xo[e]);
            if (wo[e] * xo[e] * xo[e] < wo[least] * xo[least] * xo[least]) least = e;
        }
        if (s->parity && odd_bits(bits)) {
            bits ^= 1u << least;
            a[8 * o + least] = -a[8 * o + least];
        }
        sign[o] = (uint8_t)bits;
    }
}

/* Finds the signs and entries of sub-block k; returns its scale. */
LANE_FN float grid_conv_sub(const struct grid_how *h, const struct grid_data *d, int k,
                            struct grid_block *b) {
    const struct grid_spec *s = h->s;
    const int first = k * s->sub;
    struct conv_sub u;
    u.s = s;
    u.t = h->near;
    u.w = d->w + first;
    for (int i = 0; i < s->sub; i++) u.root[i] = sqrtf(u.w[i]);
    take_signs(s, d->x + first, u.w, u.a, b->sign + first / 8);
    return conv_search(&u, b->sign + first / 8, b->index + first / s->per);
}

/* Quantizes the scales of the sub-blocks, which completes the block. */
LANE_FN void grid_conv_close(const struct grid_how *h, const float *scale, struct grid_block *b) {
    const struct grid_spec *s = h->s;
    float top = 0;
    for (int k = 0; k < QK / s->sub; k++)
        if (scale[k] > top) top = scale[k];
    const float d = top / 31.0f;
    b->d = enc_f16(d * s->fudge);
    if (!(d > 0) || b->d == 0) {
        memset(b, 0, sizeof *b);
        return;
    }
    for (int k = 0; k < QK / s->sub; k++)
        b->sc[k] = (uint8_t)enc_rint(enc_clamp_code(0.5f * (scale[k] / d - 1.0f), 0, 15));
}

#endif
