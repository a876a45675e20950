// SPDX-License-Identifier: MIT
/* quantize/fb_tensor.c - error feedback for one tensor.
 *
 * Shrinkage: a few rows of a few matrices are encoded with the moments of the first half of the
 * text for each candidate alpha and judged by the moments of the second half; the lowest error
 * wins, and alpha 1 (the diagonal alone) means the plain encoder. The tensor itself is encoded with
 * both halves. Importance comes from the importance matrix when there is one, correlations from the
 * moments. Memory: three matrices of the input's size, a row group per thread. */
#include "quantize/fb_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "kernels/kern.h"
#include "quantize/enc/super.h"
#include "quantize/feedback.h"

enum { TRY_MATS = 2, TRY_ROWS = 32, ROUNDS = 2 };
#define LAMBDA 0.01 /* of the mean moment, added to all: GPTQ's damping */
static const double alphas[] = {0.03, 0.1, 0.3, 1.0};

struct fb_tensor {
    struct fb_source src;
    struct factor f;
    float *pooled;
    double pooled_tokens, alpha, gain;
    float *imp, *s; /* of the present matrix */
    struct feedback fb;
    struct feedback_work **work; /* per worker */
};

static int prepare(struct fb_tensor *t, int64_t mat, unsigned halves, double alpha,
                   const float *pooled, struct err *e) {
    const struct gram_input *in = t->src.in;
    struct factor_opts o = {
        .halves = halves, .lambda = LAMBDA, .alpha = alpha, .tau = in->n_mat > 1 ? t->src.tau : 0};
    TRY(factor_make(&t->f, in, in->n_mat > 1 ? mat : 0, &o, pooled, t->pooled_tokens, t->src.pool,
                    e));
    const float *imp = t->src.imp ? t->src.imp + mat * t->src.n : t->f.h;
    feedback_weights(t->imp, t->s, imp, t->src.n, LAMBDA);
    return 0;
}

/* ---- shrinkage ----------------------------------------------------------------------------------
 */

struct trial {
    struct fb_tensor *t;
    const float *x;
    uint8_t *enc;
    float *y;
    int64_t rows;
    uint64_t row_bytes;
    void (*decode)(const void *restrict, float *restrict, int64_t);
};
static void trial_rows(void *ctx, int64_t g0, int64_t g1, int worker) {
    const struct trial *j = ctx;
    int64_t n = j->t->src.n;
    for (int64_t g = g0; g < g1; g++) {
        int64_t r = g * FEEDBACK_ROWS, k = min_i64(FEEDBACK_ROWS, j->rows - r);
        uint8_t *dst = j->enc + (uint64_t)r * j->row_bytes;
        fb_tensor_rows(j->t, worker, j->x + r * n, (int)k, dst, j->row_bytes);
        for (int64_t i = 0; i < k; i++)
            j->decode(dst + (uint64_t)i * j->row_bytes, j->y + (r + i) * n, n);
    }
}

static int try_matrix(struct fb_tensor *t, int64_t mat, struct trial *j, float *x, double *err,
                      struct err *e) {
    const struct fb_source *s = &t->src;
    struct factor held = {0};
    float *sh = xcalloc((size_t)s->n, sizeof *sh);
    int rc;
    TRY_GOTO(out, rc, factor_init(&held, s->n, s->in->block, e));
    struct factor_opts o = {.halves = 2};
    TRY_GOTO(out, rc, factor_make(&held, s->in, s->in->n_mat > 1 ? mat : 0, &o, NULL, 0, NULL, e));
    for (int64_t i = 0; i < s->n; i++) sh[i] = sqrtf(held.h[i]);
    j->rows = 0;
    for (int64_t k = 0, step = max_i64(1, s->rows / TRY_ROWS); k < s->rows && j->rows < TRY_ROWS;
         k += step)
        if (s->load(s->ctx, mat * s->rows + k, x + j->rows * s->n)) j->rows++;
    for (size_t a = 0; a < COUNT_OF(alphas); a++) {
        TRY_GOTO(out, rc, prepare(t, mat, 1, alphas[a], t->pooled, e));
        pool_for(s->pool, div_up(j->rows, FEEDBACK_ROWS), 1, trial_rows, j);
        err[a] += feedback_error(&held, sh, x, j->y, j->rows);
    }
out:
    factor_release(&held);
    free(sh);
    return rc;
}

