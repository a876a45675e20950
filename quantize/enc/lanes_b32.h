// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_b32.h - search for blocks of 32 with one f16 scale (Q4_0, Q5_0, Q8_0, IQ4_NL)
 * or a scale and a minimum (Q4_1, Q5_1), eight at a time. Included by lanes.c.
 *
 * Conventional: plain max or min-max scaling without importance (IQ4_NL always searches), the
 * shared grids with importance. Fast and best: both orientations; codes are iterated with the
 * least-squares scale rounded to f16. Best keeps the conventional block unless the decoded error
 * falls. Blocks below f16's range become zeros; weights are clamped to what d = 65504 can hold
 * (Q4_1, Q5_1: to +-65504). */
#ifndef HONE_QUANTIZE_ENC_LANES_B32_H
#define HONE_QUANTIZE_ENC_LANES_B32_H

#include "quantize/enc/lanes_aff.h"
#include "quantize/enc/lanes_sym.h"

enum { B32 = 32 };

struct b32_job { /* search state of eight blocks */
    const struct enc_spec *s;
    float *x, *w; /* weights and search weights in natural order */
    struct tile t;
};
struct b32_state {
    vf d, m, err;
};

/* Implements enc_f16_scale for every lane. */
INLINE vf f16_scale(vf x) {
    const vf d = f16v(x), zero = splat(0), least = splat(0x1p-24f);
    return pick(d == zero, pick(x > zero, least, pick(x < zero, zero - least, zero)), d);
}

/* Rounds (d, m) to f16 and takes the nearest codes if they beat the best so far. */
LANE_FN void b32_take(const struct b32_job *j, vf d, vf m, struct b32_state *best) {
    vf e;
    /* The table has no level 0, so weights far below the least scale are better off as zeros. */
    d = j->s->lv.tab ? f16v(d) : f16_scale(d);
    m = f16v(m);
    if (j->s->affine)
        e = aff_error(&j->t, B32, splat((float)j->s->lv.hi), d, m);
    else {
        vf one = splat(1);
        e = splat(INFINITY);
        sym_choose(&j->s->lv, &j->t, B32, d, &one, 1, &one, &e);
    }
    vi better = e < best->err;
    best->d = pick(better, d, best->d);
    best->m = pick(better, m, best->m);
    best->err = pick(better, e, best->err);
}

/* Refines the best result so far: fits by least squares, rounds to f16 and chooses codes again. */
LANE_FN void b32_polish(const struct b32_job *j, int rounds, struct b32_state *best) {
    for (int r = 0; r < rounds; r++) {
        vf d = best->d, m = splat(0);
        if (j->s->affine) {
            struct aff_sums s = aff_sums_of(&j->t, B32);
            vf sl, sll, sxl;
            aff_code_sums(&j->t, B32, splat((float)j->s->lv.hi), ratio(splat(1), d), best->m, &sl,
                          &sll, &sxl);
            struct afit f = aff_solve(&s, sl, sll, sxl, true);
            d = f.d;
            m = f.m;
        } else {
            vf sxl, sll;
            sym_sums_at(&j->s->lv, &j->t, B32, d, &sxl, &sll);
            d = ratio(sxl, sll);
        }
        b32_take(j, d, m, best);
    }
}

LANE_FN void b32_conventional(const struct b32_job *j, bool have_imp, struct b32_state *b) {
    const struct levels *lv = &j->s->lv;
    b->m = splat(0);
    if (j->s->affine && have_imp) {
        const struct aff_starts st = {{-0.9f, 0.05f, 36}, 1, false, 1, false, false};
        struct afit f = aff_fit(&j->t, B32, lv->hi, &st);
        b->d = f.d;
        b->m = f.m;
    } else if (j->s->affine) {
        vf lo = j->t.x[0], hi = j->t.x[0];
        for (int i = 1; i < B32; i++) {
            lo = minv(j->t.x[i], lo);
            hi = maxv(j->t.x[i], hi);
        }
        b->d = (hi - lo) / splat((float)lv->hi);
        b->m = lo;
    } else if (j->s->by_largest) {
        b->d = absv(absmax(&j->t, B32)) / splat(127);
    } else if (!have_imp && !lv->tab) {
        b->d = absmax(&j->t, B32) / splat((float)lv->lo);
    } else {
        b->d = sym_fit_conventional(lv, &j->t, B32);
    }
    b->d = f16v(b->d);
    b->m = f16v(b->m);
}

struct b32_effort {
    struct sym_reach reach;
    struct sym_reach wide; /* with by_largest: the only orientation */
    struct aff_starts aff;
    bool mirror;
    int polish;
};

