// SPDX-License-Identifier: MIT
/* quantize/feedback.c - error feedback in the form of LDLQ, followed by descent on the remaining
 * error.
 *
 * Units: u_i = s_i * (x_i - x^_i), so a row's error is u R u^T (factor.h). Columns are processed in
 * order, block by block, with targets x_j + acc_j / s_j, where acc = sum_{i<j} u_i M_ij. The
 * encoder fits the block's scales to the targets, weighted by the conditional moments s_j^2 diag_j;
 * then it chooses each code, or grid entry, with the feedback of all earlier ones. Columns after
 * the block get their sums when the block is complete. Then integers, scales and codes change where
 * that lowers the error (feedback_kind.h), one window of columns after another: g = R u is computed
 * for a window when it begins, and kept up to date in it. At last the row is balanced: its scales
 * are multiplied by v R v / v R (v - u), v = s x. All in f32, in a fixed order, without reductions
 * that a compiler may reorder: the bytes are the same everywhere. Rows are independent. */
#include "quantize/feedback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "quantize/enc/super.h"
#include "quantize/feedback_kind.h"

/* Returns how feedback works for a type; NULL: not supported. */
static const struct fb_kind *kind_of(enum qtype t) {
    const struct enc *enc = enc_find(t);
    if (enc && enc->blocks) return &fb_kind_open;
    if (enc && enc->fp4) return &fb_kind_fp4;
    return grid_spec_of(t) ? &fb_kind_grid : NULL;
}
bool feedback_can(enum qtype t) {
    return kind_of(t) != NULL;
}
void feedback_init(struct feedback *fb, enum qtype type, enum search search) {
    *fb = (struct feedback){
        .type = type, .kind = kind_of(type), .enc = enc_find(type), .search = search};
    if (grid_spec_of(type)) {
        /* The best search's lower error is lost among the errors of other columns. */
        fb->grid = grid_how_of(type, search == SEARCH_BEST ? SEARCH_FAST : search);
        fb->around = enc_grid_around(type);
    }
}

struct feedback_work {
    struct fb_row row[FEEDBACK_GROUP];
    double sums[FEEDBACK_GROUP][2]; /* v R v and v R u, for the balance */
    float *mem;
    unsigned char *blocks; /* [block][FEEDBACK_GROUP], kind->bytes each */
};

int64_t feedback_group(int64_t rows, int threads) {
    const int64_t share = rows / threads / FEEDBACK_ROWS * FEEDBACK_ROWS;
    return min_i64(FEEDBACK_GROUP, max_i64(FEEDBACK_ROWS, share));
}

