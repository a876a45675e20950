// SPDX-License-Identifier: MIT
/* quantize/feedback.c - error feedback in the form of LDLQ, then descent on what it left.
 *
 * Units: u_i = s_i * (x_i - x^_i), so that the error of a row is u R u^T (factor.h). Columns go in
 * order, block by block: targets are x_j + acc_j / s_j with acc = sum_{i<j} u_i M_ij; the encoder
 * settles the block's scales on the targets, weighted by the conditional moments s_j^2 diag_j; then
 * each code is rounded with the feedback of all before it. Columns behind the block get their sums
 * at its end. Afterwards, with g = R u kept current: integer sub-scales, (d, m) and single codes
 * change where the error falls. f32, fixed order, no reductions that a compiler may reorder: same
 * bytes everywhere. Rows are independent. */
#include "quantize/feedback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "quantize/enc/super.h"

struct row { /* one row on its way */
    const float *x;
    float *u, *acc, *g; /* [n] */
    struct enc_open *o; /* blocks of the row */
};
struct feedback_work {
    struct row row[FEEDBACK_ROWS];
    float *mem;
    struct enc_open *open;
};

int feedback_work_new(struct feedback_work **out, int64_t n, struct err *e) {
    struct feedback_work *w = xcalloc(1, sizeof *w);
    int64_t per_row = div_up(n, 32);
    void *p = NULL, *q = NULL;
    int rc = buf_alloc(&p, (uint64_t)(3 * n * FEEDBACK_ROWS) * sizeof(float), "feedback", e);
    if (rc == 0)
        rc = buf_alloc(&q, (uint64_t)(per_row * FEEDBACK_ROWS) * sizeof *w->open, "feedback", e);
    w->mem = p;
    w->open = q;
    if (rc) {
        feedback_work_free(w);
        return rc;
    }
    for (int r = 0; r < FEEDBACK_ROWS; r++) {
        w->row[r].u = w->mem + 3 * n * r;
        w->row[r].acc = w->row[r].u + n;
        w->row[r].g = w->row[r].acc + n;
        w->row[r].o = w->open + per_row * r;
    }
    *out = w;
    return 0;
}
void feedback_work_free(struct feedback_work *w) {
    if (!w) return;
    buf_free(w->mem);
    buf_free(w->open);
    free(w);
}

void feedback_weights(float *w, float *s, const float *imp, int64_t n, double lambda) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)(imp[i] > 0 ? imp[i] : 0);
    double add = lambda * sum / (double)n, floor = sum > 0 ? sum / (double)n * 0x1p-30 : 1;
    if (floor < 0x1p-60) floor = 0x1p-60;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)(imp[i] > 0 ? imp[i] : 0) + add;
        w[i] = (float)(v < floor ? floor : v > 0x1p60 ? 0x1p60 : v);
        s[i] = sqrtf(w[i]);
    }
}

typedef float v4f __attribute__((vector_size(16)));

/* y += a * x: elements are independent, so the vector code computes what the scalar loop does. */
static inline void axpy(float *restrict y, const float *restrict x, float a, int64_t n) {
    const v4f va = {a, a, a, a};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v4f x0, x1, y0, y1;
        memcpy(&x0, x + i, sizeof x0);
        memcpy(&x1, x + i + 4, sizeof x1);
        memcpy(&y0, y + i, sizeof y0);
        memcpy(&y1, y + i + 4, sizeof y1);
        y0 += va * x0;
        y1 += va * x1;
        memcpy(y + i, &y0, sizeof y0);
        memcpy(y + i + 4, &y1, sizeof y1);
    }
    for (; i < n; i++) y[i] += a * x[i];
}

/* A target that is no usable number (a factor of enormous values) falls back to the weight. */
static float target(float x, float acc, float s) {
    float t = x + acc / s;
    return fabsf(t) < 1e30f ? t : x;
}

/* ---- the feedback pass --------------------------------------------------------------------------
 */

