// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_aff.h - search for affine runs, x ~ d*l + m, and for super-blocks of them, x ~
 * d*sc*q - dmin*mn (Q2_K, Q4_K, Q5_K). Included by lanes.c.
 *
 * Conventional: a grid of scales with least squares per sub-block; scales and minima are then
 * quantized independently, and codes are rounded once. Fast and best: the fits may let the minimum
 * clip the lowest weights. For a few starts of (d, dmin), each sub-block takes the integer pair
 * with the least true error near its fit, with codes rounded again; then (d, dmin) are solved
 * jointly by least squares over 256 weights and rounded to f16. Best also searches the mirrored
 * block (d < 0: minima at the upper end) and keeps the conventional result unless the decoded error
 * falls. Blocks below f16's range become zeros; weights are clamped to what d = 65504 can hold. */
#ifndef HONE_QUANTIZE_ENC_LANES_AFF_H
#define HONE_QUANTIZE_ENC_LANES_AFF_H

#include "quantize/enc/lanes_block.h"
#include "quantize/enc/pos.h"

struct afit {
    vf d, m, err;
};

/* ---- trials of one tile ---------------------------------------------------------------------- */

struct aff_sums { /* sums over the run, the same for every trial */
    vf w, wx, wxx;
};
LANE_FN struct aff_sums aff_sums_of(const struct tile *t, int n) {
    struct aff_sums s = {splat(0), splat(0), splat(0)};
    for (int i = 0; i < n; i++) {
        vf wx = t->w[i] * t->x[i];
        s.w += t->w[i];
        s.wx += wx;
        s.wxx += wx * t->x[i];
    }
    return s;
}

INLINE void aff_code_sums(const struct tile *t, int n, vf top, vf iscale, vf lo, vf *sl, vf *sll,
                          vf *sxl) {
    vf a = splat(0), b = splat(0), c = splat(0);
    for (int i = 0; i < n; i++) {
        vf l = rintv(clampv((t->x[i] - lo) * iscale, splat(0), top)), wl = t->w[i] * l;
        a += wl;
        b += wl * l;
        c += wl * t->x[i];
    }
    *sl = a;
    *sll = b;
    *sxl = c;
}

/* Solves for (d, m) by least squares from sums over codes, and computes the error. */
INLINE struct afit aff_solve(const struct aff_sums *s, vf sl, vf sll, vf sxl, bool free_min) {
    const vf zero = splat(0);
    vf det = s->w * sll - sl * sl;
    /* If all codes are equal there is no slope: d is 0 and m the mean. */
    vi flat = det <= splat(1e-6f) * s->w * sll;
    vf inv = splat(1) / pick(flat, splat(1), det);
    vf d = (s->w * sxl - s->wx * sl) * inv, m = (sll * s->wx - sl * sxl) * inv;
    d = pick(flat, zero, d);
    m = pick(flat, s->wx / s->w, m);
    if (!free_min) {
        vi pos = m > zero;
        d = pick(pos, ratio(sxl, sll), d);
        m = pick(pos, zero, m);
    }
    const struct afit f = {d, m, s->wxx - d * sxl - m * s->wx};
    return f;
}

LANE_FN vf aff_abs_error(const struct tile *t, int n, vf top, vf iscale, vf lo, vf d, vf m) {
    vf e = splat(0);
    for (int i = 0; i < n; i++) {
        vf l = rintv(clampv((t->x[i] - lo) * iscale, splat(0), top));
        e += t->w[i] * absv(d * l + m - t->x[i]);
    }
    return e;
}

INLINE void aff_keep(struct afit *best, struct afit f) {
    vi better = f.err < best->err;
    best->err = pick(better, f.err, best->err);
    best->d = pick(better, f.d, best->d);
    best->m = pick(better, f.m, best->m);
}

