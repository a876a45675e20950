// SPDX-License-Identifier: MIT
/* quantize/feedback_open.c - error feedback for blocks with one code per weight (enc/raw.h). */
#include "quantize/enc/super.h"
#include "quantize/feedback_kind.h"

enum { TILE = 8, REFIT = 16 }; /* rows searched together; rows fitted together */

/* Chooses the codes of one row's block, whose scales have been fitted to the targets y. */
static void choose_codes(const struct feedback *fb, struct fb_row *r, struct enc_raw *o,
                         const float *y, int64_t c0, int n) {
    const struct factor *f = fb->f;
    for (int i = 0; i < n; i++) {
        int64_t c = c0 + i, b0 = c / f->block * f->block;
        int64_t stop = min_i64(c0 + n, min_i64(f->n, b0 + f->block));
        float t = fb_target(r->x[c], r->acc[c], fb->s[c]);
        if (t != y[i]) o->l[i] = enc_raw_nearest(o, i / o->sub, i, t);
        r->u[c] = fb->s[c] * (r->x[c] - enc_raw_value(o, i));
        axpy(r->acc + c + 1, f->m + c * f->block + (c + 1 - b0), r->u[c], stop - c - 1);
    }
}

/* Searches eight rows together, so that blocks of 32 fill all lanes. */
static void pass(const struct feedback *fb, struct fb_row *row, int rows, void *blocks, int64_t c0,
                 int n) {
    struct enc_raw *o = blocks;
    float y[TILE * QK], d[TILE * QK];
    for (int k = 0; k < (int)min_i64(rows, TILE); k++)
        for (int i = 0; i < n; i++) d[k * n + i] = fb->imp[c0 + i] * fb->f->diag[c0 + i];
    for (int at = 0; at < rows; at += TILE) {
        const int m = (int)min_i64(rows - at, TILE);
        for (int k = 0; k < m; k++)
            for (int i = 0; i < n; i++) {
                const struct fb_row *r = &row[at + k];
                y[k * n + i] = fb_target(r->x[c0 + i], r->acc[c0 + i], fb->s[c0 + i]);
            }
        enc_raw_blocks(fb->enc->blocks, y, d, m, fb->search, 0, o + at);
        for (int k = 0; k < m; k++) choose_codes(fb, &row[at + k], &o[at + k], y + k * n, c0, n);
    }
}

/* Changes single codes of a block as long as that lowers the row's error. */
static void descend_codes(const struct feedback *fb, struct fb_row *r, struct enc_raw *o,
                          int64_t c0) {
    for (int i = 0; i < o->n; i++) {
        int64_t c = c0 + i;
        float want = r->x[c] - (r->u[c] - r->g[c]) / fb->s[c];
        if (!(fabsf(want) < 1e30f)) continue;
        int8_t old = o->l[i];
        o->l[i] = enc_raw_nearest(o, i / o->sub, i, want);
        if (o->l[i] == old) continue;
        float u = fb->s[c] * (r->x[c] - enc_raw_value(o, i)), du = u - r->u[c];
        if (!(du * (du + 2 * r->g[c]) < 0)) {
            o->l[i] = old;
            continue;
        }
        r->u[c] = u;
        fb_moved(fb->f, r, c, du);
    }
}

/* Computes out = R v over a block for up to REFIT rows. */
static void times_block(const struct factor *f, float (*out)[QK], float (*v)[QK], int rows,
                        int64_t c0, int n) {
    const struct enc_product o = {.c = out[0],
                                  .a = v[0],
                                  .b = fb_corr(f, c0, 0),
                                  .ldc = QK,
                                  .lda = QK,
                                  .ldb = f->block,
                                  .m = rows,
                                  .k = n,
                                  .n = n};
    memset(out, 0, (size_t)rows * sizeof *out);
    enc_lanes()->product(&o);
}

/* Sets d and m of *t to those with the least error for o's codes and integers. ra and rb are R
 * times the change of u per unit of d and per unit of m. Returns whether t differs from o. */
