// SPDX-License-Identifier: MIT
/* quantize/enc/trials_tmpl.h - trials in VL lanes, included with VL, TRIALS (the table's name) and,
 * where there are such instructions, VMAX, VMIN, LOOKUP defined.
 *
 * A trial is a start: round the codes with it, solve the weighted least squares for the codes, and,
 * when iterating, round again. VL trials share the loads of x and w, one per vector lane; no lane
 * ever looks at another. Rounding is to nearest even by adding 1.5*2^23, after clamping, which
 * keeps every operand far below 2^22. The last vector is filled up with copies of the last trial.
 */
#include <math.h>
#include <string.h>

#include "quantize/enc/trials.h"

#ifndef VL /* four lanes: every processor has them */
#define VL 4
#define TRIALS enc_trials_base
#endif
typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));

static inline vf splat(float a) {
    vf zero = {0};
    return zero + a;
}
static inline vf loadv(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void storev(float *p, vf v) {
    memcpy(p, &v, sizeof v);
}
/* mask ? a : b */
static inline vf pick(vi mask, vf a, vf b) {
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}
#ifndef VMAX
#define VMAX(v, lo) pick((v) > (lo), v, lo)
#define VMIN(v, hi) pick((v) < (hi), v, hi)
#endif
/* Into [lo, hi]; lo for a NaN. */
static inline vf clampv(vf v, vf lo, vf hi) {
    v = VMAX(v, lo);
    return VMIN(v, hi);
}
static inline vf rintv(vf v) {
    const vf magic = splat(12582912.0f);
    return (v + magic) - magic;
}
#ifndef LOOKUP
static inline vf lookup(const float *table, vi j) {
    vf v;
    for (int k = 0; k < VL; k++) v[k] = table[j[k]];
    return v;
}
#define LOOKUP(table, j) lookup(table, j)
#endif
/* The levels nearest to v. */
static inline vf nearest(bool table, vf v, vf lo, vf hi) {
    v = clampv(v, lo, hi);
    if (!table) return rintv(v);
    return LOOKUP(enc_iq4_level, __builtin_convertvector(splat(256) - splat(2) * v, vi));
}
/* a/b, 0 where b is 0 */
static inline vf ratio(vf a, vf b) {
    vi zero = b == splat(0);
    vf r = a / pick(zero, splat(1), b);
    return pick(zero, splat(0), r);
}
/* Values k .. k+VL-1 of n, the last one repeated. */
static inline vf load_trials(const float *v, int k, int n) {
    float t[VL];
    if (k + VL <= n) return loadv(v + k);
    for (int j = 0; j < VL; j++) t[j] = v[k + j < n ? k + j : n - 1];
    return loadv(t);
}

/* ---- x ~ d * l ----------------------------------------------------------------------------------
 */

/* One rounding and least squares of VL trials: sum w x l and sum w l^2. */
static inline void sym_sums(bool table, vf lo, vf hi, int n_x, const float *x, const float *w,
                            vf iscale, vf *sxl, vf *sll) {
    vf a = splat(0), b = splat(0);
    for (int i = 0; i < n_x; i++) {
        vf xi = splat(x[i]), l = nearest(table, iscale * xi, lo, hi), t = splat(w[i]) * l;
        a += t * xi;
        b += t * l;
    }
    *sxl = a;
    *sll = b;
}

static struct sym_fit sym(const struct levels *lv, int n_x, const float *x, const float *w,
                          const float *iscale, int n, int iters) {
    const vf lo = splat((float)lv->lo), hi = splat((float)lv->hi);
    struct sym_fit best = {0, 0};
    for (int k = 0; k < n; k += VL) {
        float d[VL], merit[VL];
        vf s = load_trials(iscale, k, n), bm = splat(0), bd = splat(0);
        for (int it = 0; it < iters; it++) {
            vf sxl, sll;
            if (lv->tab)
                sym_sums(true, lo, hi, n_x, x, w, s, &sxl, &sll);
            else
                sym_sums(false, lo, hi, n_x, x, w, s, &sxl, &sll);
            vf m = ratio(sxl * sxl, sll), dd = ratio(sxl, sll);
            vi better = m > bm;
            bm = pick(better, m, bm);
            bd = pick(better, dd, bd);
            s = ratio(splat(1), dd);
        }
        storev(d, bd);
        storev(merit, bm);
        for (int j = 0; j < VL; j++)
            if (merit[j] > best.merit) best = (struct sym_fit){d[j], merit[j]};
    }
    return best;
}

static inline vf sym_error(bool table, vf lo, vf hi, int n_x, const float *x, const float *w,
                           vf d) {
    vf inv = ratio(splat(1), d), e = splat(0);
    for (int i = 0; i < n_x; i++) {
        vf xi = splat(x[i]), diff = xi - d * nearest(table, inv * xi, lo, hi);
        e += splat(w[i]) * diff * diff;
    }
    return e;
}

static void sym_errors(const struct levels *lv, int n_x, const float *x, const float *w,
                       const float *d, int n, float *err) {
    const vf lo = splat((float)lv->lo), hi = splat((float)lv->hi);
    for (int k = 0; k < n; k += VL) {
        float e[VL];
        vf dv = load_trials(d, k, n);
        storev(e, lv->tab ? sym_error(true, lo, hi, n_x, x, w, dv)
                          : sym_error(false, lo, hi, n_x, x, w, dv));
        for (int j = 0; j < VL && k + j < n; j++) err[k + j] = e[j];
    }
}

/* ---- x ~ d * l + m ------------------------------------------------------------------------------
 */

struct aff_sums {
    float w, wx, wxx; /* of the block, the same for every trial */
};

/* VL trials once: codes from (iscale, lo), then the least squares (d, m) and its error. */
static inline void aff_solve(int n_x, const float *x, const float *w, float qmax,
                             const struct aff_sums *s, vf iscale, vf lo, bool free_min, vf *d,
                             vf *m, vf *err) {
    vf sl = splat(0), sll = splat(0), sxl = splat(0);
    const vf zero = splat(0), top = splat(qmax);
    for (int i = 0; i < n_x; i++) {
        vf l = rintv(clampv((splat(x[i]) - lo) * iscale, zero, top));
        vf t = splat(w[i]) * l;
        sl += t;
        sll += t * l;
        sxl += t * splat(x[i]);
    }
    vf det = splat(s->w) * sll - sl * sl;
    /* all codes equal: no slope to solve for; d 0 and the mean */
    vi flat = det <= splat(1e-6f) * splat(s->w) * sll;
    vf dd = ratio(splat(s->w) * sxl - splat(s->wx) * sl, det);
    vf mm = ratio(sll * splat(s->wx) - sl * sxl, det);
    dd = pick(flat, zero, dd);
    mm = pick(flat, splat(s->wx / s->w), mm);
    if (!free_min) {
        vi pos = mm > zero;
        dd = pick(pos, ratio(sxl, sll), dd);
        mm = pick(pos, zero, mm);
    }
    *d = dd;
    *m = mm;
    *err = splat(s->wxx) - dd * sxl - mm * splat(s->wx);
}

static vf aff_abs_error(int n_x, const float *x, const float *w, float qmax, vf iscale, vf lo, vf d,
                        vf m) {
    vf e = splat(0);
    const vf zero = splat(0), top = splat(qmax);
    for (int i = 0; i < n_x; i++) {
        vf xi = splat(x[i]);
        vf diff = d * rintv(clampv((xi - lo) * iscale, zero, top)) + m - xi;
        e += splat(w[i]) * pick(diff < zero, -diff, diff);
    }
    return e;
}

static struct aff_fit aff(int n_x, const float *x, const float *w, int qmax,
                          const struct aff_start *st) {
    struct aff_fit best = {0, 0, INFINITY};
    struct aff_sums s = {0, 0, 0};
    for (int i = 0; i < n_x; i++) {
        s.w += w[i];
        s.wx += w[i] * x[i];
        s.wxx += w[i] * x[i] * x[i];
    }
    for (int k = 0; k < st->n; k += VL) {
        float e[VL], dk[VL], mk[VL];
        vf sc = load_trials(st->iscale, k, st->n), base = load_trials(st->lo, k, st->n);
        vf be = splat(INFINITY), bd = splat(0), bm = splat(0);
        for (int it = 0; it < st->iters; it++) {
            vf d, m, err;
            aff_solve(n_x, x, w, (float)qmax, &s, sc, base, st->free_min, &d, &m, &err);
            if (st->abs_err) err = aff_abs_error(n_x, x, w, (float)qmax, sc, base, d, m);
            vi better = err < be;
            be = pick(better, err, be);
            bd = pick(better, d, bd);
            bm = pick(better, m, bm);
            sc = ratio(splat(1), d);
            base = m;
        }
        storev(e, be);
        storev(dk, bd);
        storev(mk, bm);
        for (int j = 0; j < VL; j++)
            if (e[j] < best.err) best = (struct aff_fit){dk[j], mk[j], e[j]};
    }
    return best;
}

static void aff_errors(int n_x, const float *x, const float *w, int qmax, const float *d,
                       const float *m, int n, float *err) {
    const vf zero = splat(0), top = splat((float)qmax);
    for (int k = 0; k < n; k += VL) {
        float ek[VL];
        vf dv = load_trials(d, k, n), mv = load_trials(m, k, n), inv = ratio(splat(1), dv),
           e = splat(0);
        for (int i = 0; i < n_x; i++) {
            vf y = splat(x[i]) - mv;
            vf diff = y - dv * rintv(clampv(y * inv, zero, top));
            e += splat(w[i]) * diff * diff;
        }
        storev(ek, e);
        for (int j = 0; j < VL && k + j < n; j++) err[k + j] = ek[j];
    }
}

const struct enc_trials TRIALS = {sym, sym_errors, aff, aff_errors};