struct aff_starts {
    struct aff_grid grid;
    int n_lo;   /* minima tried: the smallest weight, then steps of 6 % of the range */
    bool heavy; /* also try, as minimum, the weight with the largest w x^2: it then gets an exact
                   level */
    int iters;  /* rounds of choosing codes and least squares, per start */
    bool abs_err, free_min;
};
/* Tries two starts at once: chooses codes, fits by least squares, and chooses codes again. */
INLINE void aff_try(const struct tile *t, int n, vf top, const struct aff_sums *s,
                    const struct aff_starts *st, vf from, vf s0, vf s1, struct afit *best) {
    vf m0 = from, m1 = from;
    for (int it = 0; it < st->iters; it++) {
        vf a0, b0, c0, a1, b1, c1;
        aff_code_sums(t, n, top, s0, m0, &a0, &b0, &c0);
        aff_code_sums(t, n, top, s1, m1, &a1, &b1, &c1);
        struct afit f0 = aff_solve(s, a0, b0, c0, st->free_min);
        struct afit f1 = aff_solve(s, a1, b1, c1, st->free_min);
        if (st->abs_err) {
            f0.err = aff_abs_error(t, n, top, s0, m0, f0.d, f0.m);
            f1.err = aff_abs_error(t, n, top, s1, m1, f1.d, f1.m);
        }
        aff_keep(best, f0);
        aff_keep(best, f1);
        s0 = ratio(splat(1), f0.d);
        s1 = ratio(splat(1), f1.d);
        m0 = f0.m;
        m1 = f1.m;
    }
}

/* Returns the best of all starts; m <= 0 unless free_min. */
LANE_FN struct afit aff_fit(const struct tile *t, int n, int qmax, const struct aff_starts *st) {
    const struct aff_sums s = aff_sums_of(t, n);
    const vf top = splat((float)qmax), tiny = splat(0x1p-40f), zero = splat(0);
    const struct aff_grid *g = &st->grid;
    vf lo = t->x[0], hi = t->x[0];
    for (int i = 1; i < n; i++) {
        lo = minv(t->x[i], lo);
        hi = maxv(t->x[i], hi);
    }
    if (!st->free_min) lo = minv(lo, zero);
    struct afit best = {zero, zero, splat(INFINITY)};
    for (int j = 0; j < st->n_lo; j++) {
        vf from = lo + (hi - lo) * splat(0.06f * (float)j);
        if (!st->free_min) from = minv(from, zero);
        vf range = pick(hi - from < tiny, splat(1), hi - from);
        for (int k = 0; k <= g->nstep; k += 2) {
            float k0 = (float)k, k1 = (float)(k < g->nstep ? k + 1 : k);
            aff_try(t, n, top, &s, st, from, splat(g->rmin + g->rdelta * k0 + (float)qmax) / range,
                    splat(g->rmin + g->rdelta * k1 + (float)qmax) / range, &best);
        }
    }
    if (st->heavy) {
        vf from = heaviest(t, n), range = pick(hi - from < tiny, splat(1), hi - from);
        aff_try(t, n, top, &s, st, from, top / range, top / (range * splat(0.5f)), &best);
    }
    vi flat = hi - lo < tiny;
    best.d = pick(flat, zero, best.d);
    best.m = pick(flat, lo, best.m);
    return best;
}

/* Returns the error of the nearest codes for x ~ d*l + m. */
INLINE vf aff_error(const struct tile *t, int n, vf top, vf d, vf m) {
    vf inv = ratio(splat(1), d), e = splat(0);
    for (int i = 0; i < n; i++) {
        vf y = t->x[i] - m, diff = y - d * rintv(clampv(y * inv, splat(0), top));
        e += t->w[i] * diff * diff;
    }
    return e;
}

/* ---- super-blocks ---------------------------------------------------------------------------- */

struct aff_job { /* search state of one super-block */
    const struct enc_spec *s;
    int tiles, n;
    float *x, *w; /* weights and search weights in natural order */
    struct tile t[2];
    vf scale[2], min[2]; /* real-valued fits per sub-block; x ~ scale*q - min */
};
struct aff_state {
    float d, dmin, err;
    vf sc[2], mn[2];
};
struct aff_effort {
    struct aff_starts starts;
    int n_d,
        n_m; /* starts: numbers of factors tried for d and dmin; n_m 0: both use the same factor */
    int near, keep;  /* integers tried around each; number of starts refined */
    int far, rounds; /* integers tried after each refit; number of refits */
    bool mirror;
};
LANE_TABLE(float, aff_factor, [5]) = {1.0f, 1.06f, 1.15f, 0.97f, 1.2f};
LANE_FN void aff_fit_subs(struct aff_job *j, const struct aff_starts *st) {
    for (int k = 0; k < j->tiles; k++) {
        struct afit f = aff_fit(&j->t[k], j->n, j->s->lv.hi, st);
        j->scale[k] = maxv(f.d, splat(0));
        j->min[k] = maxv(-f.m, splat(0));
    }
}

