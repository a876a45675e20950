// SPDX-License-Identifier: MIT
/* quantize/enc/grid_scale.h - choice of d, then of the integer scales, then of the block itself
 * from a super-block's chains (grid_merge.h).
 *
 * Written for a team: one CPU thread, or a warp of a device. The team shares TEAM_EACH loops, and
 * team_one() guards what only one member does; the rest runs in every member. */
#ifndef HONE_QUANTIZE_ENC_GRID_SCALE_H
#define HONE_QUANTIZE_ENC_GRID_SCALE_H

#include "quantize/enc/grid_merge.h"

/* Returns the error of variant v at scale c, without its constant part. */
INLINE float way_error(const struct grid_spec *sp, const struct grid_job *j, int v, float c,
                       const struct seg **which) {
    const struct seg *s = j->seg + v * grid_slots(sp) * CHAIN_MAX;
    int lo = 0; /* last segment whose `below` exceeds c; found without branches */
    for (int n = j->n_seg[v]; n > 1;) {
        const int half = n / 2;
        lo += half & -(int)(s[lo + half].below > c);
        n -= half;
    }
    *which = &s[lo];
    return c * (c * s[lo].q - 2.0f * s[lo].p);
}

/* Returns the error of the better variant of sub-block k. */
INLINE float sub_error(const struct grid_spec *s, const struct grid_job *j, int k, float c,
                       const struct seg **which, int *way) {
    const int ways = grid_ways(s);
    const struct seg *other;
    const float best = way_error(s, j, *way = k * ways, c, which);
    if (ways == 1) return best;
    const float e = way_error(s, j, k * ways + 1, c, &other);
    if (!(e < best)) return best;
    *way = k * ways + 1;
    *which = other;
    return e;
}

/* Chooses the integer scales with the least error at d, within `near` of the nearest. Returns the
 * error; *refit is the least-squares d. */
LANE_FN float choose(const struct grid_spec *s, const struct grid_job *j, float d, int near,
                     uint8_t *sc, float *refit) {
    double num = 0, den = 0;
    float total = 0;
    for (int k = 0; k < QK / s->sub; k++) {
        const struct seg *best_seg = NULL, *seg;
        float best = INFINITY;
        const float top = (float)s->sc_max;
        const int mid = (int)enc_rint(enc_clamp_code(0.5f * (j->fit[k] / d - 1.0f), 0, top));
        int at = 0, way;
        for (int v = mid - near; v <= mid + near; v++) {
            if (v < 0 || v > s->sc_max) continue;
            const float e = sub_error(s, j, k, d * s->unit * (float)(2 * v + 1), &seg, &way);
            if (!(e < best)) continue;
            best = e;
            best_seg = seg;
            at = v;
        }
        sc[k] = (uint8_t)at;
        total += best;
        if (!best_seg) continue; /* no finite error */
        const double m = 2 * at + 1;
        num += m * (double)best_seg->p;
        den += m * m * (double)best_seg->q;
    }
    *refit = den > 0 ? (float)(num / den / (double)s->unit) : 0;
    return total;
}

/* Alternates between least squares for d and choosing integer scales until d no longer changes. */
LANE_FN void settle(const struct grid_spec *s, const struct grid_job *j, float d, int near,
                    int rounds, struct found *best) {
    for (int r = 0; r < rounds; r++) {
        struct found f;
        float next;
        if (!(d > 0)) return;
        f.d = d;
        f.err = choose(s, j, d, near, f.sc, &next);
        if (f.err < best->err) *best = f;
        next = enc_f16(next);
        if (next == d) return;
        d = next;
    }
}

/* Updates the best result from the team's n results; in a tie, the first wins. */
INLINE void take_best(struct grid_job *j, int n) {
    team_sync();
    for (int i = 0; team_one() && i < n; i++)
        if (j->found[i].err < j->best.err) j->best = j->found[i];
    team_sync();
}

/* Returns candidate i for the block's scale d. `top` is the largest scale that fits a sub-block.
 * Candidates below 64 place it near the largest integer scale, in even steps. Candidates from 64
 * on, which only a slow search uses (START_MAX in all), place it exactly at smaller integers. */
INLINE float start_of(const struct grid_spec *s, float top, bool slow, int i) {
    if (i >= 64) return enc_f16_scale(top / (float)(2 * (s->sc_max - (i - 64)) + 1));
    const float f = slow ? 0.55f + 0.02f * (float)i : 0.8f + 0.04f * (float)i;
    return enc_f16_scale(top / (float)(2 * s->sc_max + 1) * f);
}

/* Tries all candidates for d and refines the best few. */
LANE_FN void search_starts(const struct grid_spec *s, struct grid_job *j, bool slow) {
    const int n = slow ? START_MAX : 20, keep = slow ? KEEP_MAX : 3;
    float top = 0;
    for (int k = 0; k < QK / s->sub; k++)
        if (j->fit[k] > top) top = j->fit[k];
    TEAM_EACH(i, n) {
        uint8_t sc[GRID_SUBS];
        float unused;
        const float d = start_of(s, top, slow, i);
        j->start[i] = d;
        j->err[i] = d > 0 ? choose(s, j, d, slow ? 2 : 1, sc, &unused) : INFINITY;
    }
    team_sync();
    for (int t = 0; team_one() && t < keep; t++) {
        int at = 0;
        for (int i = 1; i < n; i++)
            if (j->err[i] < j->err[at]) at = i;
        j->kept[t] = at;
        j->err[at] = INFINITY;
    }
    team_sync();
    TEAM_EACH(t, keep) {
        j->found[t] = j->best;
        settle(s, j, j->start[j->kept[t]], slow ? 3 : 1, slow ? 8 : 3, &j->found[t]);
    }
    take_best(j, keep);
}

