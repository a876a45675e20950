// SPDX-License-Identifier: MIT
/* quantize/enc/block32.c - blocks of 32 with one f16 scale (Q4_0, Q5_0, Q8_0, IQ4_NL) or a scale
 * and a minimum (Q4_1, Q5_1).
 *
 * Conventional: plain max or min-max scaling without importance (IQ4_NL always searches), the
 * shared grids with importance. Fast: both orientations, codes iterated with the least-squares
 * scale rounded to f16. Best: more starts. The conventional block stays unless the decoded error
 * falls. Blocks below f16's reach become zeros; weights are clamped to what d = 65504 can hold
 * (Q4_1, Q5_1: to +-65504). */
#include "quantize/enc/super.h"

#include <math.h>
#include <string.h>

enum { N = 32 };
struct job {
    const struct b32_spec *s;
    float x[N], w[N];
};

static void round_codes(const struct job *j, struct b32_block *b) {
    float inv = b->d != 0 ? 1.0f / b->d : 0;
    for (int i = 0; i < N; i++) b->l[i] = (int8_t)enc_level(&j->s->lv, (j->x[i] - b->m) * inv);
}

static double block_error(const struct job *j, const struct b32_block *b) {
    double e = 0;
    for (int i = 0; i < N; i++) {
        double diff = (double)(b->d * (float)b->l[i] + b->m) - (double)j->x[i];
        e += (double)j->w[i] * diff * diff;
    }
    return e;
}

static void take(const struct job *j, float d, float m, struct b32_block *best, double *best_err) {
    struct b32_block b;
    b.d = enc_f16(d);
    b.m = enc_f16(m);
    if (b.d == 0) return;
    round_codes(j, &b);
    double e = block_error(j, &b);
    if (!(e < *best_err)) return;
    *best = b;
    *best_err = e;
}

/* Least squares of (d, m) for the block's codes. */
static void refit(const struct job *j, const struct b32_block *b, float *d, float *m) {
    double w = 0, wx = 0, wl = 0, wll = 0, wxl = 0;
    for (int i = 0; i < N; i++) {
        double wi = (double)j->w[i], xi = (double)j->x[i], li = b->l[i];
        w += wi;
        wx += wi * xi;
        wl += wi * li;
        wll += wi * li * li;
        wxl += wi * xi * li;
    }
    double det = w * wll - wl * wl;
    *d = b->d;
    *m = b->m;
    if (j->s->affine && det > 1e-9 * w * wll) {
        *d = (float)((w * wxl - wl * wx) / det);
        *m = (float)((wll * wx - wl * wxl) / det);
    } else if (!j->s->affine && wll > 0) {
        *d = (float)(wxl / wll);
    }
}

static void conventional(struct job *j, bool have_imp, struct b32_block *b) {
    const struct levels *lv = &j->s->lv;
    b->m = 0;
    if (j->s->affine) {
        static const struct aff_grid searched = {-0.9f, 0.05f, 36};
        float lo = j->x[0], hi = j->x[0];
        for (int i = 1; i < N; i++) {
            if (j->x[i] < lo) lo = j->x[i];
            if (j->x[i] > hi) hi = j->x[i];
        }
        struct aff_fit f = {(hi - lo) / (float)lv->hi, lo, 0};
        if (have_imp) f = enc_aff_trials(N, j->x, j->w, lv->hi, &searched, 1, 1, false, false);
        b->d = enc_f16(f.d);
        b->m = enc_f16(f.m);
    } else if (j->s->type == QT_Q8_0) {
        b->d = enc_f16(fabsf(enc_absmax(j->x, N)) / 127.0f);
    } else if (!have_imp && !lv->tab) {
        b->d = enc_f16(enc_absmax(j->x, N) / (float)lv->lo);
    } else {
        b->d = enc_f16(enc_sym_conventional(lv, N, j->x, j->w).d);
    }
    round_codes(j, b);
}

/* From the best block so far: least squares, f16, codes again, while it gets better. */
static void polish(const struct job *j, struct b32_block *best, double *err) {
    for (int r = 0; r < 4; r++) {
        float d, m;
        double before = *err;
        refit(j, best, &d, &m);
        take(j, d, m, best, err);
        if (!(*err < before)) return;
    }
}