LANE_FN struct aff_state aff_start(float d, float dmin) {
    struct aff_state b;
    b.d = d;
    b.dmin = dmin;
    b.err = INFINITY;
    b.sc[0] = b.sc[1] = b.mn[0] = b.mn[1] = splat(0);
    return b;
}

/* Finds the best integer pair for each sub-block, with sc within `reach` of the current one. If the
 * codes have mean l, the best minimum for a scale that is larger by one is larger by d*l/dmin, so
 * the two integers around that are tried (at the current scale: the current minimum and its
 * neighbors). */
LANE_FN void aff_integers(const struct aff_job *j, struct aff_state *b, int reach) {
    const vf top = splat((float)j->s->lv.hi), zero = splat(0), smax = splat((float)j->s->sc_hi);
    vf err[2];
    for (int k = 0; k < j->tiles; k++) {
        const vf sc = b->sc[k], mn = b->mn[k], d = splat(b->d), m = splat(-b->dmin);
        vf slope = zero;
        err[k] = aff_error(&j->t[k], j->n, top, d * sc, m * mn);
        if (reach > 0) {
            vf sl, sll, sxl;
            aff_code_sums(&j->t[k], j->n, top, ratio(splat(1), d * sc), m * mn, &sl, &sll, &sxl);
            slope = ratio(d * sl, splat(b->dmin) * aff_sums_of(&j->t[k], j->n).w);
        }
        for (int t = -reach; reach > 0 && t <= reach; t++) {
            vf a = clampv(sc + splat((float)t), zero, smax);
            vf c = clampv(mn + slope * splat((float)t), splat(-2), splat(66));
            c = rintv(c - splat(0.5f));
            if (t == 0) c = mn - splat(1);
            for (int h = 0; h < 2; h++) {
                vf u = clampv(c + splat((float)(t == 0 ? 2 * h : h)), zero, smax);
                vf e = aff_error(&j->t[k], j->n, top, d * a, m * u);
                vi better = e < err[k];
                err[k] = pick(better, e, err[k]);
                b->sc[k] = pick(better, a, b->sc[k]);
                b->mn[k] = pick(better, u, b->mn[k]);
            }
        }
    }
    b->err = lane_sum(err, j->tiles);
}

/* Fits (d, dmin) jointly to the current codes and integers, by least squares. Returns false if
 * nothing changes. */
LANE_FN bool aff_refit(const struct aff_job *j, struct aff_state *b) {
    double a11 = 0, a12 = 0, a22 = 0, b1 = 0, b2 = 0;
    for (int k = 0; k < j->tiles; k++) {
        const vf sc = b->sc[k], mn = b->mn[k];
        const struct aff_sums s = aff_sums_of(&j->t[k], j->n);
        vf sl, sll, sxl;
        aff_code_sums(&j->t[k], j->n, splat((float)j->s->lv.hi), ratio(splat(1), splat(b->d) * sc),
                      splat(-b->dmin) * mn, &sl, &sll, &sxl);
        a11 = lane_add(a11, sc * sc * sll);
        a12 = lane_add(a12, -(sc * mn * sl));
        a22 = lane_add(a22, mn * mn * s.w);
        b1 = lane_add(b1, sc * sxl);
        b2 = lane_add(b2, -(mn * s.wx));
    }
    double det = a11 * a22 - a12 * a12, d = (double)b->d, m = (double)b->dmin;
    if (a22 > 0 && a11 > 0 && det > 1e-6 * a11 * a22) {
        d = (a22 * b1 - a12 * b2) / det;
        m = (a11 * b2 - a12 * b1) / det;
    } else if (a11 > 0) {
        d = (b1 - a12 * m) / a11;
    } else if (a22 > 0) {
        m = b2 / a22;
    }
    float fd = enc_f16((float)d), fm = enc_f16((float)m);
    if (fd == b->d && fm == b->dmin) return false;
    b->d = fd;
    b->dmin = fm;
    return true;
}

