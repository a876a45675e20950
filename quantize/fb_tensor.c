// SPDX-License-Identifier: MIT
/* quantize/fb_tensor.c - error feedback for one tensor.
 *
 * Shrinkage: for each candidate alpha, a few rows of a few matrices are encoded with the moments of
 * the first half of the text and scored with those of the second half. The lowest error wins; alpha
 * 1 (the diagonal alone) means the plain encoder. The tensor itself is encoded with the moments of
 * both halves. Importance comes from the importance matrix if there is one, correlations always
 * from the moments. Memory: the factors of factors.h, and a group of rows per thread. */
#include "quantize/fb_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "kernels/kern.h"
#include "quantize/enc/super.h"
#include "quantize/fb_dev.h"
#include "quantize/fb_rows.h"
#include "quantize/feedback.h"

enum { TRY_MATS = 2, TRY_ROWS = 32, ROUNDS = 2 };
/* Rows of a stage per thread from which a device is used. A device takes about 2 us per column of a
 * stage, however many rows it has (computed, not measured), a thread 0.76 us per weight. */
enum { LEAST_ROWS = 3 };
/* GPTQ's damping: this fraction of the mean moment is added to every moment. */
#define LAMBDA 0.01
static const double alphas[] = {0.03, 0.1, 0.3, 1.0};
/* Candidate fractions of the drift correction. */
static const double betas[] = {0, 0.25, 0.5, 0.75, 1};
/* The correction is a regression on a block's columns. If they explain a fraction r of the drift,
 * the right weight for n tokens is n / (n + columns * (1 - r) / r). This assumes r = 1/5. */
#define DRIFT_PRIOR 4.0

struct fb_tensor {
    struct fb_source src;
    struct factors *own; /* src.factors unless the caller shares one */
    const struct factor *f,
        *pooled; /* factor of the current matrix; sums over all matrices, NULL: not used */
    double alpha, beta, gain;
    double share; /* loss fraction that row feedback can leave; 1: no row feedback */
    /* Fraction of the current matrix's drift to correct, 0 to 1. */
    double take;
    /* Cross sums of the current matrix by half; NULL: half not used. */
    const float *cross[GRAM_HALVES];
    /* Per worker: its shifted rows, and scratch; NULL: rows are their own targets. */
    float **aim;
    struct fb_rows *from_rows; /* NULL: rows are independent */
    void (*decode)(const void *restrict, float *restrict, int64_t);
    /* Importance and scales of the current matrix's columns. */
    float *imp, *s;
    struct feedback fb;
    struct feedback_work **work; /* per worker */
    struct qdev *q;              /* with dev */
    struct fb_dev *dev;          /* NULL: the CPU encodes */
    bool uploaded;               /* dev has the factor of the only matrix of moments */
};

/* Sets cross[] to the cross moments of matrix mat, or NULL for halves that are not used. */
static void cross_of(const struct gram_input *in, int64_t mat, unsigned halves,
                     const float **cross) {
    for (int h = 0; h < GRAM_HALVES; h++)
        cross[h] =
            in->cross[h] && (halves >> h & 1) ? in->cross[h] + mat * in->n * in->block : NULL;
}

/* Returns the weight of the drift's moments, 0 to 1, which depends on the number of tokens in
 * them. */
static double drift_weight(const struct gram_input *in, int64_t mat, unsigned halves) {
    double n = 0;
    for (int h = 0; h < GRAM_HALVES; h++)
        if (halves >> h & 1) n += (double)in->count[h][mat];
    return n / (n + DRIFT_PRIOR * (double)in->block);
}

/* Computes the factor of matrix mat from these halves of its moments, shrunk by alpha. */
static int prepare(struct fb_tensor *t, int64_t mat, unsigned halves, double alpha, struct err *e) {
    const struct gram_input *in = t->src.in;
    struct factor_opts o = {
        .halves = halves, .lambda = LAMBDA, .alpha = alpha, .tau = in->n_mat > 1 ? t->src.tau : 0};
    TRY(factors_get(t->src.factors, in, mat, &o, t->pooled, t->src.pool, &t->f, e));
    t->fb.f = t->f;
    /* An expert's own moments weight tokens by its gates; those of the importance matrix do not. */
    const bool own = in->n_mat > 1 || !t->src.imp;
    const float *imp = own ? t->f->h : t->src.imp + mat * t->src.n;
    feedback_weights(t->imp, t->s, imp, t->src.n, LAMBDA);
    cross_of(in, in->n_mat > 1 ? mat : 0, halves, t->cross);
    t->take = t->beta * drift_weight(in, in->n_mat > 1 ? mat : 0, halves);
    return 0;
}

/* Returns whether rows have targets other than their own weights. */
static bool has_aim(const struct fb_tensor *t, int64_t first) {
    return t->take > 0 || first >= 0;
}