static bool fit_scales(const struct fb_row *r, const struct enc_raw *o, const float *a,
                       const float *ra, const float *b, const float *rb, int64_t c0,
                       struct enc_raw *t) {
    double aa = 0, ab = 0, bb = 0, ag = 0, bg = 0;
    for (int i = 0; i < o->n; i++) {
        aa += (double)a[i] * (double)ra[i];
        ab += (double)b[i] * (double)ra[i];
        bb += (double)b[i] * (double)rb[i];
        ag += (double)a[i] * (double)r->g[c0 + i];
        bg += (double)b[i] * (double)r->g[c0 + i];
    }
    double det = aa * bb - ab * ab, dd = 0, dm = 0;
    if (aa > 0 && bb > 0 && det > 1e-9 * aa * bb) {
        dd = (ag * bb - bg * ab) / det;
        dm = (bg * aa - ag * ab) / det;
    } else if (aa > 0) {
        dd = ag / aa;
    }
    *t = *o;
    t->d = enc_f16((float)((double)o->d + dd));
    t->m = enc_f16((float)((double)o->m + dm));
    return t->d != 0 && (t->d != o->d || t->m != o->m);
}

/* Fits (d, m) of the blocks of up to REFIT rows to the current codes and integers by least squares,
 * and keeps the result where it lowers the error. */
static void refit(const struct feedback *fb, struct fb_row *row, int rows, struct enc_raw *o,
                  int64_t c0) {
    const int n = o->n;
    float a[REFIT][QK], ra[REFIT][QK], b[REFIT][QK], rb[REFIT][QK];
    struct enc_raw t[REFIT];
    int at[REFIT], n_new = 0;
    for (int k = 0; k < rows; k++)
        for (int i = 0; i < n; i++) {
            const int sub = i / o[k].sub;
            a[k][i] = fb->s[c0 + i] * (float)o[k].sc[sub] * (float)o[k].l[i];
            b[k][i] = fb->s[c0 + i] * o[k].m_sign * (float)o[k].mn[sub];
        }
    times_block(fb->f, ra, a, rows, c0, n);
    if (o->m_sign != 0)
        times_block(fb->f, rb, b, rows, c0, n);
    else
        memset(rb, 0, sizeof rb);
    for (int k = 0; k < rows; k++)
        if (fit_scales(&row[k], &o[k], a[k], ra[k], b[k], rb[k], c0, &t[n_new])) at[n_new++] = k;
    for (int k = 0; k < n_new; k++) {
        const struct fb_row *r = &row[at[k]];
        for (int i = 0; i < n; i++) /* now the change of u */
            a[k][i] = fb->s[c0 + i] * (r->x[c0 + i] - enc_raw_value(&t[k], i)) - r->u[c0 + i];
    }
    if (n_new) times_block(fb->f, ra, a, n_new, c0, n);
    for (int k = 0; k < n_new; k++) {
        struct fb_row *r = &row[at[k]];
        if (!(fb_change(r, a[k], ra[k], c0, n) < 0)) continue;
        fb_accept(fb->f, r, a[k], c0, n);
        o[at[k]] = t[k];
    }
}

/* ---- integers -------------------------------------------------------------------------------- */