LANE_FN void aff_take(const struct aff_state *b, struct aff_state *best) {
    if (b->err < best->err) *best = *b;
}

/* Alternates between refits and searches around the current integers. */
LANE_FN void aff_rounds(const struct aff_job *j, const struct aff_effort *f, struct aff_state b,
                        struct aff_state *best) {
    aff_take(&b, best);
    for (int r = 0; r < f->rounds; r++) {
        if (!aff_refit(j, &b)) return;
        aff_integers(j, &b, f->far);
        aff_take(&b, best);
    }
}

enum { AFF_KEEP = 3 };
LANE_FN void aff_search(struct aff_job *j, const struct aff_effort *f, struct aff_state *best) {
    struct aff_state top[AFF_KEEP];
    const vf smax = splat((float)j->s->sc_hi);
    float d0 = 0, m0 = 0;
    for (int k = 0; k < AFF_KEEP; k++) top[k] = aff_start(0, 0);
    aff_fit_subs(j, &f->starts);
    for (int k = 0; k < j->tiles; k++) {
        d0 = lane_max(d0, j->scale[k]);
        m0 = lane_max(m0, j->min[k]);
    }
    d0 /= (float)j->s->sc_hi;
    m0 /= (float)j->s->sc_hi;
    for (int t = 0; t < f->n_d * (f->n_m ? f->n_m : 1); t++) {
        int td = f->n_m ? t / f->n_m : t, tm = f->n_m ? t % f->n_m : t;
        const float d = d0 * aff_factor[td], m = m0 * aff_factor[tm];
        /* Next to a larger d, minima that round to zero are noise. */
        const bool small = enc_f16(d) == 0;
        struct aff_state b = aff_start(enc_f16_scale(d), small ? enc_f16_scale(m) : enc_f16(m));
        if (f->n_m && m0 <= 0 && tm) continue;
        for (int k = 0; k < j->tiles; k++) {
            b.sc[k] = rintv(clampv(ratio(j->scale[k], splat(b.d)), splat(0), smax));
            b.mn[k] = rintv(clampv(ratio(j->min[k], splat(b.dmin)), splat(0), smax));
        }
        aff_integers(j, &b, f->near);
        int at = f->keep;
        while (at > 0 && b.err < top[at - 1].err) at--;
        if (at == f->keep) continue;
        for (int u = f->keep - 1; u > at; u--) top[u] = top[u - 1];
        top[at] = b;
    }
    for (int t = 0; t < f->keep; t++)
        if (top[t].err < INFINITY) aff_rounds(j, f, top[t], best);
}

LANE_FN void aff_write(const struct aff_job *j, const struct aff_state *b, struct enc_raw *o) {
    o->d = b->d;
    o->m = b->dmin;
    for (int k = 0; k < j->tiles; k++) {
        store_ints(o->sc + LANES * k, b->sc[k]);
        store_ints(o->mn + LANES * k, b->mn[k]);
        codes_at(&j->s->lv, &j->t[k], j->n, splat(b->d) * b->sc[k], splat(-b->dmin) * b->mn[k],
                 o->l + QK / 2 * k, j->n, LANES);
    }
}

/* Quantizes 8 or 16 positive values with weights; returns the least-squares scale. */
LANE_FN float aff_positive(const struct aff_job *j, const vf *value, vf *out) {
    float x[ENC_NSUB], w[ENC_NSUB];
    uint8_t l[ENC_NSUB];
    for (int k = 0; k < j->tiles; k++) {
        const vf sum = aff_sums_of(&j->t[k], j->n).w;
        for (int i = 0; i < LANES; i++) {
            x[LANES * k + i] = lane_get(value[k], i);
            w[LANES * k + i] = lane_get(sum, i);
        }
    }
    float d = enc_f16(pos_fit(LANES * j->tiles, j->s->sc_hi, x, w, l));
    for (int k = 0; k < j->tiles; k++) out[k] = load_codes(l + LANES * k);
    return d;
}

