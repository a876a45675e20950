// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_sym.h - search for symmetric runs, x ~ d*l, and for super-blocks of them, x ~
 * d*sc*l with signed sub-scales (Q3_K, Q6_K, IQ4_XS). Included by lanes.c.
 *
 * Conventional: a grid of scales per sub-block with the largest weight at the long (negative) end;
 * scales are then quantized independently, and codes are rounded once. Fast and best: every
 * sub-block is fitted in both orientations. For a few values of d, each sub-block takes the integer
 * scale with the least true error near either fit; then d is fitted to 256 weights and rounded to
 * f16. Best keeps the conventional result unless the decoded error falls. Blocks below f16's range
 * become zeros; weights are clamped to what d = 65504 can hold. */
#ifndef HONE_QUANTIZE_ENC_LANES_SYM_H
#define HONE_QUANTIZE_ENC_LANES_SYM_H

#include "quantize/enc/lanes_block.h"

struct vfit {
    vf d, merit; /* merit: (sum w x l)^2 / sum w l^2; error = sum w x^2 - merit */
};

/* ---- trials of one tile ---------------------------------------------------------------------- */

/* Rounds once and returns the sums of w x l and w l^2. */
INLINE void sym_sums(bool table, const struct tile *t, int n, vf lo, vf hi, vf s, vf *sxl,
                     vf *sll) {
    vf a = splat(0), b = splat(0);
    for (int i = 0; i < n; i++) {
        vf l = nearest(table, s * t->x[i], lo, hi), wl = t->w[i] * l;
        a += wl * t->x[i];
        b += wl * l;
    }
    *sxl = a;
    *sll = b;
}

INLINE vf sym_keep(struct vfit *f, vf sxl, vf sll) {
    vf d = ratio(sxl, sll), merit = d * sxl;
    vi better = merit > f->merit;
    f->merit = pick(better, merit, f->merit);
    f->d = pick(better, d, f->d);
    return d;
}

INLINE void sym_fit_as(bool table, const struct levels *lv, const struct tile *t, int n,
                       const vf *start, int count, int iters, struct vfit *f) {
    const vf lo = splat((float)lv->lo), hi = splat((float)lv->hi);
    for (int k = 0; k < count; k += 2) {
        vf s0 = start[k], s1 = start[k + 1 < count ? k + 1 : k];
        for (int it = 0; it < iters; it++) {
            vf a0, b0, a1, b1;
            sym_sums(table, t, n, lo, hi, s0, &a0, &b0);
            sym_sums(table, t, n, lo, hi, s1, &a1, &b1);
            s0 = ratio(splat(1), sym_keep(f, a0, b0));
            s1 = ratio(splat(1), sym_keep(f, a1, b1));
        }
    }
}
/* Finds the best of `count` trials; in a tie, the first wins. Codes are the levels nearest to
 * start*x. After each least-squares fit they are rounded again with the new scale, `iters` times in
 * all. */
LANE_FN void sym_fit(const struct levels *lv, const struct tile *t, int n, const vf *start,
                     int count, int iters, struct vfit *f) {
    if (lv->tab)
        sym_fit_as(true, lv, t, n, start, count, iters, f);
    else
        sym_fit_as(false, lv, t, n, start, count, iters, f);
}

/* Tries the conventional starts. */
LANE_FN vf sym_fit_conventional(const struct levels *lv, const struct tile *t, int n) {
    vf top = absmax(t, n), start[24];
    vi none = absv(top) < splat(0x1p-40f);
    vf by = pick(none, splat(1), top);
    int c = 0;
    if (lv->tab) { /* the largest element at the short end, then 15 trials at the long one */
        start[c++] = splat((float)-lv->lo) / by;
        for (int k = -7; k <= 7; k++) start[c++] = splat((float)(k + lv->lo)) / by;
    } else {
        start[c++] = splat((float)lv->lo) / by;
        for (int k = -9; k <= 9; k++)
            if (k) start[c++] = splat((float)lv->lo - 0.1f * (float)k) / by;
    }
    struct vfit f = {splat(0), splat(0)};
    sym_fit(lv, t, n, start, c, 1, &f);
    return pick(none, splat(0), f.d);
}

/* Targets for the largest weight, in units of the end that it points to: below 1 leaves room
 * (smaller weights matter more), above 1 clips it. Then come `heavy` evenly spaced targets for the
 * weight that matters most (largest w x^2), each of which puts it exactly on a level. */
