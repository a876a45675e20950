// SPDX-License-Identifier: MIT
/* quantize/enc/iq1_conv.h - the conventional search for IQ1_S and IQ1_M, written from its
 * description (docs/design/quantize.md). It is the tests' baseline and a starting point of the best
 * search.
 *
 * Per sub-block, the weights in ascending order are cut in three (-1, 0, 1). Of all pairs of cuts
 * and all choices of shifts, the largest (sum w*x*q)^2 / sum w*q^2 wins, which also gives the
 * scale; a negative scale mirrors everything. Vectors of 8 that are not on the grid are replaced by
 * the best of the nearest entries at that scale, and the scale is fitted again. Sub-scales are then
 * quantized independently; IQ1_M fits d to the result. Both types multiply d by a constant. */
#ifndef HONE_QUANTIZE_ENC_IQ1_CONV_H
#define HONE_QUANTIZE_ENC_IQ1_CONV_H

#include "quantize/enc/lanes.h"

LANE_TABLE(float, iq1_levels, [2][3]) = {{-0.875f, 0.125f, 1.125f}, {-1.125f, -0.125f, 0.875f}};

struct iq1_sub {
    const struct near_table *near;
    const float *x, *w;
    int n;             /* weights */
    int run;           /* weights that share a shift */
    uint8_t order[32]; /* positions in ascending order of x */
    uint8_t code[32];  /* 0..2 */
    unsigned shifts;   /* one bit per run: shifted down */
    float scale;
};

INLINE void iq1_sort(struct iq1_sub *u) {
    for (int i = 0; i < u->n; i++) {
        int j = i;
        for (; j > 0 && u->x[u->order[j - 1]] > u->x[i]; j--) u->order[j] = u->order[j - 1];
        u->order[j] = (uint8_t)i;
    }
}

/* Sums over those of the first i weights, in ascending order, that belong to run r. */
struct iq1_prefix {
    float wx[2][33], w[2][33];
};

INLINE void iq1_prefixes(const struct iq1_sub *u, struct iq1_prefix *p) {
    for (int r = 0; r < u->n / u->run; r++) {
        p->wx[r][0] = p->w[r][0] = 0;
        for (int i = 0; i < u->n; i++) {
            int at = u->order[i];
            bool mine = at / u->run == r;
            p->wx[r][i + 1] = p->wx[r][i] + (mine ? u->w[at] * u->x[at] : 0);
            p->w[r][i + 1] = p->w[r][i] + (mine ? u->w[at] : 0);
        }
    }
}

/* Finds the best cuts and shifts. Returns false if no choice has a positive merit. */
LANE_FN bool iq1_cut(struct iq1_sub *u) {
    const int runs = u->n / u->run;
    struct iq1_prefix p;
    float merit = 0;
    int best[2] = {0, 0};
    iq1_prefixes(u, &p);
    u->scale = 0;
    for (int a = 0; a <= u->n; a++)
        for (int b = a; b <= u->n; b++)
            for (unsigned shifts = 0; shifts < 1u << runs; shifts++) {
                float sxq = 0, sqq = 0;
                for (int r = 0; r < runs; r++) {
                    const float *l = iq1_levels[shifts >> r & 1], *x = p.wx[r], *w = p.w[r];
                    sxq += x[a] * l[0] + (x[b] - x[a]) * l[1] + (x[u->n] - x[b]) * l[2];
                    sqq += w[a] * l[0] * l[0] + (w[b] - w[a]) * l[1] * l[1] +
                           (w[u->n] - w[b]) * l[2] * l[2];
                }
                if (!(sqq > 0 && sxq * sxq > merit * sqq)) continue;
                merit = sxq * sxq / sqq;
                u->scale = sxq / sqq;
                u->shifts = shifts;
                best[0] = a;
                best[1] = b;
            }
    for (int i = 0; i < u->n; i++)
        u->code[u->order[i]] = (uint8_t)((i >= best[0]) + (i >= best[1]));
    if (u->scale < 0) {
        u->scale = -u->scale;
        u->shifts = ~u->shifts & ((1u << runs) - 1);
        for (int i = 0; i < u->n; i++) u->code[i] = (uint8_t)(2 - u->code[i]);
    }
    return merit > 0;
}

INLINE const float *iq1_levels_of(const struct iq1_sub *u, int i) {
    return iq1_levels[u->shifts >> (i / u->run) & 1];
}

