// SPDX-License-Identifier: MIT
/* quantize/fb_rows.c - error feedback between rows. G = S R S and R = M diag M^T as in factor.h, so
 * tr(G E E^T) = sum_j diag_j |s_j e_j + sum_{i<j} s_i e_i M_ij|^2, where e_j is row j of E. The
 * target of row j is therefore w_j + sum_{i<j} s_i e_i M_ij / s_j. */
#include "quantize/fb_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "quantize/enc/super.h"
#include "quantize/feedback.h"

/* LAMBDA: damping of the gradients' moments, relative to their mean. ALPHA: minimum shrinkage of
 * their correlation; with n tokens and m rows, the shrinkage is ALPHA + (1 - ALPHA) m / (m + n). */
#define LAMBDA 0.01
#define ALPHA 0.05
/* Stages per block of dependent rows. There are fewer if there are many blocks, so that each stage
 * has enough rows for all threads. */
enum { STAGES = 16, STAGES_OF_MANY = 8 };

struct fb_rows {
    const struct gram_input *in;
    struct factors *factors;
    const struct factor *f; /* of the current matrix */
    int64_t n, stage;       /* columns of a matrix; first row of the current stage */
    float *w, *s;           /* damped moments of the rows, and their roots */
    float *u; /* [block][n] s_j e_j of the rows in the current block that have been encoded */
};

int fb_rows_new(struct fb_rows **out, const struct gram_input *in, int64_t n,
                struct factors *factors, struct err *e) {
    struct fb_rows *r = xcalloc(1, sizeof *r);
    void *p = NULL;
    int rc;
    r->in = in;
    r->factors = factors;
    r->n = n;
    TRY_GOTO(fail, rc,
             mem_alloc(&p, (uint64_t)in->block * (uint64_t)n * sizeof(float), "errors of rows", e));
    r->u = p;
    r->w = xcalloc((size_t)in->n, sizeof *r->w);
    r->s = xcalloc((size_t)in->n, sizeof *r->s);
    *out = r;
    return 0;
fail:
    fb_rows_free(r);
    return rc;
}

int fb_rows_matrix(struct fb_rows *r, int64_t mat, struct pool *pool, struct err *e) {
    struct factor_opts o = {.halves = 3, .lambda = LAMBDA};
    if (r->in->n_mat == 1) mat = 0;
    const double m = (double)r->in->n,
                 n = (double)r->in->count[0][mat] + (double)r->in->count[1][mat];
    o.alpha = ALPHA + (1 - ALPHA) * m / (m + n);
    TRY(factors_get(r->factors, r->in, mat, &o, NULL, pool, &r->f, e));
    feedback_weights(r->w, r->s, r->f->h, r->in->n, LAMBDA);
    return 0;
}

void fb_rows_free(struct fb_rows *r) {
    if (!r) return;
    factors_put(r->factors, &r->f);
    free(r->w);
    free(r->s);
    mem_free(r->u);
    free(r);
}

double fb_rows_share(const struct fb_rows *r) {
    double with = 0, without = 0;
    for (int64_t i = 0; i < r->in->n; i++) {
        with += (double)r->f->diag[i] * (double)r->w[i];
        without += (double)r->w[i];
    }
    return without > 0 ? with / without : 1;
}

int64_t fb_rows_stage(const struct fb_rows *r) {
    const int64_t stages = r->in->n > r->in->block ? STAGES_OF_MANY : STAGES;
    return div_up(r->in->block, stages * FEEDBACK_ROWS) * FEEDBACK_ROWS;
}

void fb_rows_begin(struct fb_rows *r, int64_t row) {
    r->stage = row;
}

void fb_rows_aim(const struct fb_rows *r, int64_t row, int rows, float *x) {
    enum { DEPTH = 256 };
    const int64_t block = r->in->block, b0 = row / block * block;
    float a[FEEDBACK_GROUP * DEPTH];
    for (int64_t k0 = b0; k0 < r->stage; k0 += DEPTH) {
        const int64_t depth = min_i64(DEPTH, r->stage - k0);
        for (int64_t k = 0; k < depth; k++)
            for (int i = 0; i < rows; i++)
                a[i * DEPTH + k] = r->f->m[(k0 + k) * block + row + i - b0] / r->s[row + i];
        const struct enc_product o = {.c = x,
                                      .a = a,
                                      .b = r->u + (k0 - b0) * r->n,
                                      .ldc = r->n,
                                      .lda = DEPTH,
                                      .ldb = r->n,
                                      .m = rows,
                                      .k = depth,
                                      .n = r->n};
        enc_lanes()->product(&o);
    }
}

void fb_rows_keep(struct fb_rows *r, int64_t row, const float *x, const float *y) {
    float *u = r->u + row % r->in->block * r->n;
    for (int64_t i = 0; i < r->n; i++) u[i] = r->s[row] * (x[i] - y[i]);
}