LANE_FN void b32_search(struct b32_job *j, const struct b32_effort *f, struct b32_state *b) {
    if (j->s->affine) {
        struct afit a = aff_fit(&j->t, B32, j->s->lv.hi, &f->aff);
        b32_take(j, a.d, a.m, b);
        if (f->mirror) { /* d < 0: the minimum is at the upper end, rounded to f16 */
            for (int i = 0; i < B32; i++) j->t.x[i] = -j->t.x[i];
            a = aff_fit(&j->t, B32, j->s->lv.hi, &f->aff);
            for (int i = 0; i < B32; i++) j->t.x[i] = -j->t.x[i];
            b32_take(j, -a.d, -a.m, b);
        }
    } else if (j->s->by_largest) {
        b32_take(j, sym_fit_reach(&j->s->lv, &j->t, B32, &f->wide, false).d, splat(0), b);
    } else {
        struct vfit p = sym_fit_reach(&j->s->lv, &j->t, B32, &f->reach, true);
        struct vfit q = sym_fit_reach(&j->s->lv, &j->t, B32, &f->reach, false);
        if (f->mirror) { /* try both orientations; otherwise the one of larger merit */
            b32_take(j, p.d, splat(0), b);
            b32_take(j, q.d, splat(0), b);
        } else {
            b32_take(j, pick(q.merit > p.merit, q.d, p.d), splat(0), b);
        }
    }
    b32_polish(j, f->polish, b);
}

LANE_FN void b32_weights(struct b32_job *j, const float *imp, int n, const struct wrule *rule,
                         float row_mean2) {
    for (int k = 0; k < LANES; k++) {
        const float *of = imp ? imp + (k < n ? k : n - 1) * B32 : NULL;
        const int run = at(k * B32, B32);
        block_weights(j->w + run, j->x + run, of, B32, rule, row_mean2, B32);
    }
    tile_w(&j->t, j->w, B32);
}

LANE_FN void b32_write(const struct b32_job *j, const struct b32_state *b, int n,
                       struct enc_raw *o) {
    codes_at(&j->s->lv, &j->t, B32, b->d, b->m, o->l, (int)sizeof *o, n);
    for (int k = 0; k < n; k++) {
        struct enc_raw *e = &o[k]; /* set field by field: an initializer would mostly store zeros */
        e->n = e->sub = B32;
        e->lv = j->s->lv;
        e->d = lane_get(b->d, k);
        e->m = lane_get(b->m, k);
        e->m_sign = j->s->affine ? 1 : 0;
        e->sc_lo = e->sc_hi = 1;
        e->mn_hi = 0;
        e->sc[0] = e->mn[0] = 1;
    }
}

LANE_TABLE(struct b32_effort, b32_fast, [1]) = {{{0.9f, 1.2f, 8, 1, 2},
                                                 {0.96f, 1.003f, 4, 1, 0},
                                                 {{-0.9f, 0.3f, 7}, 2, true, 2, false, true},
                                                 false,
                                                 1}};
LANE_TABLE(struct b32_effort, b32_best, [1]) = {{{0.8f, 1.35f, 16, 3, 4},
                                                 {0.93f, 1.003f, 32, 1, 0},
                                                 {{-1.4f, 0.15f, 23}, 4, true, 3, false, true},
                                                 true,
                                                 3}};

/* Continues the search from the conventional state b, and keeps the conventional blocks in o that
 * are better. */
LANE_FN void b32_improve(struct b32_job *j, const struct enc_how *h, const struct lanes_mem *mem,
                         const float *imp, int n, struct b32_state *b, struct enc_raw *o) {
    b32_weights(j, imp, n, &h->rule, h->row_mean2);
    b->err = splat(INFINITY);
    if (h->search == SEARCH_FAST) {
        b32_search(j, b32_fast, b);
        b32_write(j, b, n, o);
        return;
    }
    b32_take(j, b->d, b->m, b);
    b32_polish(j, b32_best->polish, b);
    b32_search(j, b32_best, b);
    b32_write(j, b, n, mem->mine);
    for (int k = 0; k < n; k++) {
        const float *x = j->x + at(k * B32, B32), *w = j->w + at(k * B32, B32);
        if (open_error(&mem->mine[k], x, w) < open_error(&o[k], x, w))
            copy_open(&o[k], &mem->mine[k]);
    }
}

/* Encodes n <= 8 blocks; the last one also fills unused lanes. */
LANE_FN void b32_tile(const struct enc_how *h, const struct lanes_mem *mem, const float *x,
                      const float *imp, int n, struct enc_raw *o) {
    const struct enc_spec *s = h->s;
    struct b32_job j; /* filled on demand */
    bool some[LANES];
    j.s = s;
    j.x = mem->x;
    j.w = mem->w;
    for (int k = 0; k < LANES; k++)
        some[k] = load(j.x + at(k * B32, B32), x + (k < n ? k : n - 1) * B32, B32,
                       enc_spec_limit(s), B32);
    tile_x(&j.t, j.x, B32);
    struct b32_state b = {splat(0), splat(0), splat(INFINITY)};
    if (h->search != SEARCH_FAST) {
        b32_weights(&j, imp, n, &h->conv, h->row_mean2);
        b32_conventional(&j, imp != NULL, &b);
        b32_write(&j, &b, n, o);
    }
    if (h->search != SEARCH_CONVENTIONAL) b32_improve(&j, h, mem, imp, n, &b, o);
    lanes_sync();
    for (int k = 0; k < n; k++) {
        if (some[k]) continue;
        o[k].d = o[k].m = 0;
        memset(o[k].l, code_of_zero(&s->lv), B32);
    }
}

#endif