struct sym_reach {
    float from, to;
    int n, iters;
    int heavy;
};
LANE_FN struct vfit sym_fit_reach(const struct levels *lv, const struct tile *t, int n,
                                  const struct sym_reach *r, bool negative) {
    vf start[ENC_TRIALS], top = absmax(t, n), end = splat((float)(negative ? lv->lo : lv->hi));
    struct vfit f = {splat(0), splat(0)};
    vi none = absv(top) < splat(0x1p-40f);
    vf per = end / pick(none, splat(1), top);
    int c = 0;
    for (int k = 0; k < r->n; k++)
        start[c++] = per * splat(r->from + (r->to - r->from) * (float)k / (float)(r->n - 1));
    if (r->heavy) {
        vf at = heaviest(t, n);
        vf own = end / pick(absv(at) < splat(0x1p-40f), splat(1), at);
        for (int k = 1; k <= r->heavy; k++) start[c++] = own * splat((float)k / (float)r->heavy);
    }
    sym_fit(lv, t, n, start, c, r->iters, &f);
    f.d = pick(none, splat(0), f.d);
    return f;
}

INLINE vf sym_error(bool table, const struct tile *t, int n, vf lo, vf hi, vf d) {
    vf inv = ratio(splat(1), d), e = splat(0);
    for (int i = 0; i < n; i++) {
        vf diff = t->x[i] - d * nearest(table, inv * t->x[i], lo, hi);
        e += t->w[i] * diff * diff;
    }
    return e;
}
/* Updates *best and *err with the scale that has the least true error among the `count` scales
 * d*sc. */
LANE_FN void sym_choose(const struct levels *lv, const struct tile *t, int n, vf d, const vf *sc,
                        int count, vf *best, vf *err) {
    const vf lo = splat((float)lv->lo), hi = splat((float)lv->hi);
    for (int k = 0; k < count; k += 2) {
        vf s0 = sc[k], s1 = sc[k + 1 < count ? k + 1 : k], e0, e1;
        if (lv->tab) {
            e0 = sym_error(true, t, n, lo, hi, d * s0);
            e1 = sym_error(true, t, n, lo, hi, d * s1);
        } else {
            e0 = sym_error(false, t, n, lo, hi, d * s0);
            e1 = sym_error(false, t, n, lo, hi, d * s1);
        }
        vi better = e0 < *err;
        *err = pick(better, e0, *err);
        *best = pick(better, s0, *best);
        better = e1 < *err;
        *err = pick(better, e1, *err);
        *best = pick(better, s1, *best);
    }
}

/* Computes the sums for codes that are rounded with scale d; if d is 0, all codes are the zero
 * code. */
LANE_FN void sym_sums_at(const struct levels *lv, const struct tile *t, int n, vf d, vf *sxl,
                         vf *sll) {
    const vf lo = splat((float)lv->lo), hi = splat((float)lv->hi), inv = ratio(splat(1), d);
    if (lv->tab)
        sym_sums(true, t, n, lo, hi, inv, sxl, sll);
    else
        sym_sums(false, t, n, lo, hi, inv, sxl, sll);
}

/* ---- super-blocks ---------------------------------------------------------------------------- */

struct sym_job { /* search state of one super-block */
    const struct enc_spec *s;
    int tiles, n; /* tiles of 8 sub-blocks; weights per sub-block */
    float *x, *w; /* weights and search weights in natural order */
    struct tile t[2];
    vf neg[2], pos[2]; /* fits with the largest weight at the low and the high end */
};
struct sym_state {
    float d, err;
    vf sc[2];
};
struct sym_effort {
    struct sym_reach reach;
    int ends, n_d;    /* starts of d: 1 or 2 ends of the sub-scales, times the first n_d factors */
    int near;         /* integers tried on each side of those of both fits */
    int rounds, step; /* refits, each followed by `step` steps around the current integers */
};
LANE_TABLE(float, sym_factor, [6]) = {1.0f, 1.06f, 1.12f, 0.97f, 1.03f, 1.22f};

LANE_FN struct sym_state sym_start(float d) {
    struct sym_state b;
    b.d = d;
    b.err = INFINITY;
    b.sc[0] = b.sc[1] = splat(0);
    return b;
}

LANE_FN vf sym_clamp(const struct enc_spec *s, vf v) {
    return rintv(clampv(v, splat((float)s->sc_lo), splat((float)s->sc_hi)));
}

