// SPDX-License-Identifier: MIT
/* quantize/feedback_grid.c - error feedback for blocks of grid types.
 *
 * Weights share grid entries: vectors of 4 or 8 levels. Each vector is chosen by the full quadratic
 * form of its columns, not column by column. With the scale c of a sub-block and the signs t_i
 * fixed, the scaled error of column i is u_i = s_i x_i - b_i L_i, b_i = c s_i t_i. Both passes
 * minimize a quadratic function L Q L^T - 2 p L^T of an entry's levels L, so they share one search:
 * - The feedback pass costs sum_j diag_j (acc_j + u_j + sum_{i<j} u_i M_ij)^2 over the columns of
 * the entry.
 * - Descent costs u R u^T, with all other columns fixed.
 * Then signs change one at a time, or in pairs if the type requires an even number of them, and
 * d is refitted. */
#include "quantize/enc/super.h"
#include "quantize/enc/unpack.h"
#include "quantize/feedback_kind.h"

enum { OCTET = 8, SUB_MAX = 32 };

struct grid_open {
    struct grid_block b;
    float v[QK]; /* values that the block decodes to */
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Returns whether value i has a minus sign. */
static bool negative(const uint8_t *sign, int i) {
    return sign[i / OCTET] >> (i % OCTET) & 1;
}
/* Returns the decoded value i of a block or sub-block with these entries and signs. */
static float value_of(const struct grid_how *h, const uint16_t *index, const uint8_t *sign, int i,
                      float scale) {
    const int per = h->s->per;
    const float v = scale * h->lev[i % per * GRID_MAX + index[i / per]];
    return negative(sign, i) ? -v : v;
}

/* ---- one entry ------------------------------------------------------------------------------- */

/* Cost of an entry with levels L: the sum over i of L_i * (q_ii L_i + 2 * sum_{k<i} q_ki L_k - 2
 * p_i). */
struct form {
    float q[OCTET][OCTET]; /* only the diagonal and above are used */
    float p[OCTET];
};

/* Returns the entry of least cost among those around `now`. */
static uint16_t entry_around(const struct feedback *fb, const struct form *f, int now) {
    const int per = fb->grid.s->per;
    const int8_t *lev = fb->around->lev + (int64_t)now * per * GRID_AROUND;
    return fb->around->entry[now][enc_lanes()->around(lev, per, &f->q[0][0], f->p)];
}

/* Computes the feedback pass's cost for the entry at columns [c, c + n). b holds their b_i (see
 * the file head). */
static void form_of_pass(const struct feedback *fb, const struct fb_row *r, int64_t c, int n,
                         const float *b, struct form *o) {
    const struct factor *f = fb->f;
    const int64_t b0 = c / f->block * f->block;
    float m[OCTET][OCTET], a[OCTET];
    for (int i = 0; i < n; i++) {
        for (int j = i; j < n; j++) m[i][j] = j == i ? 1 : f->m[(c + i) * f->block + (c + j - b0)];
        a[i] = r->acc[c + i];
        for (int k = 0; k <= i; k++) a[i] += m[k][i] * fb->s[c + k] * r->x[c + k];
    }
    for (int i = 0; i < n; i++) {
        float p = 0;
        for (int j = i; j < n; j++) p += f->diag[c + j] * m[i][j] * a[j];
        o->p[i] = 2 * b[i] * p;
        for (int k = 0; k <= i; k++) {
            float q = 0;
            for (int j = i; j < n; j++) q += f->diag[c + j] * m[i][j] * m[k][j];
            o->q[k][i] = (k == i ? 1.0f : 2.0f) * b[i] * b[k] * q;
        }
    }
}

/* Computes the cost of descent for the same entry; u and g belong to its n columns. */
static void form_of_descent(const struct feedback *fb, const struct fb_row *r, const float *u,
                            const float *g, int64_t c, int n, const float *b, struct form *o) {
    for (int i = 0; i < n; i++) {
        float p = g[i];
        for (int j = 0; j < n; j++) {
            const float rij = fb_corr(fb->f, c, i)[j];
            p += rij * (fb->s[c + j] * r->x[c + j] - u[j]);
            if (j <= i) o->q[j][i] = (j == i ? 1.0f : 2.0f) * b[i] * b[j] * rij;
        }
        o->p[i] = 2 * b[i] * p;
    }
}

/* ---- the feedback pass ----------------------------------------------------------------------- */

/* Returns the signs of the targets t[8]. If the number of negative ones must be even but is odd,
 * flips the sign of the weight that matters least. */
static uint8_t signs_of(const struct grid_spec *s, const float *t, const float *w) {
    unsigned sign = 0;
    int least = 0;
    if (s->shift != SHIFT_NONE) return 0;
    for (int i = 0; i < OCTET; i++) {
        sign |= (unsigned)(t[i] < 0) << i;
        if (w[i] * fabsf(t[i]) < w[least] * fabsf(t[least])) least = i;
    }
    if (s->parity && odd_bits(sign)) sign ^= 1u << least;
    return (uint8_t)sign;
}

/* Chooses the grid entry of the values starting at `first` and passes their errors to later
 * columns. */
static void pass_entry(const struct feedback *fb, struct fb_row *r, struct grid_open *o, int64_t c0,
                       int first) {
    const struct factor *f = fb->f;
    const struct grid_spec *s = fb->grid.s;
    const float scale = o->b.d * s->unit * (float)(2 * o->b.sc[first / s->sub] + 1);
    const int64_t c = c0 + first, b0 = c / f->block * f->block,
                  stop = min_i64(min_i64(c0 + QK, b0 + f->block), f->n);
    struct form form;
    float b[OCTET];
    for (int i = 0; i < s->per; i++)
        b[i] = fb->s[c + i] * (negative(o->b.sign, first + i) ? -scale : scale);
    form_of_pass(fb, r, c, s->per, b, &form);
    uint16_t *entry = &o->b.index[first / s->per];
    *entry = entry_around(fb, &form, *entry);
    for (int i = 0; i < s->per; i++) {
        const int64_t at = c + i;
        o->v[first + i] = value_of(&fb->grid, o->b.index, o->b.sign, first + i, scale);
        r->u[at] = fb->s[at] * (r->x[at] - o->v[first + i]);
        axpy(r->acc + at + 1, f->m + at * f->block + (at + 1 - b0), r->u[at], stop - at - 1);
    }
}

/* Encodes columns [c0, c0 + n) of one row, one grid entry at a time. */
static void pass_row(const struct feedback *fb, struct fb_row *r, struct grid_open *o, int64_t c0,
                     int n) {
    const struct grid_spec *s = fb->grid.s;
    float y[QK], w[QK];
    for (int i = 0; i < n; i++) {
        y[i] = fb_target(r->x[c0 + i], r->acc[c0 + i], fb->s[c0 + i]);
        w[i] = fb->imp[c0 + i] * fb->f->diag[c0 + i];
    }
    enc_lanes()->grid(&fb->grid, y, w, &o->b);
    for (int i = 0; i < n; i += OCTET) {
        float t[OCTET];
        for (int k = 0; k < OCTET; k++)
            t[k] = fb_target(r->x[c0 + i + k], r->acc[c0 + i + k], fb->s[c0 + i + k]);
        o->b.sign[i / OCTET] = signs_of(s, t, w + i);
        for (int k = 0; k < OCTET; k += s->per) pass_entry(fb, r, o, c0, i + k);
    }
}

/* Encodes one block of n columns, starting at c0, of each row, correcting for earlier columns. */
static void pass(const struct feedback *fb, struct fb_row *row, int rows, void *blocks, int64_t c0,
                 int n) {
    for (int k = 0; k < rows; k++) pass_row(fb, &row[k], (struct grid_open *)blocks + k, c0, n);
}

/* ---- descent --------------------------------------------------------------------------------- */

/* A sub-block in a trial. */
struct trial {
    int sc;
    uint16_t index[SUB_MAX / 4];
    uint8_t sign[SUB_MAX / OCTET];
    float v[SUB_MAX];                /* values that it decodes to */
    float du[SUB_MAX], rdu[SUB_MAX]; /* change of u, and R times that */
};

/* Sets weight i of the sub-block at column c to v. */
static void set_value(const struct feedback *fb, const struct fb_row *r, struct trial *t, int64_t c,
                      int i, float v) {
    const float du = fb->s[c + i] * (r->x[c + i] - v) - r->u[c + i];
    axpy(t->rdu, fb_corr(fb->f, c, i), du - t->du[i], fb->grid.s->sub);
    t->v[i] = v;
    t->du[i] = du;
}

/* Chooses the entry at weight `first` of the sub-block at column c again, given the trial's other
 * changes. */
static void try_entry(const struct feedback *fb, const struct fb_row *r, struct trial *t, int64_t c,
                      float scale, int first) {
    const int per = fb->grid.s->per;
    float b[OCTET], u[OCTET], g[OCTET];
    struct form form;
    for (int i = 0; i < per; i++) {
        const int at = first + i;
        b[i] = fb->s[c + at] * (negative(t->sign, at) ? -scale : scale);
        u[i] = r->u[c + at] + t->du[at];
        g[i] = r->g[c + at] + t->rdu[at];
    }
    form_of_descent(fb, r, u, g, c + first, per, b, &form);
    const uint16_t best = entry_around(fb, &form, t->index[first / per]);
    if (best == t->index[first / per]) return;
    t->index[first / per] = best;
    for (int i = first; i < first + per; i++)
        set_value(fb, r, t, c, i, value_of(&fb->grid, t->index, t->sign, i, scale));
}

/* Flips the sign of an octet whose flip lowers the error most; with parity, a pair of signs. */
static void try_signs(const struct feedback *fb, const struct fb_row *r, struct trial *t, int64_t c,
                      int first) {
    const struct grid_spec *s = fb->grid.s;
    float du[OCTET], e[OCTET], best = 0;
    int turn[2] = {-1, -1};
    if (s->shift != SHIFT_NONE) return;
    for (int i = 0; i < OCTET; i++) {
        const int at = first + i;
        du[i] = 2 * fb->s[c + at] * t->v[at];
        e[i] = du[i] * (du[i] + 2 * (r->g[c + at] + t->rdu[at]));
    }
    for (int i = 0; i < OCTET; i++) {
        if (!s->parity && e[i] < best) {
            best = e[i];
            turn[0] = i;
        }
        for (int j = i + 1; s->parity && j < OCTET; j++) {
            const float both = e[i] + e[j] + 2 * du[i] * du[j] * fb_corr(fb->f, c + first, i)[j];
            if (!(both < best)) continue;
            best = both;
            turn[0] = i;
            turn[1] = j;
        }
    }
    for (int n = 0; n < 2; n++) {
        const int i = first + turn[n];
        if (turn[n] < 0) continue;
        t->sign[i / OCTET] ^= (uint8_t)(1 << (i % OCTET));
        set_value(fb, r, t, c, i, -t->v[i]);
    }
}

/* Chooses the entries and signs of a trial at its scale, starting from those it has. t->rdu is R
 * times the change so far. Returns the change of the error. */
static double try_sub(const struct feedback *fb, const struct fb_row *r, struct trial *t, int64_t c,
                      float scale) {
    const struct grid_spec *s = fb->grid.s;
    for (int i = 0; i < s->sub; i += OCTET) {
        for (int e = 0; e < OCTET; e += s->per) try_entry(fb, r, t, c, scale, i + e);
        try_signs(fb, r, t, c, i);
    }
    return fb_change(r, t->du, t->rdu, c, s->sub);
}

/* Sets up move m of a sub-block: 0 no change, 1 and 2 a neighboring integer, 3 the other shift.
 * Returns false if there is no such move. */
static bool move_sub(const struct grid_spec *s, struct trial *t, int m) {
    t->sc += (m == 1) - (m == 2);
    if (t->sc < 0 || t->sc > s->sc_max || (m == 3 && s->shift != SHIFT_SUB)) return false;
    for (int i = 0; m == 3 && i < s->sub / s->per; i++)
        t->index[i] = (uint16_t)(t->index[i] < s->n ? t->index[i] + s->n : t->index[i] - s->n);
    return true;
}

/* Copies sub-block k of a block to a trial, and back. */
static void open_sub(const struct grid_spec *s, const struct grid_open *o, int k, struct trial *t) {
    const int from = k * s->sub;
    t->sc = o->b.sc[k];
    memcpy(t->index, o->b.index + from / s->per, (size_t)(s->sub / s->per) * sizeof *t->index);
    memcpy(t->sign, o->b.sign + from / OCTET, (size_t)(s->sub / OCTET));
    memcpy(t->v, o->v + from, (size_t)s->sub * sizeof *t->v);
}
static void close_sub(const struct grid_spec *s, struct grid_open *o, int k,
                      const struct trial *t) {
    const int from = k * s->sub;
    o->b.sc[k] = (uint8_t)t->sc;
    memcpy(o->b.index + from / s->per, t->index, (size_t)(s->sub / s->per) * sizeof *t->index);
    memcpy(o->b.sign + from / OCTET, t->sign, (size_t)(s->sub / OCTET));
    memcpy(o->v + from, t->v, (size_t)s->sub * sizeof *t->v);
}

/* Sets the values of a trial after a move, and the change of u. If only the scale differs from that
 * of `now`, R times the change is a multiple of R times its values, rv. */
static void open_trial(const struct feedback *fb, const struct fb_row *r, struct trial *t,
                       const struct trial *now, const float *rv, int64_t c, float scale,
                       bool turned) {
    const int sub = fb->grid.s->sub;
    const float less = (float)(2 * (now->sc - t->sc)) / (float)(2 * now->sc + 1);
    for (int i = 0; i < sub; i++) {
        t->v[i] = value_of(&fb->grid, t->index, t->sign, i, scale);
        t->du[i] = fb->s[c + i] * (r->x[c + i] - t->v[i]) - r->u[c + i];
        t->rdu[i] = less * rv[i];
    }
    if (turned) fb_times_r(fb->f, t->rdu, t->du, c, sub);
}

/* Tries other scales for each sub-block and accepts those that lower the error. */
static void descend_subs(const struct feedback *fb, struct fb_row *r, struct grid_open *o,
                         int64_t c0, int moves) {
    const struct grid_spec *s = fb->grid.s;
    for (int k = 0; k < QK / s->sub; k++) {
        const int64_t c = c0 + (int64_t)k * s->sub;
        struct trial now, best, t;
        float sv[SUB_MAX], rv[SUB_MAX];
        double best_e = 0;
        open_sub(s, o, k, &now);
        for (int i = 0; i < s->sub; i++) sv[i] = fb->s[c + i] * now.v[i];
        fb_times_r(fb->f, rv, sv, c, s->sub);
        for (int m = 0; m < moves; m++) {
            t = now;
            if (!move_sub(s, &t, m)) continue;
            const float scale = o->b.d * s->unit * (float)(2 * t.sc + 1);
            open_trial(fb, r, &t, &now, rv, c, scale, m == 3);
            const double e = try_sub(fb, r, &t, c, scale);
            if (!(e < best_e)) continue;
            best_e = e;
            best = t;
        }
        if (!(best_e < 0)) continue;
        fb_accept(fb->f, r, best.du, c, s->sub, c0);
        close_sub(s, o, k, &best);
    }
}

/* Fits d of the blocks of up to FB_REFIT rows to the current entries and integers by least squares,
 * and keeps the result where it lowers the error. */
static void refit(const struct feedback *fb, struct fb_row *row, int rows, struct grid_open *o,
                  int64_t c0) {
    const struct enc_lanes *lanes = enc_lanes();
    float a[FB_REFIT][QK], ra[FB_REFIT][QK];
    for (int k = 0; k < rows; k++)
        for (int i = 0; i < QK; i++) a[k][i] = fb->s[c0 + i] * o[k].v[i];
    fb_times_rows(fb->f, ra, a, rows, c0, QK);
    for (int k = 0; k < rows; k++) {
        struct fb_row *r = &row[k];
        float *du = a[k], *rdu = ra[k];
        const double aa = lanes->dot(a[k], ra[k], QK), ag = lanes->dot(a[k], r->g + c0, QK);
        if (o[k].b.d == 0 || !(aa > 0)) continue;
        const float d = enc_f16((float)((double)o[k].b.d * (1 + ag / aa)));
        const float by = d / o[k].b.d, less = 1 - by;
        if (!(d > 0) || d == o[k].b.d) continue;
        for (int i = 0; i < QK; i++) {
            du[i] = fb->s[c0 + i] * (r->x[c0 + i] - by * o[k].v[i]) - r->u[c0 + i];
            rdu[i] *= less;
        }
        if (!(fb_change(r, du, rdu, c0, QK) < 0)) continue;
        fb_accept(fb->f, r, du, c0, QK, c0);
        o[k].b.d = d;
        for (int i = 0; i < QK; i++) o[k].v[i] *= by;
    }
}

/* Changes scales and entries of one block of each row, starting at column c0, where that lowers the
 * row's error. */
static void descend(const struct feedback *fb, struct fb_row *row, int rows, void *blocks,
                    int64_t c0) {
    struct grid_open *o = blocks;
    if (fb->steps & (FEEDBACK_CODES | FEEDBACK_INTS))
        for (int k = 0; k < rows; k++)
            if (o[k].b.d != 0)
                descend_subs(fb, &row[k], &o[k], c0, fb->steps & FEEDBACK_INTS ? 4 : 1);
    for (int k = 0; k < rows && fb->steps & FEEDBACK_SCALES; k += FB_REFIT)
        refit(fb, row + k, (int)min_i64(rows - k, FB_REFIT), o + k, c0);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Multiplies the block's scale by gain. */
static void rescale(void *block, double gain) {
    struct grid_block *b = &((struct grid_open *)block)->b;
    const float d = enc_f16((float)((double)b->d * gain));
    if (d != 0) b->d = d;
}

/* Packs the block into its type's format. */
static void close_block(const struct feedback *fb, const void *block, void *dst) {
    enc_pack_grid(fb->type, &((const struct grid_open *)block)->b, dst);
}

const struct fb_kind fb_kind_grid = {sizeof(struct grid_open), pass, descend, rescale, close_block};