/* Shifts rows x to their targets. `first` is the index of the first row in its matrix; -1: without
 * row-to-row feedback. */
static void aim_rows(struct fb_tensor *t, int worker, int64_t first, float *x, int rows) {
    if (t->take > 0)
        factor_aim(t->f, t->s, t->cross, t->take, x, rows,
                   t->aim[worker] + FEEDBACK_GROUP * t->src.n);
    if (first >= 0) fb_rows_aim(t->from_rows, first, rows, x);
}

/* Records the errors of rows x, encoded at dst, for later rows. */
static void keep_rows(struct fb_tensor *t, int worker, int64_t first, const float *x, int rows,
                      const uint8_t *dst, uint64_t dst_row) {
    for (int r = 0; r < rows && first >= 0; r++) {
        t->decode(dst + (uint64_t)r * dst_row, t->aim[worker], t->src.n);
        fb_rows_keep(t->from_rows, first + r, x + r * t->src.n, t->aim[worker]);
    }
}

/* Encodes rows x; first: see aim_rows. */
static void encode_rows(struct fb_tensor *t, int worker, int64_t first, const float *x, int rows,
                        uint8_t *dst, uint64_t dst_row) {
    const float *at = x;
    if (t->aim[worker] && has_aim(t, first)) {
        memcpy(t->aim[worker], x, (size_t)(rows * t->src.n) * sizeof *x);
        aim_rows(t, worker, first, t->aim[worker], rows);
        at = t->aim[worker];
    }
    feedback_rows(&t->fb, t->work[worker], at, rows, dst, dst_row);
    keep_rows(t, worker, first, x, rows, dst, dst_row);
}

/* ---- shrinkage ------------------------------------------------------------------------------- */

struct trial {
    struct fb_tensor *t;
    const float *x;
    uint8_t *enc;
    float *y;
    int64_t rows, group;
    uint64_t row_bytes;
    void (*decode)(const void *restrict, float *restrict, int64_t);
};
/* Encodes groups [g0, g1) of sample rows and decodes them to j->y. */
static void trial_rows(void *ctx, int64_t g0, int64_t g1, int worker) {
    const struct trial *j = ctx;
    int64_t n = j->t->src.n;
    for (int64_t g = g0; g < g1; g++) {
        int64_t r = g * j->group, k = min_i64(j->group, j->rows - r);
        uint8_t *dst = j->enc + (uint64_t)r * j->row_bytes;
        encode_rows(j->t, worker, -1, j->x + r * n, (int)k, dst, j->row_bytes);
        for (int64_t i = 0; i < k; i++)
            j->decode(dst + (uint64_t)i * j->row_bytes, j->y + (r + i) * n, n);
    }
}

/* Returns the part of the quadratic error that drift adds: twice the inner product of the rows'
 * error with x Delta. */
static double drift_error(const struct factor *held, const float *const cross[GRAM_HALVES],
                          const float *x, const float *y, int64_t rows) {
    float *drift = xcalloc((size_t)held->n, sizeof *drift);
    double sum = 0;
    for (int64_t r = 0; r < rows; r++, x += held->n, y += held->n) {
        factor_drift(held, cross, x, drift);
        for (int64_t i = 0; i < held->n; i++) sum += 2 * (double)drift[i] * (double)(x[i] - y[i]);
    }
    free(drift);
    return sum;
}

/* A candidate: the shrinkage of the correlation, and the fraction of the drift to correct. */
struct way {
    double alpha, beta;
};

/* Adds each candidate's held-out error on sampled rows of a matrix to err[]. */
static int try_matrix(struct fb_tensor *t, int64_t mat, struct trial *j, float *x,
                      const struct way *way, int n_ways, double *err, struct err *e) {
    const struct fb_source *s = &t->src;
    const float *cross[GRAM_HALVES];
    const struct factor *held = NULL;
    float *sh = xcalloc((size_t)s->n, sizeof *sh);
    int rc;
    const struct factor_opts o = {.halves = 2};
    TRY_GOTO(out, rc, factors_get(s->factors, s->in, mat, &o, NULL, NULL, &held, e));
    for (int64_t i = 0; i < s->n; i++) sh[i] = sqrtf(held->h[i]);
    j->rows = 0;
    for (int64_t k = 0, step = max_i64(1, s->rows / TRY_ROWS); k < s->rows && j->rows < TRY_ROWS;
         k += step)
        if (s->load(s->ctx, mat * s->rows + k, x + j->rows * s->n)) j->rows++;
    cross_of(s->in, s->in->n_mat > 1 ? mat : 0, 2, cross);
    for (int i = 0; i < n_ways; i++) {
        TRY_GOTO(out, rc, progress_interrupted() ? err_set(e, ERR_INTR, "interrupted") : 0);
        t->beta = way[i].beta;
        TRY_GOTO(out, rc, prepare(t, mat, 1, way[i].alpha, e));
        j->group = feedback_group(j->rows, pool_size(s->pool));
        pool_for(s->pool, div_up(j->rows, j->group), 1, trial_rows, j);
        err[i] += feedback_error(held, sh, x, j->y, j->rows);
        if (cross[0] || cross[1]) err[i] += drift_error(held, cross, x, j->y, j->rows);
    }
out:
    factors_put(s->factors, &held);
    free(sh);
    return rc;
}

