// SPDX-License-Identifier: MIT
/* quantize/enc/affine.c - super-blocks x ~ d*sc*q - dmin*mn (Q2_K, Q4_K, Q5_K).
 *
 * Conventional: per sub-block a grid of scales with least squares, then the scales and the minima
 * are quantized each for itself, then codes are rounded once. Fast: starts there and alternates (a)
 * for each sub-block the integer pair (sc, mn) near the present one that gives the least true error
 * with codes rounded anew, (b) the joint least squares of (d, dmin) over 256 weights, rounded to
 * f16. Best: many starts of (d, dmin), wider neighbourhoods and the mirrored block (d < 0: minima
 * at the upper end). A result replaces the conventional one only if its decoded error is lower, so
 * no block is worse. Blocks below f16's reach become zeros; weights are clamped to what d = 65504
 * can hold. */
#include "quantize/enc/super.h"

#include <math.h>
#include <string.h>

struct job { /* one super-block being searched */
    const struct aff_spec *s;
    float x[QK], w[QK];
    float scale[ENC_NSUB], min[ENC_NSUB]; /* real-valued fits per sub-block; x ~ scale*q - min */
};
/* A neighbourhood of (sc, mn) */
struct move {
    int8_t sc, mn;
};
// clang-format off
static const struct move near_moves[12] = {
    {0, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}, {1, 2}, {-1, -2}, {0, 2},
};
static const struct move far_moves[28] = {
    {0, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}, {1, 2}, {-1, -2}, {0, 2},
    {0, -2}, {2, 0}, {-2, 0}, {2, 1}, {-2, -1}, {2, 2}, {-2, -2}, {2, -1}, {-2, 1}, {2, 3}, {-2, -3},
    {1, 3}, {-1, -3}, {1, -2}, {-1, 2}, {2, 4},
};
// clang-format on

/* Codes of one sub-block for its stored scale and minimum. */
static void round_sub(const struct job *j, struct aff_block *b, int k) {
    int sub = j->s->sub;
    float d = b->d * (float)b->sc[k], m = b->dmin * (float)b->mn[k];
    float inv = d != 0 ? 1.0f / d : 0;
    for (int i = k * sub; i < (k + 1) * sub; i++)
        b->q[i] = (uint8_t)enc_rint(enc_clampf((j->x[i] + m) * inv, 0, (float)j->s->qmax));
}

static double block_error(const struct job *j, const struct aff_block *b) {
    double e = 0;
    for (int k = 0; k < j->s->n_sub; k++) {
        float d = b->d * (float)b->sc[k], m = b->dmin * (float)b->mn[k];
        for (int i = k * j->s->sub; i < (k + 1) * j->s->sub; i++) {
            double diff = (double)(d * (float)b->q[i] - m) - (double)j->x[i];
            e += (double)j->w[i] * diff * diff;
        }
    }
    return e;
}

static void fit_subs(struct job *j, const struct aff_grid *g, int lo_n, int iters, bool abs_err) {
    int sub = j->s->sub;
    for (int k = 0; k < j->s->n_sub; k++) {
        struct aff_fit f = enc_aff_trials(sub, j->x + k * sub, j->w + k * sub, j->s->qmax, g, lo_n,
                                          iters, abs_err, false);
        j->scale[k] = f.d > 0 ? f.d : 0;
        j->min[k] = f.m < 0 ? -f.m : 0;
    }
}

static void conventional(struct job *j, bool have_imp, struct aff_block *b) {
    float sw[ENC_NSUB];
    fit_subs(j, have_imp ? &j->s->imp : &j->s->plain, 1, 1, !have_imp && j->s->plain_abs);
    for (int k = 0; k < j->s->n_sub; k++) {
        sw[k] = 0;
        for (int i = k * j->s->sub; i < (k + 1) * j->s->sub; i++) sw[k] += j->w[i];
    }
    b->d = enc_f16(enc_pos(j->s->n_sub, j->s->smax, j->scale, sw, b->sc));
    b->dmin = enc_f16(enc_pos(j->s->n_sub, j->s->smax, j->min, sw, b->mn));
    for (int k = 0; k < j->s->n_sub; k++) round_sub(j, b, k);
}

/* For each sub-block the best pair of integers among the moves; codes follow. Returns the error. */
static float choose_ints(const struct job *j, struct aff_block *b, const struct move *mv, int n) {
    float d[32], m[32], err[32], total = 0;
    uint8_t sc[32], mn[32];
    int sub = j->s->sub, smax = j->s->smax;
    for (int k = 0; k < j->s->n_sub; k++) {
        for (int t = 0; t < n; t++) {
            int a = b->sc[k] + mv[t].sc, c = b->mn[k] + mv[t].mn;
            sc[t] = (uint8_t)(a < 0 ? 0 : a > smax ? smax : a);
            mn[t] = (uint8_t)(c < 0 ? 0 : c > smax ? smax : c);
            d[t] = b->d * (float)sc[t];
            m[t] = -b->dmin * (float)mn[t];
        }
        enc_aff_errors(sub, j->x + k * sub, j->w + k * sub, j->s->qmax, d, m, n, err);
        int best = 0;
        for (int t = 1; t < n; t++)
            if (err[t] < err[best]) best = t;
        b->sc[k] = sc[best];
        b->mn[k] = mn[best];
        total += err[best];
    }
    return total;
}