/* Tries neighboring f16 values of d. */
LANE_FN void search_steps(const struct grid_spec *s, struct grid_job *j) {
    const int bits = enc_f16_bits(j->best.d);
    TEAM_EACH(i, KEEP_MAX) {
        struct found f = j->best;
        const int v = i % 2 ? bits + (i / 2 + 1) : bits - (i / 2 + 1);
        float unused;
        if (v > 0 && v <= 0x7bff) {
            f.d = fp_f16_to_f32((uint16_t)v);
            f.err = choose(s, j, f.d, 2, f.sc, &unused);
        }
        j->found[i] = f;
    }
    take_best(j, KEEP_MAX);
}

/* Refines `other`, the d from the conventional search. */
LANE_FN void search_more(const struct grid_spec *s, struct grid_job *j, float other) {
    search_starts(s, j, true);
    if (team_one()) settle(s, j, other, s->sc_max, 8, &j->best);
    team_sync();
    if (j->best.d > 0) search_steps(s, j);
}

/* ---- the block ------------------------------------------------------------------------------- */

/* Flips the sign in entry e that costs the least at its levels. */
INLINE void flip_least(const struct grid_how *h, const struct grid_data *d, int e,
                       struct grid_block *b) {
    const struct grid_spec *s = h->s;
    const float *lev = h->lev + b->index[e], *wa = d->wa + e * s->per;
    int at = 0;
    for (int i = 1; i < s->per; i++)
        if (wa[i] * lev[i * GRID_MAX] < wa[at] * lev[at * GRID_MAX]) at = i;
    const int bit = e * s->per + at;
    b->sign[bit / 8] ^= (uint8_t)(1 << (bit % 8));
}

/* Chooses the entries and signs of sub-block k at its scale. */
INLINE void decide_sub(const struct grid_how *h, const struct grid_data *d,
                       const struct grid_job *j, int k, struct grid_block *b) {
    const struct grid_spec *s = h->s;
    const float scale = b->d * s->unit * (float)(2 * b->sc[k] + 1);
    const struct seg *unused;
    int way;
    sub_error(s, j, k, scale, &unused, &way);
    for (int i = 0; i < grid_slots(s); i++) {
        const struct chain *c = &j->chain[way * grid_slots(s) + i];
        int v = c->n - 1;
        if (v < 0) continue;
        while (v > 0 && !(c->v[v].below > scale)) v--;
        for (int e = 0; e < c->entries; e++) {
            b->index[c->first + e] = c->v[v].g[e] & (GRID_FLIP - 1);
            if (c->v[v].g[e] & GRID_FLIP) flip_least(h, d, c->first + e, b);
        }
    }
}

/* Builds the block at the best scales. */
LANE_FN void decide(const struct grid_how *h, const struct grid_data *d, const struct grid_job *j,
                    struct grid_block *b) {
    team_sync();
    if (team_one()) {
        memset(b, 0, sizeof *b);
        b->d = j->best.d;
        for (int k = 0; k < QK / h->s->sub && b->d != 0; k++) b->sc[k] = j->best.sc[k];
        for (int o = 0; o < QK / 8 && b->d != 0; o++) b->sign[o] = d->sign[o];
    }
    team_sync();
    if (b->d != 0) TEAM_EACH(k, QK / h->s->sub) decide_sub(h, d, j, k, b);
    team_sync();
}

LANE_FN double block_error(const struct grid_how *h, const struct grid_data *d,
                           const struct grid_block *b) {
    const struct grid_spec *s = h->s;
    double e = 0;
    for (int i = 0; i < QK; i++) {
        const float v = b->d * s->unit * (float)(2 * b->sc[i / s->sub] + 1) *
                        h->lev[i % s->per * GRID_MAX + b->index[i / s->per]];
        const double diff = (double)(b->sign[i / 8] >> (i % 8) & 1 ? -v : v) - (double)d->x[i];
        e += (double)d->w[i] * diff * diff;
    }
    return e;
}

/* Replaces b by the newly found block if that has a smaller decoded error. */
LANE_FN void offer(const struct grid_how *h, const struct grid_data *d, struct grid_job *j,
                   struct grid_block *b) {
    decide(h, d, j, &j->mine);
    const bool better = block_error(h, d, &j->mine) < block_error(h, d, b);
    team_sync();
    if (better && team_one()) *b = j->mine;
    team_sync();
}

/* Builds the block from its chains. On entry, b holds the conventional search's block. */
LANE_FN void grid_search(const struct grid_how *h, const struct grid_data *d, struct grid_job *j,
                         struct grid_block *b) {
    const struct grid_spec *s = h->s;
    const int ways = grid_ways(s);
    TEAM_EACH(k, QK / s->sub) {
        j->fit[k] = j->merit[k] = 0;
        for (int v = k * ways; v < (k + 1) * ways; v++) merge_chains(s, j, v, k);
    }
    if (team_one()) memset(&j->best, 0, sizeof j->best); /* all zeros */
    team_sync();
    search_starts(s, j, false);
    if (h->search != SEARCH_BEST) {
        decide(h, d, j, b);
        return;
    }
    const float conventional = b->d;
    offer(h, d, j, b);
    search_more(s, j, conventional);
    offer(h, d, j, b);
}

#endif
