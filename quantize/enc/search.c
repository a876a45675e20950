// SPDX-License-Identifier: MIT
/* quantize/enc/search.c - trial searches for one scale, or a scale and a minimum.
 *
 * A trial is a start: round the codes with it, solve the weighted least squares for the codes, and,
 * when iterating, round again. Four trials share the loads of x and w, one per vector lane; no lane
 * ever looks at another, so the vector code computes exactly what four scalar loops would. Rounding
 * is to nearest even by adding 1.5*2^23, after clamping, which keeps every operand far below 2^22.
 */
#include "quantize/enc/search.h"

#include <math.h>
#include <string.h>

#include "core/fp.h"

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

const int8_t enc_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
/* Index of the level nearest to v, by j = trunc(256 - 2v): the midpoints between levels are
 * multiples of 1/2, so every half-open interval of length 1/2 belongs to one level (a midpoint to
 * the lower). */
// clang-format off
static const int8_t iq4_nearest[512] = {
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14,
    14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14,
    14, 14, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13,
    13, 13, 13, 13, 13, 13, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12,
    12, 12, 12, 12, 12, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11,
    11, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 9, 9, 9, 9, 9, 9,
    9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5, 5, 5, 5, 5, 5,
    5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};
/* The levels themselves, by the same number. */
static const float iq4_level[512] = {
    113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113,
    113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 113, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89,
    89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89, 89,
    89, 89, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69, 69,
    69, 69, 69, 69, 69, 69, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53, 53,
    53, 53, 53, 53, 53, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38, 38,
    38, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 13, 13, 13, 13, 13, 13,
    13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10, -10,
    -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -22, -35, -35, -35, -35, -35, -35, -35,
    -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -35, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49,
    -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -49, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65,
    -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -65, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83,
    -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -83, -104, -104, -104, -104, -104,
    -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104, -104,
    -104, -104, -104, -104, -104, -104, -104, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127, -127,
};
// clang-format on

static inline v4f splat(float a) {
    return (v4f){a, a, a, a};
}
static inline v4f load4(const float *p) {
    v4f v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store4(float *p, v4f v) {
    memcpy(p, &v, sizeof v);
}
/* mask ? a : b */
static inline v4f pick(v4i mask, v4f a, v4f b) {
    return (v4f)((mask & (v4i)a) | (~mask & (v4i)b));
}
static inline v4f clamp4(v4f v, v4f lo, v4f hi) {
    v = pick(v < lo, lo, v);
    return pick(v > hi, hi, v);
}
static inline v4f rint4(v4f v) {
    const v4f magic = splat(12582912.0f);
    return (v + magic) - magic;
}
/* out[i]: the levels nearest to iscale*x[i], four trials side by side. */
static void levels4(const struct levels *lv, int n_x, const float *x, v4f iscale, v4f *out) {
    const v4f lo = splat((float)lv->lo), hi = splat((float)lv->hi);
    if (!lv->tab) {
        for (int i = 0; i < n_x; i++) out[i] = rint4(clamp4(iscale * splat(x[i]), lo, hi));
        return;
    }
    for (int i = 0; i < n_x; i++) {
        v4f u = splat(256) - splat(2) * clamp4(iscale * splat(x[i]), lo, hi);
        v4i j = __builtin_convertvector(u, v4i);
        out[i] = (v4f){iq4_level[j[0]], iq4_level[j[1]], iq4_level[j[2]], iq4_level[j[3]]};
    }
}
/* a/b, 0 where b is 0 */
static inline v4f ratio4(v4f a, v4f b) {
    v4i zero = b == splat(0);
    v4f r = a / pick(zero, splat(1), b);
    return pick(zero, splat(0), r);
}

/* ---- scalars ------------------------------------------------------------------------------------
 */

float enc_f16(float x) {
    return fp_f16_to_f32(enc_f16_bits(x));
}

uint16_t enc_f16_bits(float x) {
    return fp_f32_to_f16(enc_clampf(x, -65504.0f, 65504.0f));
}

float enc_level(const struct levels *lv, float v) {
    v = enc_clampf(v, (float)lv->lo, (float)lv->hi);
    return lv->tab ? iq4_level[(int)(256.0f - 2.0f * v)] : enc_rint(v);
}

int enc_level_index(float level) {
    return iq4_nearest[(int)(256.0f - 2.0f * level)];
}

bool enc_load(float *dst, const float *x, int n, float limit) {
    float amax = 0;
    for (int i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        if (a > amax) amax = a;
        dst[i] = enc_clampf(x[i], -limit, limit);
    }
    return amax > 0x1p-25f;
}

float enc_absmax(const float *x, int n) {
    float m = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(m)) m = x[i];
    return m;
}