/* Joint least squares of (d, dmin) for the present codes and integers; false when nothing moves. */
static bool refit(const struct job *j, struct aff_block *b) {
    double a11 = 0, a12 = 0, a22 = 0, b1 = 0, b2 = 0;
    for (int k = 0; k < j->s->n_sub; k++) {
        float sl = 0, sll = 0, sxl = 0, sw = 0, sx = 0;
        round_sub(j, b, k);
        for (int i = k * j->s->sub; i < (k + 1) * j->s->sub; i++) {
            float q = b->q[i], t = j->w[i] * q;
            sl += t;
            sll += t * q;
            sxl += t * j->x[i];
            sw += j->w[i];
            sx += j->w[i] * j->x[i];
        }
        double sc = b->sc[k], mn = b->mn[k];
        a11 += sc * sc * (double)sll;
        a12 -= sc * mn * (double)sl;
        a22 += mn * mn * (double)sw;
        b1 += sc * (double)sxl;
        b2 -= mn * (double)sx;
    }
    double det = a11 * a22 - a12 * a12, d = (double)b->d, m = (double)b->dmin;
    if (a22 > 0 && a11 > 0 && det > 1e-9 * a11 * a22) {
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

/* Alternates both steps; *best (with error *best_err, as choose_ints counts it) takes improvements.
 */
static void alternate(const struct job *j, struct aff_block *b, const struct move *mv, int n,
                      int rounds, struct aff_block *best, float *best_err) {
    for (int r = 0; r < rounds; r++) {
        float e = choose_ints(j, b, mv, n);
        if (e < *best_err) {
            *best_err = e;
            *best = *b;
        }
        if (!refit(j, b)) return;
    }
    float e = choose_ints(j, b, mv, 1);
    if (e < *best_err) {
        *best_err = e;
        *best = *b;
    }
}

/* Integers from the real-valued fits for given (d, dmin). */
static void start_from(const struct job *j, float d, float dmin, struct aff_block *b) {
    float smax = (float)j->s->smax;
    b->d = enc_f16(d);
    b->dmin = enc_f16(dmin);
    for (int k = 0; k < j->s->n_sub; k++) {
        b->sc[k] = (uint8_t)enc_rint(enc_clampf(b->d != 0 ? j->scale[k] / b->d : 0, 0, smax));
        b->mn[k] = (uint8_t)enc_rint(enc_clampf(b->dmin != 0 ? j->min[k] / b->dmin : 0, 0, smax));
    }
}

enum { KEEP = 3 };
static void search_best(struct job *j, struct aff_block *best, float *best_err) {
    static const struct aff_grid grid = {-1.2f, 0.15f, 23};
    static const float f[5] = {1.0f, 0.97f, 1.04f, 1.1f, 1.2f};
    struct aff_block top[KEEP], b;
    float top_err[KEEP], smax = 0, mmax = 0;
    fit_subs(j, &grid, 4, 3, false);
    for (int k = 0; k < j->s->n_sub; k++) {
        smax = fmaxf(smax, j->scale[k]);
        mmax = fmaxf(mmax, j->min[k]);
    }
    for (int t = 0; t < KEEP; t++) top_err[t] = INFINITY;
    for (int t = 0; t < 25; t++) {
        start_from(j, smax / (float)j->s->smax * f[t / 5], mmax / (float)j->s->smax * f[t % 5], &b);
        if (mmax <= 0 && t % 5) continue;
        float e = choose_ints(j, &b, near_moves, 12);
        int at = KEEP;
        while (at > 0 && e < top_err[at - 1]) at--;
        if (at == KEEP) continue;
        for (int u = KEEP - 1; u > at; u--) {
            top[u] = top[u - 1];
            top_err[u] = top_err[u - 1];
        }
        top[at] = b;
        top_err[at] = e;
    }
    for (int t = 0; t < KEEP; t++)
        if (top_err[t] < INFINITY) alternate(j, &top[t], far_moves, 28, 5, best, best_err);
}

/* Fits whose minimum may leave the lowest weights out, then a few starts of (d, dmin) from them. */
static void search_fast(struct job *j, struct aff_block *best, float *best_err) {
    static const struct aff_grid grid = {-1.0f, 0.4f, 7};
    static const float f[3] = {1.0f, 1.06f, 1.15f};
    float smax = 0, mmax = 0;
    fit_subs(j, &grid, 3, 3, false);
    for (int k = 0; k < j->s->n_sub; k++) {
        smax = fmaxf(smax, j->scale[k]);
        mmax = fmaxf(mmax, j->min[k]);
    }
    for (int t = 0; t < 3; t++) {
        struct aff_block b;
        start_from(j, smax / (float)j->s->smax * f[t], mmax / (float)j->s->smax * f[t], &b);
        alternate(j, &b, near_moves, 12, 1, best, best_err);
    }
}

static void finish(struct job *j, struct aff_block *b) {
    for (int k = 0; k < j->s->n_sub; k++) round_sub(j, b, k);
}

/* The block of -x with both factors negated describes x. */
static void mirrored_best(struct job *j, struct aff_block *best, float *best_err) {
    struct aff_block b;
    float e = *best_err;
    for (int i = 0; i < QK; i++) j->x[i] = -j->x[i];
    search_best(j, &b, &e);
    for (int i = 0; i < QK; i++) j->x[i] = -j->x[i];
    if (!(e < *best_err)) return;
    b.d = -b.d;
    b.dmin = -b.dmin;
    *best = b;
    *best_err = e;
}

static void improve(struct job *j, const struct aff_block *conv, enum search search,
                    struct aff_block *out) {
    struct aff_block b = *conv, best = *conv;
    float err = INFINITY;
    alternate(j, &b, near_moves, 12, search == SEARCH_BEST ? 4 : 2, &best, &err);
    if (search == SEARCH_FAST) search_fast(j, &best, &err);
    if (search == SEARCH_BEST) {
        search_best(j, &best, &err);
        mirrored_best(j, &best, &err);
    }
    finish(j, &best);
    *out = block_error(j, &best) < block_error(j, conv) ? best : *conv;
}

/* One super-block, zeroed before. */
static void search_block(const struct aff_spec *s, const float *x, const float *imp,
                         enum search search, struct aff_block *b) {
    struct job j = {.s = s};
    memset(b, 0, sizeof *b);
    if (!enc_load(j.x, x, QK, 65504.0f * (float)s->smax)) return;
    const struct wrule conv = enc_wrule(s->type, SEARCH_CONVENTIONAL);
    float mean2 = enc_mean2(j.x, QK);
    enc_weights(j.w, j.x, imp, QK, &conv, mean2, s->sub);
    conventional(&j, imp != NULL, b);
    if (search == SEARCH_CONVENTIONAL) return;
    const struct wrule rule = enc_wrule(s->type, search);
    struct aff_block c = *b;
    enc_weights(j.w, j.x, imp, QK, &rule, mean2, s->sub);
    improve(&j, &c, search, b);
}

void enc_aff_row(const struct aff_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct aff_block *b)) {
    const int bytes = qtype_info(s->type)->block_bytes;
    for (int64_t i = 0; i < n / QK; i++) {
        struct aff_block b;
        search_block(s, x + i * QK, imp ? imp + i * QK : NULL, search, &b);
        pack((uint8_t *)dst + i * bytes, &b);
    }
}

void enc_aff_open(const struct aff_spec *s, const float *x, const float *imp, enum search search,
                  struct enc_open *o) {
    struct aff_block b;
    search_block(s, x, imp, search, &b);
    *o = (struct enc_open){.n = QK,
                           .sub = s->sub,
                           .lv = {0, s->qmax, NULL},
                           .d = b.d,
                           .m = b.dmin,
                           .m_sign = -1,
                           .sc_hi = s->smax,
                           .mn_hi = s->smax};
    for (int k = 0; k < s->n_sub; k++) {
        o->sc[k] = b.sc[k];
        o->mn[k] = b.mn[k];
    }
    for (int i = 0; i < QK; i++) o->l[i] = (int8_t)b.q[i];
}

void enc_aff_close(const struct enc_open *o, struct aff_block *b) {
    memset(b, 0, sizeof *b);
    b->d = o->d;
    b->dmin = o->m;
    for (int k = 0; k < QK / o->sub; k++) {
        b->sc[k] = (uint8_t)o->sc[k];
        b->mn[k] = (uint8_t)o->mn[k];
    }
    for (int i = 0; i < QK; i++) b->q[i] = (uint8_t)o->l[i];
}

void enc_pack_scale_min(uint8_t out[12], const uint8_t *sc, const uint8_t *mn) {
    for (int k = 0; k < 4; k++) {
        out[k] = (uint8_t)(sc[k] | (sc[k + 4] >> 4) << 6);
        out[k + 4] = (uint8_t)(mn[k] | (mn[k + 4] >> 4) << 6);
        out[k + 8] = (uint8_t)((sc[k + 4] & 15) | (mn[k + 4] & 15) << 4);
    }
}