static void improve_sym(struct job *j, bool slow, struct b32_block *best, double *err) {
    const struct levels *lv = &j->s->lv;
    int n = slow ? 80 : 14, iters = slow ? 4 : 1;
    if (j->s->type == QT_Q8_0) { /* one orientation: the range is symmetric */
        float is[64], top = fabsf(enc_absmax(j->x, N));
        n = slow ? 64 : 16;
        for (int k = 0; k < n; k++) is[k] = (127.4f - (slow ? 0.15f : 0.4f) * (float)k) / top;
        take(j, enc_sym_trials(lv, N, j->x, j->w, is, n, 1).d, 0, best, err);
    } else {
        take(j, enc_sym_wide(lv, N, j->x, j->w, n, iters, true).d, 0, best, err);
        take(j, enc_sym_wide(lv, N, j->x, j->w, n, iters, false).d, 0, best, err);
    }
}

static void improve_aff(struct job *j, bool slow, struct b32_block *best, double *err) {
    static const struct aff_grid quick = {-0.9f, 0.15f, 15}, fine = {-1.4f, 0.1f, 35};
    int qmax = j->s->lv.hi;
    struct aff_fit f = enc_aff_trials(N, j->x, j->w, qmax, slow ? &fine : &quick, slow ? 4 : 2,
                                      slow ? 4 : 2, false, true);
    take(j, f.d, f.m, best, err);
    if (!slow) return;
    for (int i = 0; i < N; i++) j->x[i] = -j->x[i]; /* d < 0: the minimum's f16 at the upper end */
    f = enc_aff_trials(N, j->x, j->w, qmax, &fine, 4, 4, false, true);
    for (int i = 0; i < N; i++) j->x[i] = -j->x[i];
    take(j, -f.d, -f.m, best, err);
}

static void improve(struct job *j, enum search search, struct b32_block *b) {
    double err = block_error(j, b);
    bool slow = search == SEARCH_BEST;
    if (j->s->affine)
        improve_aff(j, slow, b, &err);
    else
        improve_sym(j, slow, b, &err);
    polish(j, b, &err);
}

/* One block; row_mean2: of the row, for the rules whose scope is the row. */
static void search_block(const struct b32_spec *s, const float *x, const float *imp,
                         enum search search, float row_mean2, struct b32_block *b) {
    struct job j = {.s = s};
    memset(b, 0, sizeof *b);
    if (!enc_load(j.x, x, N, 65504.0f * (s->affine ? 1.0f : (float)s->lv.hi))) {
        for (int k = 0; k < N; k++) b->l[k] = (int8_t)enc_level(&s->lv, 0);
        return;
    }
    const struct wrule conv = enc_wrule(s->type, SEARCH_CONVENTIONAL);
    const struct wrule rule = enc_wrule(s->type, search);
    float mean2 = rule.scope == 0 ? row_mean2 : enc_mean2(j.x, N);
    enc_weights(j.w, j.x, imp, N, &conv, mean2, N);
    conventional(&j, imp != NULL, b);
    if (search == SEARCH_CONVENTIONAL) return;
    enc_weights(j.w, j.x, imp, N, &rule, mean2, N);
    improve(&j, search, b);
}

void enc_b32_row(const struct b32_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct b32_block *b)) {
    const int bytes = qtype_info(s->type)->block_bytes;
    const float row_mean2 = enc_wrule(s->type, search).scope == 0 ? enc_mean2(x, n) : 0;
    for (int64_t i = 0; i < n / N; i++) {
        struct b32_block b;
        search_block(s, x + i * N, imp ? imp + i * N : NULL, search, row_mean2, &b);
        pack((uint8_t *)dst + i * bytes, &b);
    }
}

void enc_b32_open(const struct b32_spec *s, const float *x, const float *imp, enum search search,
                  struct enc_open *o) {
    struct b32_block b;
    search_block(s, x, imp, search, enc_mean2(x, N), &b);
    *o = (struct enc_open){.n = N,
                           .sub = N,
                           .lv = s->lv,
                           .d = b.d,
                           .m = b.m,
                           .m_sign = s->affine ? 1 : 0,
                           .sc_lo = 1,
                           .sc_hi = 1};
    o->sc[0] = o->mn[0] = 1;
    memcpy(o->l, b.l, sizeof b.l);
}

void enc_b32_close(const struct enc_open *o, struct b32_block *b) {
    b->d = o->d;
    b->m = o->m;
    memcpy(b->l, o->l, sizeof b->l);
}