/* ---- x ~ d * l ----------------------------------------------------------------------------------
 */

/* One rounding and least squares of four trials: sum w x l and sum w l^2. */
static void sym_sums(const struct levels *lv, int n_x, const float *x, const float *w, v4f iscale,
                     v4f *sxl, v4f *sll) {
    v4f a = splat(0), b = splat(0), l[ENC_SUB];
    levels4(lv, n_x, x, iscale, l);
    for (int i = 0; i < n_x; i++) {
        v4f t = splat(w[i]) * l[i];
        a += t * splat(x[i]);
        b += t * l[i];
    }
    *sxl = a;
    *sll = b;
}

struct sym_fit enc_sym_trials(const struct levels *lv, int n_x, const float *x, const float *w,
                              const float *iscale, int n, int iters) {
    struct sym_fit best = {0, 0};
    for (int k = 0; k < n; k += 4) {
        float is[4], d[4], merit[4];
        for (int j = 0; j < 4; j++) is[j] = iscale[k + j < n ? k + j : n - 1];
        v4f s = load4(is), bm = splat(0), bd = splat(0);
        for (int it = 0; it < iters; it++) {
            v4f sxl, sll;
            sym_sums(lv, n_x, x, w, s, &sxl, &sll);
            v4f m = ratio4(sxl * sxl, sll), dd = ratio4(sxl, sll);
            v4i better = m > bm;
            bm = pick(better, m, bm);
            bd = pick(better, dd, bd);
            s = ratio4(splat(1), dd);
        }
        store4(d, bd);
        store4(merit, bm);
        for (int j = 0; j < 4; j++)
            if (merit[j] > best.merit) best = (struct sym_fit){d[j], merit[j]};
    }
    return best;
}

struct sym_fit enc_sym_conventional(const struct levels *lv, int n_x, const float *x,
                                    const float *w) {
    float top = enc_absmax(x, n_x), is[24];
    if (fabsf(top) < 0x1p-40f) return (struct sym_fit){0, 0};
    int n = 0;
    if (lv->tab) { /* first with the largest element on the short end, then 15 on the long one */
        is[n++] = (float)-lv->lo / top;
        for (int k = -7; k <= 7; k++) is[n++] = (float)(k + lv->lo) / top;
    } else {
        is[n++] = (float)lv->lo / top;
        for (int k = -9; k <= 9; k++)
            if (k) is[n++] = ((float)lv->lo - 0.1f * (float)k) / top;
    }
    return enc_sym_trials(lv, n_x, x, w, is, n, 1);
}

struct sym_fit enc_sym_wide(const struct levels *lv, int n_x, const float *x, const float *w, int n,
                            int iters, bool negative) {
    float top = enc_absmax(x, n_x), is[ENC_TRIALS];
    if (fabsf(top) < 0x1p-40f) return (struct sym_fit){0, 0};
    /* The largest element goes to `reach` of the end it points to: 0.8 (room is left, when smaller
     * values weigh more) to 1.35 (it is clipped). */
    float end = (float)(negative ? lv->lo : lv->hi);
    for (int k = 0; k < n; k++) {
        float reach = 0.8f + 0.55f * (float)k / (float)(n - 1);
        is[k] = end * reach / top;
    }
    /* Where another weight matters most, it also gets to sit on a level of its own. */
    int at = 0;
    for (int i = 1; i < n_x; i++)
        if (w[i] * x[i] * x[i] > w[at] * x[at] * x[at]) at = i;
    if (x[at] != top && fabsf(x[at]) > 0x1p-40f)
        for (int k = 4; k >= 1; k--) is[n++] = end * 0.25f * (float)k / x[at];
    return enc_sym_trials(lv, n_x, x, w, is, n, iters);
}