/* Columns [c0, c0 + n) of one row; acc is complete but for the block's own columns. */
static void pass_block(const struct feedback *fb, struct row *r, struct enc_open *o, int64_t c0,
                       int n) {
    const struct factor *f = fb->f;
    float y[QK] = {0}, d[QK] = {0};
    for (int i = 0; i < n; i++) {
        float s = fb->s[c0 + i];
        y[i] = target(r->x[c0 + i], r->acc[c0 + i], s);
        d[i] = fb->imp[c0 + i] * f->diag[c0 + i];
    }
    enc_open_blocks(fb->eb, y, d, 1, fb->search, 0, o);
    for (int i = 0; i < n; i++) {
        int64_t c = c0 + i, b0 = c / f->block * f->block;
        int64_t stop = min_i64(c0 + n, min_i64(f->n, b0 + f->block));
        float t = target(r->x[c], r->acc[c], fb->s[c]);
        if (t != y[i]) o->l[i] = enc_open_nearest(o, i / o->sub, i, t);
        r->u[c] = fb->s[c] * (r->x[c] - enc_open_value(o, i));
        axpy(r->acc + c + 1, f->m + c * f->block + (c + 1 - b0), r->u[c], stop - c - 1);
    }
}

/* Columns behind the block, for all rows at once. */
static void pass_later(const struct factor *f, struct row *row, int rows, int64_t c0, int n) {
    for (int64_t c = c0; c < c0 + n; c++) {
        int64_t b0 = c / f->block * f->block, stop = min_i64(f->n, b0 + f->block);
        int64_t from = c0 + n;
        if (from >= stop) continue;
        const float *m = f->m + c * f->block + (from - b0);
        for (int r = 0; r < rows; r++) axpy(row[r].acc + from, m, row[r].u[c], stop - from);
    }
}

/* ---- descent ------------------------------------------------------------------------------------
 */

/* g += R[:, c] * du over the correlation block of c. */
static void moved(const struct factor *f, float *g, int64_t c, float du) {
    int64_t b0 = c / f->block * f->block;
    axpy(g + b0, f->r + c * f->block, du, min_i64(f->block, f->n - b0));
}

static void gradient(const struct factor *f, struct row *row, int rows) {
    for (int r = 0; r < rows; r++) memset(row[r].g, 0, (size_t)f->n * sizeof(float));
    for (int64_t c = 0; c < f->n; c++)
        for (int r = 0; r < rows; r++) moved(f, row[r].g, c, row[r].u[c]);
}

static void descend_codes(const struct feedback *fb, struct row *r, struct enc_open *o,
                          int64_t c0) {
    for (int i = 0; i < o->n; i++) {
        int64_t c = c0 + i;
        float want = r->x[c] - (r->u[c] - r->g[c]) / fb->s[c];
        if (!(fabsf(want) < 1e30f)) continue;
        int8_t old = o->l[i];
        o->l[i] = enc_open_nearest(o, i / o->sub, i, want);
        if (o->l[i] == old) continue;
        float u = fb->s[c] * (r->x[c] - enc_open_value(o, i)), du = u - r->u[c];
        if (!(du * (du + 2 * r->g[c]) < 0)) {
            o->l[i] = old;
            continue;
        }
        r->u[c] = u;
        moved(fb->f, r->g, c, du);
    }
}

/* Row c0 + i of R from column c0 on: blocks of weights never straddle blocks of R. */
static const float *corr(const struct factor *f, int64_t c0, int i) {
    return f->r + (c0 + i) * f->block + c0 % f->block;
}
/* out = R v over columns [c0, c0 + n). */
static void times_r(const struct factor *f, float *restrict out, const float *v, int64_t c0,
                    int n) {
    memset(out, 0, (size_t)n * sizeof *out);
    for (int i = 0; i < n; i++)
        if (v[i] != 0) axpy(out, corr(f, c0, i), v[i], n);
}

/* By how much u R u^T changes when du[n] is added from column c0 on; rdu: R du. */
static double change(const struct row *r, const float *du, const float *rdu, int64_t c0, int n) {
    double e = 0;
    for (int i = 0; i < n; i++) e += (double)du[i] * ((double)rdu[i] + 2 * (double)r->g[c0 + i]);
    return e;
}
static void accept(const struct factor *f, struct row *r, const float *du, int64_t c0, int n) {
    for (int i = 0; i < n; i++) {
        if (du[i] == 0) continue;
        r->u[c0 + i] += du[i];
        moved(f, r->g, c0 + i, du[i]);
    }
}