/* Tries all candidates on a few matrices. *best: the first with the least held-out error; *gain:
 * its error relative to that of the last candidate. */
static int best_way(struct fb_tensor *t, struct trial *j, float *x, const struct way *way,
                    int n_ways, int *best, double *gain, struct err *e) {
    const struct fb_source *s = &t->src;
    double err[8] = {0};
    const int64_t mats = min_i64(TRY_MATS, s->n_mat);
    for (int64_t k = 0; k < mats; k++)
        TRY(try_matrix(t, k * s->n_mat / mats, j, x, way, n_ways, err, e));
    *best = n_ways - 1;
    for (int i = 0; i < n_ways; i++)
        if (err[i] < err[*best]) *best = i;
    *gain = err[n_ways - 1] > 0 ? err[*best] / err[n_ways - 1] : 1;
    return 0;
}

/* Chooses the shrinkage alpha, then the drift correction beta, by the error on held-out tokens. */
static int choose(struct fb_tensor *t, struct err *e) {
    const struct fb_source *s = &t->src;
    struct kern ref;
    struct trial j = {.t = t, .row_bytes = qtype_row_bytes(s->type, s->n)};
    float *x = xcalloc((size_t)(2 * TRY_ROWS * s->n), sizeof *x);
    uint8_t *enc = xcalloc(TRY_ROWS, j.row_bytes);
    int rc = 0;
    kern_init(&ref, KERN_REF);
    j.x = x;
    j.y = x + TRY_ROWS * s->n;
    j.enc = enc;
    j.decode = ref.op[s->type].decode;
    struct way way[COUNT_OF(betas)];
    int at = 0;
    double unused;
    for (size_t a = 0; a < COUNT_OF(alphas); a++) way[a] = (struct way){alphas[a], 0};
    TRY_GOTO(out, rc, best_way(t, &j, x, way, COUNT_OF(alphas), &at, &t->gain, e));
    t->alpha = alphas[at];
    t->beta = 0;
    if (s->in->cross[0] && t->alpha < 1) {
        for (size_t b = 0; b < COUNT_OF(betas); b++) way[b] = (struct way){t->alpha, betas[b]};
        TRY_GOTO(out, rc, best_way(t, &j, x, way, COUNT_OF(betas), &at, &unused, e));
        t->beta = betas[at];
    }
    log_debug(
        "%s: shrinkage %.2f, held-out error %.3f of the plain encoder's, drift correction %.2f",
        s->in->name, t->alpha, t->gain, t->beta);
out:
    free(x);
    free(enc);
    return rc;
}

/* ---- the tensor ------------------------------------------------------------------------------ */

int fb_tensor_new(struct fb_tensor **out, const struct fb_source *src, struct err *e) {
    struct fb_tensor *t = xcalloc(1, sizeof *t);
    const struct gram_input *in = src->in;
    int rc;
    t->src = *src;
    if (!src->factors) t->own = t->src.factors = factors_new();
    t->imp = xcalloc((size_t)in->n, sizeof *t->imp);
    t->s = xcalloc((size_t)in->n, sizeof *t->s);
    feedback_init(&t->fb, src->type, src->search);
    t->fb.imp = t->imp;
    t->fb.s = t->s;
    t->fb.steps = src->steps;
    t->fb.rounds = ROUNDS;
    t->work = xcalloc((size_t)pool_size(src->pool), sizeof(struct feedback_work *));
    t->aim = xcalloc((size_t)pool_size(src->pool), sizeof *t->aim);
    struct kern ref;
    kern_init(&ref, KERN_REF);
    t->decode = ref.op[src->type].decode;
    if (src->out)
        TRY_GOTO(fail, rc, fb_rows_new(&t->from_rows, src->out, in->n, t->src.factors, e));
    for (int k = 0; k < pool_size(src->pool) && (in->cross[0] || src->out); k++) {
        t->aim[k] = try_calloc((size_t)((FEEDBACK_GROUP + 1) * in->n), sizeof **t->aim,
                               "targets of rows", e);
        if (!t->aim[k]) TRY_GOTO(fail, rc, ERR_SYS);
    }
    for (int k = 0; k < pool_size(src->pool); k++)
        TRY_GOTO(fail, rc, feedback_work_new(&t->work[k], src->type, in->n, e));
    if (in->n_mat > 1 && src->tau > 0)
        TRY_GOTO(fail, rc, factors_pool(t->src.factors, in, 1, &t->pooled, e));
    TRY_GOTO(fail, rc, choose(t, e));
    t->share = 1;
    if (t->from_rows) {
        TRY_GOTO(fail, rc, fb_rows_matrix(t->from_rows, 0, src->pool, e));
        t->share = fb_rows_share(t->from_rows);
    }
    if (t->pooled) TRY_GOTO(fail, rc, factors_pool(t->src.factors, in, 3, &t->pooled, e));
    *out = t;
    return 0;
fail:
    fb_tensor_free(t);
    return rc;
}

