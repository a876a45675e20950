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
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/super.h"
#include "quantize/feedback_kind.h"

enum { OCTET = 8, SUB_MAX = 32 };

struct grid_open {
    struct grid_block b;
    float v[QK]; /* values that the block decodes to */
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Returns the scale of sub-block k. */
static float scale_of(const struct grid_spec *s, const struct grid_block *b, int k) {
    return b->d * s->unit * (float)(2 * b->sc[k] + 1);
}
/* Returns the unsigned grid level of value i. */
static float level_of(const struct grid_how *h, const struct grid_block *b, int i) {
    return h->lev[i % h->s->per * GRID_MAX + b->index[i / h->s->per]];
}
/* Returns whether value i has a minus sign. */
static bool negative(const struct grid_block *b, int i) {
    return b->sign[i / 8] >> (i % 8) & 1;
}
/* Returns the decoded value i. */
static float value_of(const struct grid_how *h, const struct grid_block *b, int i) {
    const float v = scale_of(h->s, b, i / h->s->sub) * level_of(h, b, i);
    return negative(b, i) ? -v : v;
}

/* ---- one entry ------------------------------------------------------------------------------- */

/* Cost of an entry with levels L: the sum over i of L_i * (q_ii L_i + 2 * sum_{k<i} q_ki L_k - 2
 * p_i). */
struct form {
    float q[OCTET][OCTET]; /* only the diagonal and above are used */
    float p[OCTET];
};

/* Returns the entry of least cost among those that can replace `now`. */
static int best_entry(const struct grid_how *h, const struct form *f, int now) {
    const struct grid_spec *s = h->s;
    const int from = s->shift == SHIFT_SUB && now >= s->n ? s->n : 0;
    const int to = s->shift == SHIFT_SUB ? from + s->n : grid_n(s);
    return enc_lanes()->entry(h->lev, s->per, from, to, &f->q[0][0], f->p);
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
    const float scale = scale_of(s, &o->b, first / s->sub);
    const int64_t c = c0 + first, b0 = c / f->block * f->block,
                  stop = min_i64(min_i64(c0 + QK, b0 + f->block), f->n);
    struct form form;
    float b[OCTET];
    for (int i = 0; i < s->per; i++)
        b[i] = fb->s[c + i] * (negative(&o->b, first + i) ? -scale : scale);
    form_of_pass(fb, r, c, s->per, b, &form);
    o->b.index[first / s->per] = (uint16_t)best_entry(&fb->grid, &form, o->b.index[first / s->per]);
    for (int i = 0; i < s->per; i++) {
        const int64_t at = c + i;
        o->v[first + i] = value_of(&fb->grid, &o->b, first + i);
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

/* A trial change of a sub-block: its effect on u, and R times that. */
struct trial {
    float du[SUB_MAX], rdu[SUB_MAX];
};

/* Sets weight i of the sub-block at column c to v. */
static void set_value(const struct feedback *fb, const struct fb_row *r, struct trial *t, int64_t c,
                      int n, int i, float v) {
    const float du = fb->s[c + i] * (r->x[c + i] - v) - r->u[c + i];
    axpy(t->rdu, fb_corr(fb->f, c, i), du - t->du[i], n);
    t->du[i] = du;
}

/* Chooses the entry at column `first` of sub-block k again, in descent, given the changes in *t,
 * and adds its own change to *t. */
static void try_entry(const struct feedback *fb, const struct fb_row *r, struct grid_open *o,
                      struct trial *t, int64_t c0, int k, int first) {
    const struct grid_spec *s = fb->grid.s;
    const float scale = scale_of(s, &o->b, k);
    const int in_sub = first - k * s->sub;
    const int64_t c = c0 + first;
    float b[OCTET], u[OCTET], g[OCTET];
    struct form form;
    for (int i = 0; i < s->per; i++) {
        b[i] = fb->s[c + i] * (negative(&o->b, first + i) ? -scale : scale);
        u[i] = r->u[c + i] + t->du[in_sub + i];
        g[i] = r->g[c + i] + t->rdu[in_sub + i];
    }
    form_of_descent(fb, r, u, g, c, s->per, b, &form);
    const int best = best_entry(&fb->grid, &form, o->b.index[first / s->per]);
    if (best == o->b.index[first / s->per]) return;
    o->b.index[first / s->per] = (uint16_t)best;
    for (int i = 0; i < s->per; i++) {
        o->v[first + i] = value_of(&fb->grid, &o->b, first + i);
        set_value(fb, r, t, c0 + (int64_t)k * s->sub, s->sub, in_sub + i, o->v[first + i]);
    }
}

/* Flips the sign of an octet whose flip lowers the error most; with parity, a pair of signs. */
static void try_signs(const struct feedback *fb, const struct fb_row *r, struct grid_open *o,
                      struct trial *t, int64_t c0, int k, int first) {
    const struct grid_spec *s = fb->grid.s;
    const int64_t c = c0 + first;
    const int in_sub = first - k * s->sub;
    float du[OCTET], e[OCTET], best = 0;
    int turn[2] = {-1, -1};
    if (s->shift != SHIFT_NONE) return;
    for (int i = 0; i < OCTET; i++) {
        du[i] = 2 * fb->s[c + i] * o->v[first + i];
        e[i] = du[i] * (du[i] + 2 * (r->g[c + i] + t->rdu[in_sub + i]));
    }
    for (int i = 0; i < OCTET; i++) {
        if (!s->parity && e[i] < best) {
            best = e[i];
            turn[0] = i;
        }
        for (int j = i + 1; s->parity && j < OCTET; j++) {
            const float both = e[i] + e[j] + 2 * du[i] * du[j] * fb_corr(fb->f, c, i)[j];
            if (!(both < best)) continue;
            best = both;
            turn[0] = i;
            turn[1] = j;
        }
    }
    for (int n = 0; n < 2; n++) {
        const int i = first + turn[n];
        if (turn[n] < 0) continue;
        o->b.sign[i / 8] ^= (uint8_t)(1 << (i % 8));
        o->v[i] = -o->v[i];
        set_value(fb, r, t, c0 + (int64_t)k * s->sub, s->sub, i - k * s->sub, o->v[i]);
    }
}

/* Chooses the entries and signs of sub-block k again, at its integer scale in o. Returns the change
 * of the error. */
static double try_sub(const struct feedback *fb, const struct fb_row *r, struct grid_open *o,
                      int64_t c0, int k, struct trial *t) {
    const struct grid_spec *s = fb->grid.s;
    const int from = k * s->sub;
    const int64_t c = c0 + from;
    for (int i = 0; i < s->sub; i++) {
        o->v[from + i] = value_of(&fb->grid, &o->b, from + i);
        t->du[i] = fb->s[c + i] * (r->x[c + i] - o->v[from + i]) - r->u[c + i];
    }
    fb_times_r(fb->f, t->rdu, t->du, c, s->sub);
    for (int i = 0; i < s->sub; i += OCTET) {
        for (int e = 0; e < OCTET; e += s->per) try_entry(fb, r, o, t, c0, k, from + i + e);
        try_signs(fb, r, o, t, c0, k, from + i);
    }
    return fb_change(r, t->du, t->rdu, c, s->sub);
}

/* Sets up move m of sub-block k: 0 no change, 1 and 2 a neighboring integer, 3 the other shift.
 * Returns false if there is no such move. */
static bool move_sub(const struct grid_spec *s, struct grid_open *o, int k, int m) {
    const int sc = o->b.sc[k] + (m == 1) - (m == 2);
    if (sc < 0 || sc > s->sc_max || (m == 3 && s->shift != SHIFT_SUB)) return false;
    o->b.sc[k] = (uint8_t)sc;
    for (int i = k * s->sub / s->per; m == 3 && i < (k + 1) * s->sub / s->per; i++)
        o->b.index[i] =
            (uint16_t)(o->b.index[i] < s->n ? o->b.index[i] + s->n : o->b.index[i] - s->n);
    return true;
}

/* Tries other scales for each sub-block and accepts those that lower the error. */
static void descend_subs(const struct feedback *fb, struct fb_row *r, struct grid_open *o,
                         int64_t c0, int moves) {
    const struct grid_spec *s = fb->grid.s;
    for (int k = 0; k < QK / s->sub; k++) {
        struct grid_open best = *o, now;
        struct trial best_t, t;
        double best_e = 0;
        for (int m = 0; m < moves; m++) {
            now = *o;
            if (!move_sub(s, &now, k, m)) continue;
            const double e = try_sub(fb, r, &now, c0, k, &t);
            if (!(e < best_e)) continue;
            best_e = e;
            best = now;
            best_t = t;
        }
        if (!(best_e < 0)) continue;
        fb_accept(fb->f, r, best_t.du, c0 + (int64_t)k * s->sub, s->sub);
        *o = best;
    }
}

/* Fits d to the current entries and integers by least squares. */
static void refit(const struct feedback *fb, struct fb_row *r, struct grid_open *o, int64_t c0) {
    float a[QK], ra[QK];
    double aa = 0, ag = 0;
    for (int i = 0; i < QK; i++) a[i] = fb->s[c0 + i] * o->v[i];
    fb_times_r(fb->f, ra, a, c0, QK);
    for (int i = 0; i < QK; i++) {
        aa += (double)a[i] * (double)ra[i];
        ag += (double)a[i] * (double)r->g[c0 + i];
    }
    if (!(aa > 0)) return;
    struct grid_open t = *o;
    t.b.d = enc_f16((float)((double)o->b.d * (1 + ag / aa)));
    if (!(t.b.d > 0) || t.b.d == o->b.d) return;
    for (int i = 0; i < QK; i++) {
        t.v[i] = value_of(&fb->grid, &t.b, i);
        a[i] = fb->s[c0 + i] * (r->x[c0 + i] - t.v[i]) - r->u[c0 + i];
    }
    fb_times_r(fb->f, ra, a, c0, QK);
    if (!(fb_change(r, a, ra, c0, QK) < 0)) return;
    fb_accept(fb->f, r, a, c0, QK);
    *o = t;
}

/* Changes scales and entries of the block where that lowers the row's error. */
static void descend_row(const struct feedback *fb, struct fb_row *r, struct grid_open *o,
                        int64_t c0) {
    if (o->b.d == 0) return;
    if (fb->steps & (FEEDBACK_CODES | FEEDBACK_INTS))
        descend_subs(fb, r, o, c0, fb->steps & FEEDBACK_INTS ? 4 : 1);
    if (fb->steps & FEEDBACK_SCALES) refit(fb, r, o, c0);
}

/* Improves one finished block of each row, starting at column c0. */
static void descend(const struct feedback *fb, struct fb_row *row, int rows, void *blocks,
                    int64_t c0) {
    for (int k = 0; k < rows; k++) descend_row(fb, &row[k], (struct grid_open *)blocks + k, c0);
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
#define ROW(T) {QT_##T, enc_pack_##T},
    static const struct {
        enum qtype type;
        void (*pack)(void *, const struct grid_block *);
    } row[] = {ENC_GRID_TYPES(ROW)};
#undef ROW
    for (size_t i = 0; i < COUNT_OF(row); i++)
        if (row[i].type == fb->type) row[i].pack(dst, &((const struct grid_open *)block)->b);
}

const struct fb_kind fb_kind_grid = {sizeof(struct grid_open), pass, descend, rescale, close_block};