void enc_sym_errors(const struct levels *lv, int n_x, const float *x, const float *w,
                    const float *d, int n, float *err) {
    v4f l[ENC_SUB];
    for (int k = 0; k < n; k += 4) {
        float dk[4], ek[4];
        for (int j = 0; j < 4; j++) dk[j] = d[k + j < n ? k + j : n - 1];
        v4f dv = load4(dk), inv = ratio4(splat(1), dv), e = splat(0);
        levels4(lv, n_x, x, inv, l);
        for (int i = 0; i < n_x; i++) {
            v4f xi = splat(x[i]);
            v4f diff = xi - dv * l[i];
            e += splat(w[i]) * diff * diff;
        }
        store4(ek, e);
        for (int j = 0; j < 4 && k + j < n; j++) err[k + j] = ek[j];
    }
}

/* ---- x ~ d * l + m ------------------------------------------------------------------------------
 */

struct aff_sums {
    float w, wx, wxx; /* of the block, the same for every trial */
};

/* Four trials once: codes from (iscale, lo), then the least squares (d, m) and its error. */
static void aff_solve(int n_x, const float *x, const float *w, float qmax, const struct aff_sums *s,
                      v4f iscale, v4f lo, bool free_min, v4f *d, v4f *m, v4f *err) {
    v4f sl = splat(0), sll = splat(0), sxl = splat(0);
    const v4f zero = splat(0), top = splat(qmax);
    for (int i = 0; i < n_x; i++) {
        v4f l = rint4(clamp4((splat(x[i]) - lo) * iscale, zero, top));
        v4f t = splat(w[i]) * l;
        sl += t;
        sll += t * l;
        sxl += t * splat(x[i]);
    }
    v4f det = splat(s->w) * sll - sl * sl;
    /* all codes equal: no slope to solve for; d 0 and the mean */
    v4i flat = det <= splat(1e-6f) * splat(s->w) * sll;
    v4f dd = ratio4(splat(s->w) * sxl - splat(s->wx) * sl, det);
    v4f mm = ratio4(sll * splat(s->wx) - sl * sxl, det);
    dd = pick(flat, zero, dd);
    mm = pick(flat, splat(s->wx / s->w), mm);
    if (!free_min) {
        v4i pos = mm > zero;
        dd = pick(pos, ratio4(sxl, sll), dd);
        mm = pick(pos, zero, mm);
    }
    *d = dd;
    *m = mm;
    *err = splat(s->wxx) - dd * sxl - mm * splat(s->wx);
}

static v4f aff_abs_error(int n_x, const float *x, const float *w, float qmax, v4f iscale, v4f lo,
                         v4f d, v4f m) {
    v4f e = splat(0);
    const v4f zero = splat(0), top = splat(qmax);
    for (int i = 0; i < n_x; i++) {
        v4f xi = splat(x[i]);
        v4f diff = d * rint4(clamp4((xi - lo) * iscale, zero, top)) + m - xi;
        e += splat(w[i]) * pick(diff < zero, -diff, diff);
    }
    return e;
}