/* Chooses integer scales around both fits, or around the current ones. */
LANE_FN void sym_integers(const struct sym_job *j, struct sym_state *b, bool fits, int near) {
    const vf d = splat(b->d);
    vf err[2];
    for (int k = 0; k < j->tiles; k++) {
        vf sc[16], from[2] = {b->sc[k], b->sc[k]};
        int n = 0;
        if (fits) {
            from[0] = sym_clamp(j->s, j->neg[k] / d);
            from[1] = sym_clamp(j->s, j->pos[k] / d);
        }
        for (int f = 0; f < 1 + fits; f++) /* current state first, so that it wins ties */
            for (int t = 0; t <= 2 * near; t++) {
                int by = t & 1 ? (t + 1) / 2 : -(t / 2);
                sc[n++] = sym_clamp(j->s, from[f] + splat((float)by));
            }
        err[k] = splat(INFINITY);
        sym_choose(&j->s->lv, &j->t[k], j->n, d, sc, n, &b->sc[k], &err[k]);
    }
    b->err = lane_sum(err, j->tiles);
}

/* Fits d to the current integers and codes, by least squares. Returns false if it does not
 * change. */
LANE_FN bool sym_refit(const struct sym_job *j, struct sym_state *b) {
    double num = 0, den = 0;
    for (int k = 0; k < j->tiles; k++) {
        vf sxl, sll;
        sym_sums_at(&j->s->lv, &j->t[k], j->n, splat(b->d) * b->sc[k], &sxl, &sll);
        num = lane_add(num, b->sc[k] * sxl);
        den = lane_add(den, b->sc[k] * b->sc[k] * sll);
    }
    if (!(den > 0)) return false;
    float d = enc_f16((float)(num / den));
    if (d == b->d || d == 0) return false;
    b->d = d;
    return true;
}

LANE_FN void sym_take(const struct sym_state *b, struct sym_state *best) {
    if (b->err < best->err) *best = *b;
}

LANE_FN void sym_rounds(const struct sym_job *j, const struct sym_effort *f, struct sym_state b,
                        struct sym_state *best) {
    for (int r = 0; r < f->rounds; r++) {
        if (!sym_refit(j, &b)) break;
        sym_integers(j, &b, false, f->step);
        sym_take(&b, best);
    }
}

LANE_FN void sym_search(struct sym_job *j, const struct sym_effort *f, struct sym_state *best) {
    float top = 0;
    for (int k = 0; k < j->tiles; k++) {
        struct vfit a = sym_fit_reach(&j->s->lv, &j->t[k], j->n, &f->reach, true);
        struct vfit b = sym_fit_reach(&j->s->lv, &j->t[k], j->n, &f->reach, false);
        j->neg[k] = a.d;
        j->pos[k] = b.d;
        top = lane_absmax(top, pick(b.merit > a.merit, b.d, a.d));
    }
    for (int e = 0; e < f->ends; e++)
        for (int t = 0; t < f->n_d; t++) {
            float end = (float)(e ? j->s->sc_hi : j->s->sc_lo);
            struct sym_state b = sym_start(enc_f16_scale(top / end * sym_factor[t]));
            if (b.d == 0) continue;
            sym_integers(j, &b, true, f->near);
            sym_take(&b, best);
            sym_rounds(j, f, b, best);
        }
}

LANE_FN void sym_write(const struct sym_job *j, const struct sym_state *b, struct enc_raw *o) {
    o->d = b->d;
    for (int k = 0; k < j->tiles; k++) {
        store_ints(o->sc + LANES * k, b->sc[k]);
        codes_at(&j->s->lv, &j->t[k], j->n, splat(b->d) * b->sc[k], splat(0), o->l + QK / 2 * k,
                 j->n, LANES);
    }
}

/* Quantizes the 16 scales of Q3_K like a separate block; lanes run the 19 trials. */
LANE_FN float sym_of_scales(const struct sym_job *j, const vf *scale) {
    const struct levels lv = {j->s->sc_lo, j->s->sc_hi, NULL};
    LOCAL_TILE(t);
    float top = 0, best = 0, d = 0, start[24];
    for (int k = 0; k < 2; k++) {
        vf sw = splat(0);
        for (int m = 0; m < j->n; m++) sw += j->t[k].w[m];
        for (int i = 0; i < LANES; i++) {
            t.x[LANES * k + i] = splat(lane_get(scale[k], i));
            t.w[LANES * k + i] = splat(lane_get(sw, i));
        }
        top = lane_absmax(top, scale[k]);
    }
    if (fabsf(top) < 0x1p-40f) return 0;
    int n = 0;
    start[n++] = (float)lv.lo / top;
    for (int k = -9; k <= 9; k++)
        if (k) start[n++] = ((float)lv.lo - 0.1f * (float)k) / top;
    for (; n < 24; n++) start[n] = start[n - 1];
    for (int k = 0; k < 24; k += LANES) {
        struct vfit f = {splat(0), splat(0)};
        vf s = loadv(start + k);
        sym_fit(&lv, &t, 16, &s, 1, 1, &f);
        for (int i = 0; i < LANES; i++) {
            const float merit = lane_get(f.merit, i), by = lane_get(f.d, i);
            if (merit <= best) continue;
            best = merit;
            d = by;
        }
    }
    return d;
}

