// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_aff.h - runs x ~ d*l + m, and super-blocks of them: x ~ d*sc*q - dmin*mn
 * (Q2_K, Q4_K, Q5_K). Included by lanes.c.
 *
 * Conventional: per sub-block a grid of scales with least squares, then the scales and the minima
 * are quantized each for itself, then codes are rounded once. Fast and best: fits whose minimum may
 * leave the lowest weights out; for a few starts of (d, dmin), each sub-block takes the integer
 * pair of least true error near its fit, with codes rounded anew; then the joint least squares of
 * (d, dmin) over 256 weights, rounded to f16. Best also searches the mirrored block (d < 0: minima
 * at the upper end) and keeps the conventional result unless the decoded error falls. Blocks below
 * f16's reach become zeros; weights are clamped to what d = 65504 can hold. */
#ifndef HONE_QUANTIZE_ENC_LANES_AFF_H
#define HONE_QUANTIZE_ENC_LANES_AFF_H

#include "quantize/enc/lanes_block.h"

struct afit {
    vf d, m, err;
};

/* ---- trials of one tile -------------------------------------------------------------------------
 */

struct aff_sums { /* of the run, the same for every trial */
    vf w, wx, wxx;
};
static struct aff_sums aff_sums_of(const struct tile *t, int n) {
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

/* Least squares (d, m) for code sums, and its error. */
INLINE struct afit aff_solve(const struct aff_sums *s, vf sl, vf sll, vf sxl, bool free_min) {
    const vf zero = splat(0);
    vf det = s->w * sll - sl * sl;
    /* all codes equal: no slope to solve for; d 0 and the mean */
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
    return (struct afit){d, m, s->wxx - d * sxl - m * s->wx};
}

static vf aff_abs_error(const struct tile *t, int n, vf top, vf iscale, vf lo, vf d, vf m) {
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
    int n_lo;   /* starts of the minimum: the least weight, then 6 % of the range higher each */
    bool heavy; /* and the weight that matters most (w x^2), which so gets a level of its own */
    int iters;  /* roundings and least squares per start */
    bool abs_err, free_min;
};
/* Two starts at once: codes, least squares, codes again. */
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

/* Best of all starts; m <= 0 unless free_min. */
static struct afit aff_fit(const struct tile *t, int n, int qmax, const struct aff_starts *st) {
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

/* Error of the codes nearest for x ~ d*l + m. */
INLINE vf aff_error(const struct tile *t, int n, vf top, vf d, vf m) {
    vf inv = ratio(splat(1), d), e = splat(0);
    for (int i = 0; i < n; i++) {
        vf y = t->x[i] - m, diff = y - d * rintv(clampv(y * inv, splat(0), top));
        e += t->w[i] * diff * diff;
    }
    return e;
}

/* ---- super-blocks -------------------------------------------------------------------------------
 */

struct aff_job { /* one super-block being searched */
    const struct enc_spec *s;
    int tiles, n;
    float x[QK], w[QK];
    struct tile t[2];
    vf scale[2], min[2]; /* real-valued fits per sub-block; x ~ scale*q - min */
};
struct aff_state {
    float d, dmin, err;
    vf sc[2], mn[2];
};
struct aff_effort {
    struct aff_starts starts;
    int n_d, n_m;    /* starts of d and dmin: the first factors; n_m 0: the same for both */
    int near, keep;  /* reach of integers at each; how many are refined */
    int far, rounds; /* reach after each refit */
    bool mirror;
};
static const float aff_factor[5] = {1.0f, 1.06f, 1.15f, 0.97f, 1.2f};
static void aff_fit_subs(struct aff_job *j, const struct aff_starts *st) {
    for (int k = 0; k < j->tiles; k++) {
        struct afit f = aff_fit(&j->t[k], j->n, j->s->lv.hi, st);
        j->scale[k] = maxv(f.d, splat(0));
        j->min[k] = maxv(-f.m, splat(0));
    }
}

static float lane_max(const vf *v, int n) {
    float m = 0;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < LANES; i++)
            if (v[k][i] > m) m = v[k][i];
    return m;
}

/* For each sub-block the best pair of integers with sc within `reach` of the present one. With
 * codes of mean l, a scale that is larger by one wants a minimum that is larger by d*l/dmin: the
 * two integers around that are tried (for the present scale: the present minimum and its
 * neighbours). */
static void aff_integers(const struct aff_job *j, struct aff_state *b, int reach) {
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

/* Joint least squares of (d, dmin) for the present codes and integers; false when nothing moves. */
static bool aff_refit(const struct aff_job *j, struct aff_state *b) {
    double a11 = 0, a12 = 0, a22 = 0, b1 = 0, b2 = 0;
    for (int k = 0; k < j->tiles; k++) {
        const vf sc = b->sc[k], mn = b->mn[k];
        const struct aff_sums s = aff_sums_of(&j->t[k], j->n);
        vf sl, sll, sxl;
        aff_code_sums(&j->t[k], j->n, splat((float)j->s->lv.hi), ratio(splat(1), splat(b->d) * sc),
                      splat(-b->dmin) * mn, &sl, &sll, &sxl);
        vf p11 = sc * sc * sll, p12 = sc * mn * sl, p22 = mn * mn * s.w, p1 = sc * sxl,
           p2 = mn * s.wx;
        for (int i = 0; i < LANES; i++) {
            a11 += (double)p11[i];
            a12 -= (double)p12[i];
            a22 += (double)p22[i];
            b1 += (double)p1[i];
            b2 -= (double)p2[i];
        }
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

static void aff_take(const struct aff_state *b, struct aff_state *best) {
    if (b->err < best->err) *best = *b;
}

/* Refits, each followed by integers around the present ones. */
static void aff_rounds(const struct aff_job *j, const struct aff_effort *f, struct aff_state b,
                       struct aff_state *best) {
    aff_take(&b, best);
    for (int r = 0; r < f->rounds; r++) {
        if (!aff_refit(j, &b)) return;
        aff_integers(j, &b, f->far);
        aff_take(&b, best);
    }
}

enum { AFF_KEEP = 3 };
static void aff_search(struct aff_job *j, const struct aff_effort *f, struct aff_state *best) {
    struct aff_state top[AFF_KEEP] = {{.err = INFINITY}, {.err = INFINITY}, {.err = INFINITY}};
    const vf smax = splat((float)j->s->sc_hi);
    aff_fit_subs(j, &f->starts);
    float d0 = lane_max(j->scale, j->tiles) / (float)j->s->sc_hi;
    float m0 = lane_max(j->min, j->tiles) / (float)j->s->sc_hi;
    for (int t = 0; t < f->n_d * (f->n_m ? f->n_m : 1); t++) {
        int td = f->n_m ? t / f->n_m : t, tm = f->n_m ? t % f->n_m : t;
        struct aff_state b = {.d = enc_f16(d0 * aff_factor[td]),
                              .dmin = enc_f16(m0 * aff_factor[tm])};
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

static void aff_write(const struct aff_job *j, const struct aff_state *b, struct enc_open *o) {
    o->d = b->d;
    o->m = b->dmin;
    for (int k = 0; k < j->tiles; k++) {
        for (int i = 0; i < LANES; i++) {
            o->sc[LANES * k + i] = (int16_t)b->sc[k][i];
            o->mn[LANES * k + i] = (int16_t)b->mn[k][i];
        }
        codes_at(&j->s->lv, &j->t[k], j->n, splat(b->d) * b->sc[k], splat(-b->dmin) * b->mn[k],
                 o->l + QK / 2 * k);
    }
}

/* Quantizes 8 or 16 positive values with weights; least-squares scale returned. */
static float aff_positive(const struct aff_job *j, const vf *value, vf *out) {
    float x[ENC_NSUB], w[ENC_NSUB];
    uint8_t l[ENC_NSUB];
    for (int k = 0; k < j->tiles; k++) {
        storev(x + LANES * k, value[k]);
        storev(w + LANES * k, aff_sums_of(&j->t[k], j->n).w);
    }
    float d = enc_f16(enc_pos(LANES * j->tiles, j->s->sc_hi, x, w, l));
    for (int k = 0; k < j->tiles; k++)
        for (int i = 0; i < LANES; i++) out[k][i] = (float)l[LANES * k + i];
    return d;
}

static void aff_conventional(struct aff_job *j, bool have_imp, struct aff_state *b) {
    const struct aff_starts st = {.grid = have_imp ? j->s->imp : j->s->plain,
                                  .n_lo = 1,
                                  .iters = 1,
                                  .abs_err = !have_imp && j->s->plain_abs};
    aff_fit_subs(j, &st);
    b->d = aff_positive(j, j->scale, b->sc);
    b->dmin = aff_positive(j, j->min, b->mn);
}

/* The block of -x with both factors negated describes x. */
static void aff_mirror(struct aff_job *j) {
    for (int k = 0; k < j->tiles; k++)
        for (int i = 0; i < j->n; i++) j->t[k].x[i] = -j->t[k].x[i];
}

static void aff_weights(struct aff_job *j, const float *imp, enum search search) {
    const struct wrule rule = enc_wrule(j->s->type, search);
    weights(j->w, j->x, imp, QK, &rule, rule.sigma && imp ? enc_mean2(j->x, QK) : 0, j->s->sub);
    for (int k = 0; k < j->tiles; k++) load_tile(j->t[k].w, j->w + QK / 2 * k, j->n);
}

static void aff_block(const struct enc_spec *s, const float *x, const float *imp,
                      enum search search, struct enc_open *o) {
    static const struct aff_effort fast = {
        {{-1.0f, 0.5f, 5}, 2, false, 2, false, false}, 2, 0, 1, 1, 2, 1, false};
    static const struct aff_effort best = {
        {{-1.2f, 0.5f, 7}, 4, false, 2, false, false}, 3, 3, 1, 2, 5, 4, true};
    struct aff_job j; /* filled as needed: zeroing its kilobytes costs as much as trials */
    j.s = s;
    j.tiles = QK / s->sub / LANES;
    j.n = s->sub;
    o->n = QK;
    o->sub = s->sub;
    o->lv = s->lv;
    o->d = o->m = 0;
    o->m_sign = -1;
    o->sc_lo = 0;
    o->sc_hi = o->mn_hi = s->sc_hi;
    memset(o->sc, 0, sizeof o->sc);
    memset(o->mn, 0, sizeof o->mn);
    if (!load(j.x, x, QK, 65504.0f * (float)s->sc_hi)) {
        memset(o->l, 0, QK);
        return;
    }
    for (int k = 0; k < j.tiles; k++) load_tile(j.t[k].x, j.x + QK / 2 * k, j.n);
    struct aff_state b = {.err = INFINITY}, conv = {.err = INFINITY};
    if (search != SEARCH_FAST) {
        aff_weights(&j, imp, SEARCH_CONVENTIONAL);
        aff_conventional(&j, imp != NULL, &conv);
        aff_write(&j, &conv, o);
    }
    if (search == SEARCH_CONVENTIONAL) return;
    aff_weights(&j, imp, search);
    if (search == SEARCH_FAST) {
        aff_search(&j, &fast, &b);
        aff_write(&j, &b, o);
        return;
    }
    struct enc_open mine = *o;
    aff_integers(&j, &conv, best.near);
    aff_rounds(&j, &best, conv, &b);
    aff_search(&j, &best, &b);
    if (best.mirror) {
        aff_mirror(&j);
        struct aff_state m = {.err = b.err};
        aff_search(&j, &best, &m);
        aff_mirror(&j);
        if (m.err < b.err) {
            b = m;
            b.d = -b.d;
            b.dmin = -b.dmin;
        }
    }
    aff_write(&j, &b, &mine);
    if (open_error(&mine, j.x, j.w) < open_error(o, j.x, j.w)) *o = mine;
}

static void aff_open(const struct enc_spec *s, const float *x, const float *imp, int64_t n_blocks,
                     enum search search, float row_mean2, struct enc_open *o) {
    (void)row_mean2;
    for (int64_t b = 0; b < n_blocks; b++)
        aff_block(s, x + b * QK, imp ? imp + b * QK : NULL, search, o + b);
}

#endif