int feedback_work_new(struct feedback_work **out, enum qtype type, int64_t n, struct err *e) {
    struct feedback_work *w = xcalloc(1, sizeof *w);
    const uint64_t blocks = (uint64_t)(n / qtype_info(type)->block_elems) * FEEDBACK_GROUP;
    const int64_t per_row = 4 * n + FB_WINDOW;
    void *p[2] = {NULL};
    int rc = mem_alloc(&p[0], (uint64_t)(per_row * FEEDBACK_GROUP) * sizeof(float), "feedback", e);
    if (rc == 0) rc = mem_alloc(&p[1], blocks * kind_of(type)->bytes, "feedback", e);
    w->mem = p[0];
    w->blocks = p[1];
    if (rc) {
        feedback_work_free(w);
        return rc;
    }
    for (int r = 0; r < FEEDBACK_GROUP; r++) {
        struct fb_row *row = &w->row[r];
        row->u = w->mem + per_row * r;
        row->acc = row->u + n;
        row->g = row->acc + n;
        row->v = row->g + n;
        row->p = row->v + n;
    }
    *out = w;
    return 0;
}
void feedback_work_free(struct feedback_work *w) {
    if (!w) return;
    mem_free(w->mem);
    mem_free(w->blocks);
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

/* ---- products over rows ---------------------------------------------------------------------- */

/* Returns the first column of the block of R that contains column c, and the end of that block. */
static int64_t block_start(const struct factor *f, int64_t c) {
    return c / f->block * f->block;
}
static int64_t block_end(const struct factor *f, int64_t c) {
    return min_i64(f->n, block_start(f, c) + f->block);
}
/* Returns the end of the window of columns that begins at w0. */
static int64_t window_end(const struct factor *f, int64_t w0) {
    return min_i64(block_end(f, w0), w0 + FB_WINDOW);
}

/* Adds columns [from, stop) of all rows times m, which is M or R, to columns [to, end). a and c are
 * the first row's arrays at columns `from` and `to`. */
static void add_product(const struct factor *f, const float *m, const struct fb_row *row, int rows,
                        const float *a, int64_t from, int64_t stop, float *c, int64_t to,
                        int64_t end) {
    const int64_t ld = rows > 1 ? row[1].u - row[0].u : 0;
    const struct enc_product o = {.c = c,
                                  .a = a,
                                  .b = m + from * f->block + to % f->block,
                                  .ldc = ld,
                                  .lda = ld,
                                  .ldb = f->block,
                                  .m = rows,
                                  .k = stop - from,
                                  .n = end - to};
    if (from < stop && to < end) enc_lanes()->product(&o);
}
/* Adds the errors of columns [from, stop) to acc of columns [to, end). */
static void pass_later(const struct factor *f, struct fb_row *row, int rows, int64_t from,
                       int64_t stop, int64_t to, int64_t end) {
    add_product(f, f->m, row, rows, row->u + from, from, stop, row->acc + to, to, end);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Returns the open block b of row r in the group. */
static void *block_at(const struct feedback *fb, const struct feedback_work *w, int64_t b, int r) {
    return w->blocks + (uint64_t)(b * FEEDBACK_GROUP + r) * fb->kind->bytes;
}

/* Chooses scales and codes in column order. The errors of a window reach its own columns block by
 * block, and the columns after it all at once. */
static void pass(const struct feedback *fb, struct feedback_work *w, int rows, int n) {
    const struct factor *f = fb->f;
    for (int64_t w0 = 0, w1; w0 < f->n; w0 = w1) {
        w1 = window_end(f, w0);
        for (int64_t c0 = w0; c0 < w1; c0 += n) {
            fb->kind->pass(fb, w->row, rows, block_at(fb, w, c0 / n, 0), c0, n);
            pass_later(f, w->row, rows, c0, c0 + n, c0 + n, w1);
        }
        pass_later(f, w->row, rows, w0, w1, w1, block_end(f, w0));
    }
}

/* Begins a window: computes g = R u for its columns. */
static void open_window(const struct factor *f, struct fb_row *row, int rows, int64_t w0) {
    const int64_t b0 = block_start(f, w0);
    for (int r = 0; r < rows; r++) {
        row[r].w0 = w0;
        row[r].w1 = window_end(f, w0);
        memset(row[r].g + w0, 0, (size_t)(row[r].w1 - w0) * sizeof(float));
    }
    add_product(f, f->r, row, rows, row->u + b0, b0, block_end(f, w0), row->g + w0, w0, row->w1);
}

/* Adds the window's shares of v R v and v R u to the rows' sums, before u changes in it. */
static void weigh_window(const struct factor *f, struct feedback_work *w, int rows) {
    const struct enc_lanes *lanes = enc_lanes();
    struct fb_row *row = w->row;
    const int64_t w0 = row->w0, w1 = row->w1, b0 = block_start(f, w0);
    for (int r = 0; r < rows; r++) memset(row[r].p, 0, (size_t)(w1 - w0) * sizeof(float));
    add_product(f, f->r, row, rows, row->v + b0, b0, w0, row->p, w0, w1);
    for (int r = 0; r < rows; r++) lanes->fb_weigh(&row[r], FB_BEFORE, w->sums[r]);
    add_product(f, f->r, row, rows, row->v + w0, w0, w1, row->p, w0, w1);
    for (int r = 0; r < rows; r++) lanes->fb_weigh(&row[r], FB_WITHIN, w->sums[r]);
}

/* Makes round t of descent, window by window. last: also computes the sums for the balance. */
static void descend(const struct feedback *fb, struct feedback_work *w, int rows, int n, int t,
                    bool last) {
    const struct factor *f = fb->f;
    for (int64_t w0 = 0; w0 < f->n; w0 = w->row->w1) {
        open_window(f, w->row, rows, w0);
        if (last) weigh_window(f, w, rows);
        for (int64_t c0 = w0; c0 < w->row->w1 && t < fb->rounds; c0 += n)
            fb->kind->descend(fb, w->row, rows, block_at(fb, w, c0 / n, 0), c0);
        for (int r = 0; r < rows && last; r++)
            enc_lanes()->fb_weigh(&w->row[r], FB_AFTER, w->sums[r]);
    }
}

void feedback_rows(const struct feedback *fb, struct feedback_work *w, const float *x, int rows,
                   uint8_t *dst, uint64_t dst_row) {
    const struct factor *f = fb->f;
    const struct qtype_info *qi = qtype_info(fb->type);
    const int n = qi->block_elems;
    const bool balance = fb->steps & FEEDBACK_BALANCE && fb->kind->rescale;
    for (int r = 0; r < rows; r++) {
        struct fb_row *row = &w->row[r];
        row->x = x + r * f->n;
        memset(row->acc, 0, (size_t)f->n * sizeof(float));
        for (int64_t i = 0; i < f->n; i++) row->v[i] = fb->s[i] * row->x[i];
        w->sums[r][0] = w->sums[r][1] = 0;
    }
    pass(fb, w, rows, n);
    for (int t = 0; t < fb->rounds || (t == 0 && balance); t++)
        descend(fb, w, rows, n, t, balance && t + 1 >= fb->rounds);
    for (int r = 0; r < rows; r++) {
        const double *sum = w->sums[r], gain = enc_gain(sum[0], sum[0] - sum[1]);
        for (int64_t b = 0; b < f->n / n; b++) {
            void *block = block_at(fb, w, b, r);
            if (balance) fb->kind->rescale(block, gain);
            fb->kind->close(fb, block,
                            dst + (uint64_t)r * dst_row + (uint64_t)b * (uint64_t)qi->block_bytes);
        }
    }
}

double feedback_error(const struct factor *f, const float *s, const float *x, const float *y,
                      int64_t rows) {
    enum { TOGETHER = 16 };
    float *u = xcalloc((size_t)(2 * TOGETHER * f->n), sizeof *u), *g = u + TOGETHER * f->n;
    double sum = 0;
    for (int64_t r0 = 0; r0 < rows; r0 += TOGETHER) {
        const int64_t m = min_i64(TOGETHER, rows - r0);
        for (int64_t r = 0; r < m; r++)
            for (int64_t i = 0; i < f->n; i++) {
                const int64_t at = (r0 + r) * f->n + i;
                u[r * f->n + i] = s[i] * (x[at] - y[at]);
            }
        memset(g, 0, (size_t)(m * f->n) * sizeof *g);
        for (int64_t b0 = 0; b0 < f->n; b0 += f->block) {
            const int64_t nb = block_end(f, b0) - b0;
            /* Use rows of R: its two triangles differ by rounding. */
            const struct enc_product o = {.c = g + b0,
                                          .a = u + b0,
                                          .b = f->r + b0 * f->block,
                                          .ldc = f->n,
                                          .lda = f->n,
                                          .ldb = f->block,
                                          .m = m,
                                          .k = nb,
                                          .n = nb,
                                          .turned = true};
            enc_lanes()->product(&o);
        }
        for (int64_t i = 0; i < m * f->n; i++) sum += (double)u[i] * (double)g[i];
    }
    free(u);
    return sum;
}