void fb_tensor_free(struct fb_tensor *t) {
    if (!t) return;
    for (int k = 0; t->work && k < pool_size(t->src.pool); k++) feedback_work_free(t->work[k]);
    for (int k = 0; t->aim && k < pool_size(t->src.pool); k++) free(t->aim[k]);
    free(t->aim);
    free(t->work);
    free(t->imp);
    free(t->s);
    factors_put(t->src.factors, &t->pooled);
    factors_put(t->src.factors, &t->f);
    fb_rows_free(t->from_rows);
    fb_dev_free(t->dev);
    factors_free(t->own);
    free(t);
}

double fb_tensor_alpha(const struct fb_tensor *t) {
    return t->alpha;
}

double fb_tensor_gain(const struct fb_tensor *t) {
    return t->gain * t->share;
}

int fb_tensor_device(struct fb_tensor *t, struct qdev *q, struct err *e) {
    t->q = q;
    if (!qdev_is_on(q)) return 0;
    if (fb_tensor_stage_rows(t) < LEAST_ROWS * pool_size(t->src.pool)) {
        log_debug("%s: error feedback on the CPU: %lld rows at a time are too few for the device",
                  t->src.in->name, (long long)fb_tensor_stage_rows(t));
        return 0;
    }
    return fb_dev_new(&t->dev, q, t->src.type, t->src.n, t->src.in->block, fb_tensor_stage_rows(t),
                      e);
}
bool fb_tensor_has_device(const struct fb_tensor *t) {
    return t->dev != NULL;
}
void fb_tensor_give_up(struct fb_tensor *t) {
    fb_dev_free(t->dev);
    t->dev = NULL;
    qdev_give_up(t->q);
}

int fb_tensor_matrix(struct fb_tensor *t, int64_t mat, struct err *e) {
    if (t->from_rows) TRY(fb_rows_matrix(t->from_rows, mat, t->src.pool, e));
    TRY(prepare(t, mat, 3, t->alpha, e));
    if (!t->dev) return 0;
    const int rc = fb_dev_matrix(t->dev, &t->fb, t->src.in->n_mat > 1 || !t->uploaded, e);
    t->uploaded = true;
    if (rc == 0) return 0;
    TRY(qdev_failed(t->q, rc, e));
    fb_tensor_give_up(t);
    return 0;
}

int64_t fb_tensor_stage_rows(const struct fb_tensor *t) {
    return t->from_rows ? fb_rows_stage(t->from_rows) : t->src.rows;
}

void fb_tensor_stage(struct fb_tensor *t, int64_t row) {
    if (t->from_rows) fb_rows_begin(t->from_rows, row);
}

void fb_tensor_rows(struct fb_tensor *t, int worker, int64_t first, const float *x, int rows,
                    uint8_t *dst, uint64_t dst_row) {
    encode_rows(t, worker, t->from_rows ? first : -1, x, rows, dst, dst_row);
}

int64_t fb_tensor_most(const struct fb_tensor *t) {
    return fb_dev_most(t->dev);
}
float *fb_tensor_targets(struct fb_tensor *t) {
    return fb_dev_targets(t->dev);
}
void fb_tensor_aim(struct fb_tensor *t, int worker, int64_t first, float *x, int rows) {
    aim_rows(t, worker, t->from_rows ? first : -1, x, rows);
}
int fb_tensor_encode(struct fb_tensor *t, int64_t rows, uint8_t *dst, struct err *e) {
    return fb_dev_encode(t->dev, &t->fb, rows, dst, e);
}
bool fb_tensor_keeps(const struct fb_tensor *t) {
    return t->from_rows != NULL;
}
void fb_tensor_keep(struct fb_tensor *t, int worker, int64_t first, const float *x, int rows,
                    const uint8_t *dst, uint64_t dst_row) {
    keep_rows(t, worker, t->from_rows ? first : -1, x, rows, dst, dst_row);
}
