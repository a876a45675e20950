// SPDX-License-Identifier: MIT
/* quantize/feedback.c - error feedback in the form of LDLQ, followed by descent on the remaining
 * error.
 *
 * Units: u_i = s_i * (x_i - x^_i), so a row's error is u R u^T (factor.h). Columns are processed in
 * order, block by block, with targets x_j + acc_j / s_j, where acc = sum_{i<j} u_i M_ij. The
 * encoder fits the block's scales to the targets, weighted by the conditional moments s_j^2 diag_j;
 * then it chooses each code, or grid entry, with the feedback of all earlier ones. Columns after
 * the block get their sums when the block is complete. Afterwards, with g = R u kept up to date,
 * integers, scales and codes change where that lowers the error (feedback_kind.h). All in f32, in a
 * fixed order, without reductions that a compiler may reorder: the bytes are the same everywhere.
 * Rows are independent. */
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
    struct enc_steps steps[FEEDBACK_GROUP];
    float *mem;
    int32_t *at;
    unsigned char *blocks; /* [block][FEEDBACK_GROUP], kind->bytes each */
};

int64_t feedback_group(int64_t rows, int threads) {
    const int64_t share = rows / threads / FEEDBACK_ROWS * FEEDBACK_ROWS;
    return min_i64(FEEDBACK_GROUP, max_i64(FEEDBACK_ROWS, share));
}