static struct aff_fit aff_run(int n_x, const float *x, const float *w, int qmax, const float *is,
                              const float *lo, int n, int iters, bool abs_err, bool free_min) {
    struct aff_fit best = {0, 0, INFINITY};
    struct aff_sums s = {0, 0, 0};
    for (int i = 0; i < n_x; i++) {
        s.w += w[i];
        s.wx += w[i] * x[i];
        s.wxx += w[i] * x[i] * x[i];
    }
    for (int k = 0; k < n; k += 4) {
        float a[4], b[4], e[4], dk[4], mk[4];
        for (int j = 0; j < 4; j++) {
            int t = k + j < n ? k + j : n - 1;
            a[j] = is[t];
            b[j] = lo[t];
        }
        v4f sc = load4(a), base = load4(b), be = splat(INFINITY), bd = splat(0), bm = splat(0);
        for (int it = 0; it < iters; it++) {
            v4f d, m, err;
            aff_solve(n_x, x, w, (float)qmax, &s, sc, base, free_min, &d, &m, &err);
            if (abs_err) err = aff_abs_error(n_x, x, w, (float)qmax, sc, base, d, m);
            v4i better = err < be;
            be = pick(better, err, be);
            bd = pick(better, d, bd);
            bm = pick(better, m, bm);
            sc = ratio4(splat(1), d);
            base = m;
        }
        store4(e, be);
        store4(dk, bd);
        store4(mk, bm);
        for (int j = 0; j < 4; j++)
            if (e[j] < best.err) best = (struct aff_fit){dk[j], mk[j], e[j]};
    }
    return best;
}

struct aff_fit enc_aff_trials(int n_x, const float *x, const float *w, int qmax,
                              const struct aff_grid *g, int lo_n, int iters, bool abs_err,
                              bool free_min) {
    float lo = x[0], hi = x[0], is[ENC_TRIALS], base[ENC_TRIALS];
    for (int i = 1; i < n_x; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    if (lo > 0 && !free_min) lo = 0;
    if (hi - lo < 0x1p-40f) return (struct aff_fit){0, lo, 0};
    int n = 0;
    for (int j = 0; j < lo_n; j++) {
        float start = lo + (hi - lo) * 0.06f * (float)j; /* the lowest elements are clipped */
        if (!free_min && start > 0) break;
        for (int k = 0; k <= g->nstep && n < ENC_TRIALS; k++) {
            is[n] = (g->rmin + g->rdelta * (float)k + (float)qmax) / (hi - start);
            base[n++] = start;
        }
    }
    return aff_run(n_x, x, w, qmax, is, base, n, iters, abs_err, free_min);
}

void enc_aff_errors(int n_x, const float *x, const float *w, int qmax, const float *d,
                    const float *m, int n, float *err) {
    const v4f zero = splat(0), top = splat((float)qmax);
    for (int k = 0; k < n; k += 4) {
        float dk[4], mk[4], ek[4];
        for (int j = 0; j < 4; j++) {
            int t = k + j < n ? k + j : n - 1;
            dk[j] = d[t];
            mk[j] = m[t];
        }
        v4f dv = load4(dk), mv = load4(mk), inv = ratio4(splat(1), dv), e = splat(0);
        for (int i = 0; i < n_x; i++) {
            v4f y = splat(x[i]) - mv;
            v4f diff = y - dv * rint4(clamp4(y * inv, zero, top));
            e += splat(w[i]) * diff * diff;
        }
        store4(ek, e);
        for (int j = 0; j < 4 && k + j < n; j++) err[k + j] = ek[j];
    }
}

/* ---- positive values ----------------------------------------------------------------------------
 */

static float pos_error(int n, int lmax, const float *x, const float *w, float iscale) {
    float d = 1.0f / iscale, e = 0;
    for (int i = 0; i < n; i++) {
        float diff = x[i] - d * enc_rint(enc_clampf(iscale * x[i], 0, (float)lmax));
        e += w[i] * diff * diff;
    }
    return e;
}

/* Up to five sweeps: each code takes its best value given the others, if the merit rises. */
static void pos_descend(int n, int lmax, const float *x, const float *w, uint8_t *l, float *sxl,
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

float enc_pos(int n, int lmax, const float *x, const float *w, uint8_t *l) {
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
