// SPDX-License-Identifier: MIT
/* quantize/feedback.c - error feedback in the form of LDLQ, followed by descent on the remaining
 * error.
 *
 * Units: u_i = s_i * (x_i - x^_i), so a row's error is u R u^T (factor.h). Columns are processed
 * in order, block by block, with targets x_j + acc_j / s_j, where acc = sum_{i<j} u_i M_ij. The
 * encoder fits the block's scales to the targets, weighted by the conditional moments s_j^2
 * diag_j; then it chooses each code, or grid entry, with the feedback of all earlier ones.
 * Columns after the block get their sums at its end. Afterwards, with g = R u kept up to date,
 * integers, scales and codes change where the error falls (feedback_kind.h). All in f32, in a
 * fixed order, without reductions that a compiler may reorder: the bytes are the same
 * everywhere. Rows are independent. */
#include "quantize/feedback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "quantize/enc/super.h"
#include "quantize/feedback_kind.h"

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
    if (grid_spec_of(type)) fb->grid = grid_how_of(type, search);
}

struct feedback_work {
    struct fb_row row[FEEDBACK_ROWS];
    float *mem;
    unsigned char *blocks;
};

int feedback_work_new(struct feedback_work **out, enum qtype type, int64_t n, struct err *e) {
    struct feedback_work *w = xcalloc(1, sizeof *w);
    const uint64_t per_row = (uint64_t)(n / qtype_info(type)->block_elems) * kind_of(type)->bytes;
    void *p = NULL, *q = NULL;
    int rc = mem_alloc(&p, (uint64_t)(3 * n * FEEDBACK_ROWS) * sizeof(float), "feedback", e);
    if (rc == 0) rc = mem_alloc(&q, per_row * FEEDBACK_ROWS, "feedback", e);
    w->mem = p;
    w->blocks = q;
    if (rc) {
        feedback_work_free(w);
        return rc;
    }
    for (int r = 0; r < FEEDBACK_ROWS; r++) {
        w->row[r].u = w->mem + 3 * n * r;
        w->row[r].acc = w->row[r].u + n;
        w->row[r].g = w->row[r].acc + n;
        w->row[r].blocks = w->blocks + per_row * (uint64_t)r;
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

/* Propagates the errors of columns [c0, c0 + n) to the later columns of the factor's block, for
 * all rows at once. */
static void pass_later(const struct factor *f, struct fb_row *row, int rows, int64_t c0, int n) {
    for (int64_t c = c0; c < c0 + n; c++) {
        int64_t b0 = c / f->block * f->block, stop = min_i64(f->n, b0 + f->block);
        int64_t from = c0 + n;
        if (from >= stop) continue;
        const float *m = f->m + c * f->block + (from - b0);
        for (int r = 0; r < rows; r++) axpy(row[r].acc + from, m, row[r].u[c], stop - from);
    }
}

/* Computes each row's g = R u from the beginning. */
static void gradient(const struct factor *f, struct fb_row *row, int rows) {
    for (int r = 0; r < rows; r++) memset(row[r].g, 0, (size_t)f->n * sizeof(float));
    for (int64_t c = 0; c < f->n; c++)
        for (int r = 0; r < rows; r++) fb_moved(f, row[r].g, c, row[r].u[c]);
}

static void *block_at(const struct feedback *fb, const struct fb_row *r, int64_t b) {
    return r->blocks + (uint64_t)b * fb->kind->bytes;
}

/* Rescales an encoded row to preserve the row's product with itself under R (see
 * enc_row_balanced). */
static void balance(const struct feedback *fb, struct fb_row *r, int64_t n_blocks) {
    const struct factor *f = fb->f;
    double num = 0, den = 0;
    for (int64_t i = 0; i < f->n; i++) r->acc[i] = 0;
    for (int64_t i = 0; i < f->n; i++) fb_moved(f, r->acc, i, fb->s[i] * r->x[i]);
    for (int64_t i = 0; i < f->n; i++) {
        double v = (double)(fb->s[i] * r->x[i]);
        num += (double)r->acc[i] * v;
        den += (double)r->acc[i] * (v - (double)r->u[i]);
    }
    for (int64_t b = 0; b < n_blocks; b++)
        fb->kind->rescale(block_at(fb, r, b), enc_gain(num, den));
}

/* ---- rows ------------------------------------------------------------------------------------ */

void feedback_rows(const struct feedback *fb, struct feedback_work *w, const float *x, int rows,
                   uint8_t *dst, uint64_t dst_row) {
    const struct factor *f = fb->f;
    const struct qtype_info *qi = qtype_info(fb->type);
    int n = qi->block_elems;
    for (int r = 0; r < rows; r++) {
        w->row[r].x = x + r * f->n;
        memset(w->row[r].acc, 0, (size_t)f->n * sizeof(float));
    }
    for (int64_t c0 = 0; c0 < f->n; c0 += n) {
        for (int r = 0; r < rows; r++)
            fb->kind->pass(fb, &w->row[r], block_at(fb, &w->row[r], c0 / n), c0, n);
        pass_later(f, w->row, rows, c0, n);
    }
    if (fb->rounds > 0) gradient(f, w->row, rows);
    for (int r = 0; r < rows; r++) {
        struct fb_row *row = &w->row[r];
        for (int t = 0; t < fb->rounds; t++)
            for (int64_t b = 0; b < f->n / n; b++)
                fb->kind->descend(fb, row, block_at(fb, row, b), b * n, t);
        if (fb->steps & FEEDBACK_BALANCE) balance(fb, row, f->n / n);
        for (int64_t b = 0; b < f->n / n; b++)
            fb->kind->close(fb, block_at(fb, row, b),
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