LANE_FN void aff_conventional(struct aff_job *j, bool have_imp, struct aff_state *b) {
    const struct aff_starts st = {have_imp ? j->s->imp : j->s->plain, 1,    false, 1,
                                  !have_imp && j->s->plain_abs,       false};
    aff_fit_subs(j, &st);
    b->d = aff_positive(j, j->scale, b->sc);
    b->dmin = aff_positive(j, j->min, b->mn);
}

/* Turns the block of -x into one of x by negating both factors. */
LANE_FN void aff_mirror(struct aff_job *j) {
    for (int k = 0; k < j->tiles; k++)
        for (int i = 0; i < j->n; i++) j->t[k].x[i] = -j->t[k].x[i];
}

LANE_FN void aff_weights(struct aff_job *j, const float *imp, const struct wrule *rule) {
    block_weights(j->w, j->x, imp, QK, rule, 0, j->n);
    for (int k = 0; k < j->tiles; k++) tile_w(&j->t[k], j->w + at(QK / 2 * k, j->n), j->n);
}

LANE_TABLE(struct aff_effort, aff_fast, [1]) = {
    {{{-1.0f, 0.5f, 5}, 2, false, 2, false, false}, 2, 0, 1, 1, 2, 1, false}};
LANE_TABLE(struct aff_effort, aff_best, [1]) = {
    {{{-1.2f, 0.5f, 7}, 4, false, 2, false, false}, 3, 3, 1, 2, 5, 4, true}};

/* Loads the block's weights into the job. Returns false if they are practically zero, after
 * writing a zero block. */
LANE_FN bool aff_begin(struct aff_job *j, const struct enc_how *h, const struct lanes_mem *mem,
                       const float *x, struct enc_raw *o) {
    const struct enc_spec *s = h->s;
    j->s = s;
    j->tiles = QK / s->sub / LANES;
    j->n = s->sub;
    j->x = mem->x;
    j->w = mem->w;
    j->scale[0] = j->scale[1] = j->min[0] = j->min[1] = splat(0);
    open_zero(s, o);
    o->m_sign = -1;
    o->mn_hi = s->sc_hi;
    if (!load(j->x, x, QK, enc_spec_limit(s), s->sub)) {
        memset(o->l, 0, QK);
        return false;
    }
    for (int k = 0; k < j->tiles; k++) tile_x(&j->t[k], j->x + at(QK / 2 * k, j->n), j->n);
    return true;
}

/* Searches in both orientations, from the conventional state and from fits. */
LANE_FN void aff_search_best(struct aff_job *j, struct aff_state *conv, struct aff_state *b) {
    aff_integers(j, conv, aff_best->near);
    aff_rounds(j, aff_best, *conv, b);
    aff_search(j, aff_best, b);
    if (!aff_best->mirror) return;
    struct aff_state m = aff_start(0, 0);
    m.err = b->err;
    aff_mirror(j);
    aff_search(j, aff_best, &m);
    aff_mirror(j);
    if (!(m.err < b->err)) return;
    *b = m;
    b->d = -b->d;
    b->dmin = -b->dmin;
}

LANE_FN void aff_block(const struct enc_how *h, const struct lanes_mem *mem, const float *x,
                       const float *imp, struct enc_raw *o) {
    struct aff_job j; /* filled on demand: zeroing its kilobytes costs as much as the trials */
    struct aff_state b = aff_start(0, 0), conv = aff_start(0, 0);
    if (!aff_begin(&j, h, mem, x, o)) return;
    if (h->search != SEARCH_FAST) {
        aff_weights(&j, imp, &h->conv);
        aff_conventional(&j, imp != NULL, &conv);
        aff_write(&j, &conv, o);
    }
    if (h->search == SEARCH_CONVENTIONAL) return;
    aff_weights(&j, imp, &h->rule);
    if (h->search == SEARCH_FAST) {
        aff_search(&j, aff_fast, &b);
        aff_write(&j, &b, o);
        return;
    }
    aff_search_best(&j, &conv, &b);
    copy_open(mem->mine, o);
    aff_write(&j, &b, mem->mine);
    if (open_error(mem->mine, j.x, j.w) < open_error(o, j.x, j.w)) copy_open(o, mem->mine);
}

#endif