/* Least squares of (d, m) for the present codes and integers. */
static void refit(const struct feedback *fb, struct row *r, struct enc_open *o, int64_t c0) {
    float a[QK] = {0}, b[QK] = {0}, ra[QK], rb[QK] = {0};
    double aa = 0, ab = 0, bb = 0, ag = 0, bg = 0;
    for (int i = 0; i < o->n; i++) {
        int k = i / o->sub;
        a[i] = fb->s[c0 + i] * (float)o->sc[k] * (float)o->l[i];
        b[i] = fb->s[c0 + i] * o->m_sign * (float)o->mn[k];
    }
    times_r(fb->f, ra, a, c0, o->n);
    if (o->m_sign != 0) times_r(fb->f, rb, b, c0, o->n);
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
    struct enc_open t = *o;
    t.d = enc_f16((float)((double)o->d + dd));
    t.m = enc_f16((float)((double)o->m + dm));
    if (t.d == 0 || (t.d == o->d && t.m == o->m)) return;
    for (int i = 0; i < o->n; i++) /* a: the change of u */
        a[i] = fb->s[c0 + i] * (r->x[c0 + i] - enc_open_value(&t, i)) - r->u[c0 + i];
    times_r(fb->f, ra, a, c0, o->n);
    if (!(change(r, a, ra, c0, o->n) < 0)) return;
    accept(fb->f, r, a, c0, o->n);
    *o = t;
}

/* Sub-block k with other integers: codes that stay nearest to the present values, then one sweep of
 * descent inside the sub-block. Its change of the error; codes to t, changes of u to du. */
static double try_ints(const struct feedback *fb, const struct row *r, struct enc_open *t, int k,
                       int64_t c0, float *du) {
    int first = k * t->sub;
    int64_t c = c0 + first;
    float rdu[ENC_SUB] = {0};
    for (int i = 0; i < t->sub; i++) {
        float now = r->x[c + i] - r->u[c + i] / fb->s[c + i];
        t->l[first + i] = enc_open_nearest(t, k, first + i, now);
        du[i] = fb->s[c + i] * (r->x[c + i] - enc_open_value(t, first + i)) - r->u[c + i];
    }
    times_r(fb->f, rdu, du, c, t->sub);
    for (int i = 0; i < t->sub; i++) {
        float nu = r->u[c + i] + du[i], g = r->g[c + i] + rdu[i];
        float want = r->x[c + i] - (nu - g) / fb->s[c + i];
        if (!(fabsf(want) < 1e30f)) continue;
        int8_t old = t->l[first + i];
        t->l[first + i] = enc_open_nearest(t, k, first + i, want);
        if (t->l[first + i] == old) continue;
        float u = fb->s[c + i] * (r->x[c + i] - enc_open_value(t, first + i));
        axpy(rdu, corr(fb->f, c, i), u - nu, t->sub);
        du[i] = u - r->u[c + i];
    }
    return change(r, du, rdu, c, t->sub);
}