enum { TRIALS = 8 };
static const int8_t move[TRIALS][2] = {{1, 0}, {-1, 0},  {0, 1},  {0, -1},
                                       {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};

/* Applies move m to sub-block k of *o. Returns false if the result is outside the type's range. */
static bool make_move(struct enc_raw *o, int k, int m) {
    const int sc = o->sc[k] + move[m][0], mn = o->mn[k] + move[m][1];
    if (sc < o->sc_lo || sc > o->sc_hi || mn < 0 || (o->mn_hi && mn > o->mn_hi)) return false;
    o->sc[k] = (int16_t)sc;
    o->mn[k] = (int16_t)mn;
    return true;
}

/* Applies the move that lowers the error of a row's sub-block k most, given the trials from lane
 * `first` on. */
static void take_best(const struct feedback *fb, struct fb_row *r, struct enc_raw *o, int k,
                      int64_t c0, struct enc_ints *trial, int first, int n_moves) {
    const size_t sub = (size_t)o->sub;
    const int8_t *codes = o->l + k * o->sub, *best_codes = NULL;
    float du[ENC_SUB];
    double best_e = 0;
    int best = -1;
    for (int m = 0; m < n_moves; m++) {
        struct enc_raw t = {.sc_lo = o->sc_lo, .sc_hi = o->sc_hi, .mn_hi = o->mn_hi};
        t.sc[k] = o->sc[k];
        t.mn[k] = o->mn[k];
        if (!make_move(&t, k, m)) continue;
        /* If the step is 0, any codes will do: keep those of the previous trial. */
        if (trial->step[first + m] != 0) codes = trial->l[first + m];
        if (!(trial->e[first + m] < best_e)) continue;
        best_e = trial->e[first + m];
        best = m;
        best_codes = codes;
    }
    if (best < 0) return;
    for (size_t i = 0; i < sub; i++) du[i] = trial->du[i][first + best];
    fb_accept(fb->f, r, du, c0 + (int64_t)k * o->sub, o->sub);
    memmove(o->l + k * o->sub, best_codes, sub);
    make_move(o, k, best);
}

/* Tries neighbors of the integers of each sub-block: eight trials at once, of one row if it has
 * minima, else of four rows. */
static void descend_ints(const struct feedback *fb, struct fb_row *row, int rows, struct enc_raw *o,
                         int64_t c0) {
    const int n_moves = o->mn_hi ? 8 : 2, together = TRIALS / n_moves, sub = o->sub;
    if (o->sc_lo == o->sc_hi) return;
    for (int r0 = 0; r0 < rows; r0 += together)
        for (int k = 0; k < o->n / sub; k++) {
            const int64_t c = c0 + (int64_t)k * sub;
            struct enc_ints trial = {.sub = sub,
                                     .lv = o->lv,
                                     .s = fb->s + c,
                                     .r = fb_corr(fb->f, c, 0),
                                     .ldr = fb->f->block};
            for (int lane = 0; lane < TRIALS; lane++) {
                const int at = (int)min_i64(r0 + lane / n_moves, rows - 1);
                struct enc_raw *b = &o[at];
                const int16_t sc = b->sc[k], mn = b->mn[k];
                trial.x[lane] = row[at].x + c;
                trial.u[lane] = row[at].u + c;
                trial.g[lane] = row[at].g + c;
                make_move(b, k, lane % n_moves);
                trial.step[lane] = enc_raw_step(b, k);
                trial.base[lane] = enc_raw_base(b, k);
                b->sc[k] = sc;
                b->mn[k] = mn;
            }
            enc_lanes()->ints(&trial);
            for (int i = 0; i < together && r0 + i < rows; i++)
                if (o[r0 + i].d != 0)
                    take_best(fb, &row[r0 + i], &o[r0 + i], k, c0, &trial, i * n_moves, n_moves);
        }
}

/* Changes integers, scales and codes of the rows' blocks where that lowers their errors. */
static void descend(const struct feedback *fb, struct fb_row *row, int rows, void *blocks,
                    int64_t c0) {
    struct enc_raw *o = blocks;
    if (fb->steps & FEEDBACK_INTS) descend_ints(fb, row, rows, o, c0);
    for (int k = 0; k < rows && fb->steps & FEEDBACK_SCALES; k += REFIT)
        refit(fb, row + k, (int)min_i64(rows - k, REFIT), o + k, c0);
    for (int k = 0; k < rows && fb->steps & FEEDBACK_CODES; k++)
        descend_codes(fb, &row[k], &o[k], c0);
}
static void rescale(void *block, double gain) {
    enc_rescale_block(block, gain);
}
/* Packs the finished block into dst in its type's format. */
static void close_block(const struct feedback *fb, const void *block, void *dst) {
    fb->enc->blocks->pack(block, dst);
}

const struct fb_kind fb_kind_open = {sizeof(struct enc_raw), pass, descend, rescale, close_block};