LANE_FN void sym_conventional(struct sym_job *j, struct sym_state *b) {
    vf scale[2] = {splat(0), splat(0)};
    float top = 0;
    for (int k = 0; k < j->tiles; k++) {
        scale[k] = sym_fit_conventional(&j->s->lv, &j->t[k], j->n);
        top = lane_absmax(top, scale[k]);
    }
    b->d = enc_f16(j->s->type == QT_Q3_K ? sym_of_scales(j, scale) : top / (float)j->s->sc_lo);
    for (int k = 0; k < j->tiles; k++) b->sc[k] = sym_clamp(j->s, ratio(scale[k], splat(b->d)));
}

/* Row 0: integer levels. Row 1: tables, for which the conventional search is many times slower. */
LANE_TABLE(struct sym_effort, sym_fast, [2]) = {{{0.9f, 1.2f, 6, 1, 2}, 1, 1, 0, 1, 1},
                                                {{0.88f, 1.25f, 10, 1, 4}, 2, 2, 1, 2, 1}};
LANE_TABLE(struct sym_effort, sym_best, [2]) = {{{0.8f, 1.35f, 12, 2, 4}, 2, 2, 1, 2, 1},
                                                {{0.8f, 1.35f, 20, 3, 4}, 2, 4, 1, 3, 1}};

/* Loads the block's weights into the job. Returns false if they are practically zero, after
 * writing a zero block. */
LANE_FN bool sym_begin(struct sym_job *j, const struct enc_how *h, const struct lanes_mem *mem,
                       const float *x, struct enc_raw *o) {
    const struct enc_spec *s = h->s;
    j->s = s;
    j->tiles = QK / s->sub / LANES;
    j->n = s->sub;
    j->x = mem->x;
    j->w = mem->w;
    open_zero(s, o);
    if (!load(j->x, x, QK, enc_spec_limit(s), s->sub)) {
        memset(o->l, code_of_zero(&s->lv), QK);
        return false;
    }
    for (int k = 0; k < j->tiles; k++) tile_x(&j->t[k], j->x + at(QK / 2 * k, j->n), j->n);
    return true;
}

LANE_FN void sym_weights(struct sym_job *j, const float *imp, const struct wrule *rule) {
    block_weights(j->w, j->x, imp, QK, rule, 0, j->n);
    for (int k = 0; k < j->tiles; k++) tile_w(&j->t[k], j->w + at(QK / 2 * k, j->n), j->n);
}

LANE_FN void sym_block(const struct enc_how *h, const struct lanes_mem *mem, const float *x,
                       const float *imp, struct enc_raw *o) {
    const struct sym_effort *f =
        (h->search == SEARCH_FAST ? sym_fast : sym_best) + (h->s->lv.tab != NULL);
    struct sym_job j; /* filled on demand: zeroing its kilobytes costs as much as the trials */
    struct sym_state b = sym_start(0);
    if (!sym_begin(&j, h, mem, x, o)) return;
    if (h->search != SEARCH_FAST) {
        sym_weights(&j, imp, &h->conv);
        sym_conventional(&j, &b);
        sym_write(&j, &b, o);
    }
    if (h->search == SEARCH_CONVENTIONAL) return;
    sym_weights(&j, imp, &h->rule);
    sym_search(&j, f, &b);
    if (h->search == SEARCH_FAST) {
        sym_write(&j, &b, o);
        return;
    }
    if (o->d != 0) { /* start from the conventional integers */
        struct sym_state c = sym_start(o->d);
        for (int k = 0; k < j.tiles; k++) c.sc[k] = load_ints(o->sc + LANES * k);
        sym_integers(&j, &c, false, 1);
        sym_take(&c, &b);
        sym_rounds(&j, f, c, &b);
    }
    copy_open(mem->mine, o);
    sym_write(&j, &b, mem->mine);
    if (open_error(mem->mine, j.x, j.w) < open_error(o, j.x, j.w)) copy_open(o, mem->mine);
}

#endif