static void descend_ints(const struct feedback *fb, struct row *r, struct enc_open *o, int64_t c0) {
    static const int8_t move[8][2] = {{1, 0}, {-1, 0},  {0, 1},  {0, -1},
                                      {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    if (o->sc_lo == o->sc_hi || o->d == 0) return;
    int n_moves = o->mn_hi ? 8 : 2;
    struct enc_open t = *o; /* differs from *o in one sub-block at a time */
    for (int k = 0; k < o->n / o->sub; k++) {
        float best_du[ENC_SUB] = {0}, du[ENC_SUB] = {0};
        int8_t best_l[ENC_SUB] = {0}, *l = t.l + k * o->sub;
        size_t sub = (size_t)o->sub;
        int best = -1;
        double best_e = 0;
        for (int m = 0; m < n_moves; m++) {
            int sc = o->sc[k] + move[m][0], mn = o->mn[k] + move[m][1];
            if (sc < o->sc_lo || sc > o->sc_hi || mn < 0 || (o->mn_hi && mn > o->mn_hi)) continue;
            t.sc[k] = (int16_t)sc;
            t.mn[k] = (int16_t)mn;
            double e = try_ints(fb, r, &t, k, c0, du);
            if (!(e < best_e)) continue;
            best_e = e;
            best = m;
            memcpy(best_du, du, sizeof du);
            memcpy(best_l, l, sub);
        }
        if (best >= 0) {
            accept(fb->f, r, best_du, c0 + (int64_t)k * o->sub, o->sub);
            memcpy(o->l + k * o->sub, best_l, sub);
            o->sc[k] = (int16_t)(o->sc[k] + move[best][0]);
            o->mn[k] = (int16_t)(o->mn[k] + move[best][1]);
        }
        t.sc[k] = o->sc[k];
        t.mn[k] = o->mn[k];
        memcpy(l, o->l + k * o->sub, sub);
    }
}

/* The product of the row with itself under R is kept (enc_row_balanced says why). */
static void balance(const struct factor *f, const float *s, struct row *r, int64_t n_blocks) {
    double num = 0, den = 0;
    for (int64_t i = 0; i < f->n; i++) r->acc[i] = 0;
    for (int64_t i = 0; i < f->n; i++) moved(f, r->acc, i, s[i] * r->x[i]);
    for (int64_t i = 0; i < f->n; i++) {
        double v = (double)(s[i] * r->x[i]);
        num += (double)r->acc[i] * v;
        den += (double)r->acc[i] * (v - (double)r->u[i]);
    }
    enc_rescale(r->o, n_blocks, num, den);
}

/* ---- rows ---------------------------------------------------------------------------------------
 */

void feedback_rows(const struct feedback *fb, struct feedback_work *w, const float *x, int rows,
                   uint8_t *dst, uint64_t dst_row) {
    const struct factor *f = fb->f;
    const struct qtype_info *qi = qtype_info(fb->eb->spec->type);
    int n = qi->block_elems;
    for (int r = 0; r < rows; r++) {
        w->row[r].x = x + r * f->n;
        memset(w->row[r].acc, 0, (size_t)f->n * sizeof(float));
    }
    for (int64_t c0 = 0; c0 < f->n; c0 += n) {
        for (int r = 0; r < rows; r++) pass_block(fb, &w->row[r], &w->row[r].o[c0 / n], c0, n);
        pass_later(f, w->row, rows, c0, n);
    }
    if (fb->rounds > 0) gradient(f, w->row, rows);
    for (int r = 0; r < rows; r++) {
        struct row *row = &w->row[r];
        for (int t = 0; t < fb->rounds; t++)
            for (int64_t b = 0; b < f->n / n; b++) {
                if (fb->steps & FEEDBACK_INTS) descend_ints(fb, row, &row->o[b], b * n);
                if (fb->steps & FEEDBACK_SCALES) refit(fb, row, &row->o[b], b * n);
                if (fb->steps & FEEDBACK_CODES) descend_codes(fb, row, &row->o[b], b * n);
            }
        if (fb->steps & FEEDBACK_BALANCE) balance(f, fb->s, row, f->n / n);
        for (int64_t b = 0; b < f->n / n; b++)
            fb->eb->close(&row->o[b],
                          dst + (uint64_t)r * dst_row + (uint64_t)b * (uint64_t)qi->block_bytes);
    }
}

double feedback_error(const struct factor *f, const float *s, const float *x, const float *y,
                      int64_t rows) {
    double sum = 0;
    for (int64_t r = 0; r < rows; r++, x += f->n, y += f->n)
        for (int64_t b0 = 0; b0 < f->n; b0 += f->block)
            for (int64_t i = b0; i < min_i64(f->n, b0 + f->block); i++) {
                float u = s[i] * (x[i] - y[i]), g = 0;
                for (int64_t j = b0; j < min_i64(f->n, b0 + f->block); j++)
                    g += f->r[i * f->block + (j - b0)] * (s[j] * (x[j] - y[j]));
                sum += (double)u * (double)g;
            }
    return sum;
}