/* Replaces the codes of group h by a grid entry's codes; returns the entry. */
LANE_FN int iq1_to_grid(struct iq1_sub *u, int h, bool *moved) {
    const struct near_table *t = u->near;
    const float *x = u->x + 8 * h, *w = u->w + 8 * h, *l = iq1_levels_of(u, 8 * h);
    uint8_t *code = u->code + 8 * h;
    int number = 0, best = 0;
    for (int e = 0; e < 8; e++) number |= code[e] << (2 * e);
    int at = t->start[number];
    if (at >= 0) return at;
    const uint16_t *list = t->list + (-1 - at);
    float least = INFINITY;
    for (int i = 1; i <= list[0]; i++) {
        float err = 0;
        for (int e = 0; e < 8; e++) {
            float diff = u->scale * l[t->code[list[i]][e]] - x[e];
            err += w[e] * diff * diff;
        }
        if (!(err < least)) continue;
        least = err;
        best = list[i];
    }
    memcpy(code, t->code[best], 8);
    *moved = true;
    return best;
}

/* Adds a sub-block's contribution to the two sums for d, with the levels q multiplied by `mul`. */
LANE_FN void iq1_add_sums(const struct grid_how *h, const struct grid_data *d, int k, float mul,
                          const struct grid_block *b, double *sxq, double *sqq) {
    for (int i = k * h->s->sub; i < (k + 1) * h->s->sub; i++) {
        const float q = mul * (h->s->unit * h->lev[i % 8 * GRID_MAX + b->index[i / 8]]);
        *sxq += (double)(d->w[i] * d->x[i] * q);
        *sqq += (double)(d->w[i] * q * q);
    }
}

/* Finds the entries of sub-block k; returns its scale. */
LANE_FN float iq1_conv_sub(const struct grid_how *h, const struct grid_data *d, int k,
                           struct grid_block *b) {
    const struct grid_spec *s = h->s;
    uint16_t *index = b->index + k * s->sub / 8;
    struct iq1_sub sub, *u = &sub;
    bool moved = false;
    float top = 0;
    u->near = h->near;
    u->x = d->x + k * s->sub;
    u->w = d->w + k * s->sub;
    u->n = s->sub;
    u->run = s->shift == SHIFT_SUB ? s->sub : 8;
    u->scale = 0;
    u->shifts = 0;
    memset(u->code, 1, sizeof u->code);
    for (int i = 0; i < u->n; i++)
        if (fabsf(u->x[i]) > top) top = fabsf(u->x[i]);
    if (top >= 0x1p-40f) {
        iq1_sort(u);
        if (!iq1_cut(u)) u->scale = 0;
    }
    for (int e = 0; e < u->n / 8; e++) {
        const int down = iq1_levels_of(u, 8 * e) == iq1_levels[1] ? s->n : 0;
        index[e] = (uint16_t)(iq1_to_grid(u, e, &moved) + down);
    }
    if (!moved || !(u->scale > 0)) return u->scale;
    double sxq = 0, sqq = 0;
    iq1_add_sums(h, d, k, 1, b, &sxq, &sqq);
    return sxq > 0 && sqq > 0 ? (float)(sxq / sqq) : u->scale;
}

/* Quantizes the scales of the sub-blocks, which completes the block. */
LANE_FN void iq1_conv_close(const struct grid_how *h, const struct grid_data *data,
                            const float *scale, struct grid_block *b) {
    const struct grid_spec *s = h->s;
    double sxq = 0, sqq = 0;
    float top = 0;
    for (int k = 0; k < QK / s->sub; k++)
        if (scale[k] > top) top = scale[k];
    float d = top / (float)(2 * s->sc_max + 1);
    for (int k = 0; d > 0 && k < QK / s->sub; k++) {
        b->sc[k] =
            (uint8_t)enc_rint(enc_clamp_code(0.5f * (scale[k] / d - 1.0f), 0, (float)s->sc_max));
        iq1_add_sums(h, data, k, (float)(2 * b->sc[k] + 1), b, &sxq, &sqq);
    }
    if (s->shift == SHIFT_ENTRY && sqq > 0) d = (float)(sxq / sqq);
    b->d = enc_f16(d * s->fudge);
    if (!(d > 0) || b->d == 0) memset(b, 0, sizeof *b);
}

#endif