static int choose(struct fb_tensor *t, struct err *e) {
    const struct fb_source *s = &t->src;
    struct kern ref;
    double err[COUNT_OF(alphas)] = {0};
    struct trial j = {.t = t, .row_bytes = qtype_row_bytes(s->type, s->n)};
    float *x = xcalloc((size_t)(2 * TRY_ROWS * s->n), sizeof *x);
    uint8_t *enc = xcalloc(TRY_ROWS, j.row_bytes);
    int64_t mats = min_i64(TRY_MATS, s->n_mat);
    int rc = 0;
    kern_init(&ref, KERN_REF);
    j.x = x;
    j.y = x + TRY_ROWS * s->n;
    j.enc = enc;
    j.decode = ref.op[s->type].decode;
    for (int64_t k = 0; k < mats && rc == 0; k++)
        rc = try_matrix(t, k * s->n_mat / mats, &j, x, err, e);
    size_t best = COUNT_OF(alphas) - 1;
    for (size_t a = 0; a < COUNT_OF(alphas); a++)
        if (err[a] < err[best]) best = a;
    t->alpha = alphas[best];
    t->gain = err[COUNT_OF(alphas) - 1] > 0 ? err[best] / err[COUNT_OF(alphas) - 1] : 1;
    log_debug("%s: shrinkage %.2f, held-out error %.3f of the plain one", s->in->name, t->alpha,
              t->gain);
    free(x);
    free(enc);
    return rc;
}

/* ---- the tensor ---------------------------------------------------------------------------------
 */

int fb_tensor_new(struct fb_tensor **out, const struct fb_source *src, struct err *e) {
    struct fb_tensor *t = xcalloc(1, sizeof *t);
    const struct gram_input *in = src->in;
    int rc;
    t->src = *src;
    TRY_GOTO(fail, rc, factor_init(&t->f, in->n, in->block, e));
    t->imp = xcalloc((size_t)in->n, sizeof *t->imp);
    t->s = xcalloc((size_t)in->n, sizeof *t->s);
    feedback_init(&t->fb, src->type, src->search);
    t->fb.f = &t->f;
    t->fb.imp = t->imp;
    t->fb.s = t->s;
    t->fb.steps = src->steps;
    t->fb.rounds = ROUNDS;
    t->work = xcalloc((size_t)pool_size(src->pool), sizeof(struct feedback_work *));
    for (int k = 0; k < pool_size(src->pool); k++)
        TRY_GOTO(fail, rc, feedback_work_new(&t->work[k], src->type, in->n, e));
    if (in->n_mat > 1 && src->tau > 0)
        TRY_GOTO(fail, rc, factor_pool(in, 1, &t->pooled, &t->pooled_tokens, e));
    TRY_GOTO(fail, rc, choose(t, e));
    if (t->pooled) {
        mem_free(t->pooled);
        t->pooled = NULL;
        TRY_GOTO(fail, rc, factor_pool(in, 3, &t->pooled, &t->pooled_tokens, e));
    }
    *out = t;
    return 0;
fail:
    fb_tensor_free(t);
    return rc;
}

void fb_tensor_free(struct fb_tensor *t) {
    if (!t) return;
    for (int k = 0; t->work && k < pool_size(t->src.pool); k++) feedback_work_free(t->work[k]);
    free(t->work);
    free(t->imp);
    free(t->s);
    mem_free(t->pooled);
    factor_release(&t->f);
    free(t);
}

double fb_tensor_alpha(const struct fb_tensor *t) {
    return t->alpha;
}

double fb_tensor_gain(const struct fb_tensor *t) {
    return t->gain;
}

int fb_tensor_matrix(struct fb_tensor *t, int64_t mat, struct err *e) {
    return prepare(t, mat, 3, t->alpha, t->pooled, e);
}

void fb_tensor_rows(struct fb_tensor *t, int worker, const float *x, int rows, uint8_t *dst,
                    uint64_t dst_row) {
    feedback_rows(&t->fb, t->work[worker], x, rows, dst, dst_row);
}