int feedback_work_new(struct feedback_work **out, enum qtype type, int64_t n, struct err *e) {
    struct feedback_work *w = xcalloc(1, sizeof *w);
    const uint64_t blocks = (uint64_t)(n / qtype_info(type)->block_elems) * FEEDBACK_GROUP;
    const int64_t per_row = 3 * n + FB_STEPS;
    void *p[3] = {NULL};
    int rc = mem_alloc(&p[0], (uint64_t)(per_row * FEEDBACK_GROUP) * sizeof(float), "feedback", e);
    if (rc == 0) rc = mem_alloc(&p[1], FB_STEPS * FEEDBACK_GROUP * sizeof *w->at, "feedback", e);
    if (rc == 0) rc = mem_alloc(&p[2], blocks * kind_of(type)->bytes, "feedback", e);
    w->mem = p[0];
    w->at = p[1];
    w->blocks = p[2];
    if (rc) {
        feedback_work_free(w);
        return rc;
    }
    for (int r = 0; r < FEEDBACK_GROUP; r++) {
        struct fb_row *row = &w->row[r];
        row->u = w->mem + per_row * r;
        row->acc = row->u + n;
        row->g = row->acc + n;
        row->by = row->g + n;
        row->at = w->at + FB_STEPS * r;
    }
    *out = w;
    return 0;
}
void feedback_work_free(struct feedback_work *w) {
    if (!w) return;
    mem_free(w->mem);
    mem_free(w->at);
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

/* Returns the end of the block of R that contains column c. */
static int64_t block_end(const struct factor *f, int64_t c) {
    return min_i64(f->n, (c / f->block + 1) * f->block);
}
/* Returns the end of the window of columns that begins at w0. */
static int64_t window_end(const struct factor *f, int64_t w0) {
    return min_i64(block_end(f, w0), w0 + FB_WINDOW);
}

/* Returns the distance between the arrays of two rows. */
static int64_t row_stride(const struct fb_row *row, int rows) {
    return rows > 1 ? row[1].u - row[0].u : 0;
}

/* Adds the errors of columns [from, stop) to acc of columns [to, end), for all rows. */
static void pass_later(const struct factor *f, struct fb_row *row, int rows, int64_t from,
                       int64_t stop, int64_t to, int64_t end) {
    const int64_t ld = row_stride(row, rows);
    const struct enc_product o = {.c = row->acc + to,
                                  .a = row->u + from,
                                  .b = f->m + from * f->block + to % f->block,
                                  .ldc = ld,
                                  .lda = ld,
                                  .ldb = f->block,
                                  .m = rows,
                                  .k = stop - from,
                                  .n = end - to};
    if (to < end) enc_lanes()->product(&o);
}

/* Computes out = R v for all rows; v and out are the arrays of the first row. */
static void times_r(const struct factor *f, float *out, const float *v, int64_t ld, int rows) {
    for (int r = 0; r < rows; r++) memset(out + r * ld, 0, (size_t)f->n * sizeof *out);
    for (int64_t b0 = 0; b0 < f->n; b0 += f->block) {
        const int64_t nb = block_end(f, b0) - b0;
        const struct enc_product o = {.c = out + b0,
                                      .a = v + b0,
                                      .b = f->r + b0 * f->block,
                                      .ldc = ld,
                                      .lda = ld,
                                      .ldb = f->block,
                                      .m = rows,
                                      .k = nb,
                                      .n = nb};
        enc_lanes()->product(&o);
    }
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

/* Adds the effect of the rows' changes within the window to g in columns [from, end). */
static void spread_changes(const struct factor *f, struct feedback_work *w, int rows, int64_t from,
                           int64_t end) {
    const int64_t w0 = w->row->w0, w1 = w->row->w1;
    for (int r = 0; r < rows; r++)
        w->steps[r] =
            (struct enc_steps){w->row[r].g + from, w->row[r].at, w->row[r].by, w->row[r].n_steps};
    if (from < end)
        enc_lanes()->steps(w->steps, rows, f->r + w0 * f->block + from % f->block, f->block,
                           (int)(w1 - w0), end - from);
}

/* Makes one round of descent, window by window. */
static void descend(const struct feedback *fb, struct feedback_work *w, int rows, int n) {
    const struct factor *f = fb->f;
    for (int64_t w0 = 0, w1; w0 < f->n; w0 = w1) {
        w1 = window_end(f, w0);
        for (int r = 0; r < rows; r++) {
            w->row[r].w0 = w0;
            w->row[r].w1 = w1;
            w->row[r].n_steps = 0;
        }
        for (int64_t c0 = w0; c0 < w1; c0 += n)
            fb->kind->descend(fb, w->row, rows, block_at(fb, w, c0 / n, 0), c0);
        spread_changes(f, w, rows, w0 / f->block * f->block, w0);
        spread_changes(f, w, rows, w1, block_end(f, w0));
    }
}

/* Rescales the encoded rows so that each row's product with itself under R is preserved (see
 * enc_row_balanced). */
static void balance(const struct feedback *fb, struct feedback_work *w, int rows,
                    int64_t n_blocks) {
    const struct factor *f = fb->f;
    for (int r = 0; r < rows; r++)
        for (int64_t i = 0; i < f->n; i++) w->row[r].g[i] = fb->s[i] * w->row[r].x[i];
    times_r(f, w->row->acc, w->row->g, row_stride(w->row, rows), rows);
    for (int r = 0; r < rows; r++) {
        const struct fb_row *row = &w->row[r];
        double num = 0, den = 0;
        for (int64_t i = 0; i < f->n; i++) {
            const double v = (double)row->g[i];
            num += (double)row->acc[i] * v;
            den += (double)row->acc[i] * (v - (double)row->u[i]);
        }
        for (int64_t b = 0; b < n_blocks; b++)
            fb->kind->rescale(block_at(fb, w, b, r), enc_gain(num, den));
    }
}

void feedback_rows(const struct feedback *fb, struct feedback_work *w, const float *x, int rows,
                   uint8_t *dst, uint64_t dst_row) {
    const struct factor *f = fb->f;
    const struct qtype_info *qi = qtype_info(fb->type);
    const int n = qi->block_elems;
    for (int r = 0; r < rows; r++) {
        w->row[r].x = x + r * f->n;
        memset(w->row[r].acc, 0, (size_t)f->n * sizeof(float));
    }
    pass(fb, w, rows, n);
    if (fb->rounds > 0) times_r(f, w->row->g, w->row->u, row_stride(w->row, rows), rows);
    for (int t = 0; t < fb->rounds; t++) descend(fb, w, rows, n);
    if (fb->steps & FEEDBACK_BALANCE) balance(fb, w, rows, f->n / n);
    for (int r = 0; r < rows; r++)
        for (int64_t b = 0; b < f->n / n; b++)
            fb->kind->close(fb, block_at(fb, w, b, r),
                            dst + (uint64_t)r * dst_row + (uint64_t)b * (uint64_t)qi->block_bytes);
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
