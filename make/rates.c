// SPDX-License-Identifier: MIT
/* make/rates.c - timing of encoders, error feedback and passes. Affects forecasts only, never
 * bytes. */
#include "make/rates.h"
#include "work/blas_choice.h"
#include "work/open.h"
#include "work/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/moments.h"
#include "calib/imatrix.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/rng.h"
#include "kernels/bench.h"
#include "quantize/fb_tensor.h"
#include "quantize/feedback.h"
#include "runtime/measure/eval.h"

/* ---- encoders -------------------------------------------------------------------------------- */

struct rows {
    const struct enc *enc;
    const float *x, *imp;
    uint8_t *out;
    int64_t n;
    uint64_t bytes;
    enum search search;
};

static void encode_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct rows *r = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        r->enc->row(r->x + i * r->n, r->imp, r->n, r->out + (uint64_t)i * r->bytes, r->search);
}

/* Returns the seconds per weight of encoding n_rows rows shared by the threads; 0: the type has no
 * encoder. */
static double time_type(struct rows *r, enum qtype t, int64_t n_rows, struct pool *pool) {
    r->enc = enc_find(t);
    r->bytes = qtype_row_bytes(t, r->n);
    if (!r->enc || !r->bytes) return 0;
    double best = HUGE_VAL;
    /* The first run builds tables, and the machine may be busy. */
    for (int k = 0; k < 3; k++) {
        double t0 = progress_now_s();
        pool_for(pool, n_rows, 1, encode_rows, r);
        best = fmin(best, progress_now_s() - t0);
    }
    return best / (double)(n_rows * r->n);
}

/* Returns whether a type is a candidate of mixes, apart from those for low budgets only. */
static bool is_timed(const struct qtype_info *q) {
    return q && (q->flags & (QF_MIX | QF_MIX_NARROW)) && !(q->flags & QF_LAST_RESORT);
}

static void time_encoders(struct rates *r, const float *x, const float *imp, int64_t n,
                          int64_t n_rows, struct pool *pool) {
    struct rows rows = {.x = x, .imp = imp, .n = n};
    rows.out = xmalloc((size_t)(n_rows * n) * 2);
    for (int t = 0; t < QT_COUNT; t++) {
        if (!is_timed(qtype_info(t))) continue;
        rows.search = SEARCH_FAST;
        r->encode[t] = time_type(&rows, (enum qtype)t, n_rows, pool);
        rows.search = SEARCH_BEST;
        r->encode_best[t] = time_type(&rows, (enum qtype)t, n_rows, pool);
    }
    free(rows.out);
}

/* ---- error feedback -------------------------------------------------------------------------- */

struct fed {
    struct fb_tensor *fb;
    const float *x;
    uint8_t *out;
    int64_t n;
    uint64_t bytes;
};

static bool load_row(void *ctx, int64_t row, float *x) {
    const struct fed *f = ctx;
    memcpy(x, f->x + row * f->n, (size_t)f->n * sizeof *x);
    return true;
}

static void feed_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct fed *f = ctx;
    for (int64_t i = begin; i < end; i++)
        fb_tensor_rows(f->fb, worker, 0, f->x + i * FEEDBACK_ROWS * f->n, FEEDBACK_ROWS,
                       f->out + (uint64_t)(i * FEEDBACK_ROWS) * f->bytes, f->bytes);
}

/* Returns second moments [n][n] of similar neighbors, freed by the caller. The content does not
 * change the time of factoring. */
static float *fake_moments(int64_t n, struct err *e) {
    float *m = try_calloc((size_t)(n * n), sizeof *m, "second moments", e);
    for (int64_t i = 0; m && i < n; i++)
        for (int64_t k = 0; k < n; k++) m[i * n + k] = 1000 * powf(.7F, (float)llabs(i - k));
    return m;
}

static int time_feedback(struct rates *r, const float *x, const float *imp, int64_t n,
                         int64_t n_rows, enum qtype type, struct pool *pool, struct err *e) {
    float *m = fake_moments(n, e);
    if (!m) return ERR_SYS;
    const float count[] = {1000};
    char name[] = "x";
    struct gram_input in = {
        .name = name, .n = n, .block = n, .n_mat = 1, .sum = {m, m}, .count = {count, count}};
    struct fed f = {.x = x, .n = n, .bytes = qtype_row_bytes(type, n)};
    const struct fb_source src = {.in = &in,
                                  .type = type,
                                  .search = SEARCH_BEST,
                                  .n = n,
                                  .rows = n_rows,
                                  .n_mat = 1,
                                  .imp = imp,
                                  .load = load_row,
                                  .ctx = &f,
                                  .steps = FEEDBACK_ALL,
                                  .pool = pool};
    f.out = xmalloc((size_t)n_rows * f.bytes);
    int rc = 0;
    r->feedback_tensor = r->feedback_weight = HUGE_VAL;
    for (int k = 0; k < 2 && !rc; k++) {
        double t0 = progress_now_s();
        rc = fb_tensor_new(&f.fb, &src, e);
        r->feedback_tensor = fmin(r->feedback_tensor, progress_now_s() - t0);
        if (!rc) rc = fb_tensor_matrix(f.fb, 0, e);
        t0 = progress_now_s();
        if (!rc) pool_for(pool, n_rows / FEEDBACK_ROWS, 1, feed_rows, &f);
        r->feedback_weight =
            fmin(r->feedback_weight, (progress_now_s() - t0) / (double)(n_rows * n));
        fb_tensor_free(f.fb);
        f.fb = NULL;
    }
    free(f.out);
    free(m);
    return rc;
}

/* Returns the columns of the timed rows, at most 2048. The time per weight hardly depends on them;
 * the caller scales the time of factoring. */
int64_t rates_columns(const struct shapes *s) {
    return s->widest >= 2048 ? 2048 : max_i64(256, s->widest / 256 * 256);
}

static int time_rows(struct rates *r, struct make *mk, const struct shapes *s, struct err *e) {
    struct pool *pool = mk->w->pool;
    const int64_t n = rates_columns(s);
    const int64_t n_rows = FEEDBACK_ROWS * pool_size(pool);
    float *x = xmalloc((size_t)((n_rows + 1) * n) * sizeof *x), *imp = x + n_rows * n;
    struct rng rng = {7};
    for (int64_t i = 0; i < n_rows * n; i++) x[i] = .05F * rng_normal(&rng);
    for (int64_t i = 0; i < n; i++) imp[i] = (float)(.2 + rng_unit(&rng));
    time_encoders(r, x, imp, n, n_rows, pool);
    enum log_level level = log_get_level();
    if (level > LOG_INFO) log_set_level(LOG_INFO);
    int rc = time_feedback(r, x, imp, n, n_rows, n % 256 ? QT_Q5_0 : QT_Q4_K, pool, e);
    if (!rc && n % 256 == 0) { /* grids take several times as long, and mixes have both */
        struct rates grid;
        rc = time_feedback(&grid, x, imp, n, n_rows, QT_IQ3_S, pool, e);
        if (!rc) {
            r->feedback_tensor = (r->feedback_tensor + grid.feedback_tensor) / 2;
            r->feedback_weight = (r->feedback_weight + grid.feedback_weight) / 2;
        }
    }
    log_set_level(level);
    free(x);
    return rc;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static int time_windows(struct rates *r, struct make *mk, struct model *m, const struct ids *ids,
                        struct err *e) {
    struct session *a = NULL, *b = NULL;
    struct eval_kld_run run;
    int rc;
    struct session_opts o = {.n_ctx = mk->eval_ctx,
                             .n_ubatch = passes_rows(mk->w, m, mk->eval_ctx, 2),
                             .isa = mk->w->isa,
                             .act = ACT_F32,
                             .pool = mk->w->pool,
                             .device = mk->w->device};
    TRY_GOTO(out, rc, session_new(&a, m, &o, e));
    TRY_GOTO(out, rc, session_new(&b, m, &o, e));
    const struct eval_domain all = {.name = "", .ids = ids->v, .n_ids = ids->n};
    struct eval_kld_job job = {.base = a,
                               .cand = &b,
                               .n_cand = 1,
                               .domain = &all,
                               .n_domains = 1,
                               .ctx = mk->eval_ctx,
                               .max_chunks = 1,
                               .from = -1,
                               .unshared = true};
    r->window = HUGE_VAL;
    /* The first pass reads the file. */
    for (double t0, from = progress_now_s(); progress_now_s() - from < .4;) {
        t0 = progress_now_s();
        TRY_GOTO(out, rc, eval_kld_open(&job, &run, e));
        eval_kld_close(&run);
        r->window = fmin(r->window, (progress_now_s() - t0) / 2);
    }
out:
    session_free(a);
    session_free(b);
    return rc;
}

/* Times two chunks, with or without second moments. */
static int time_imatrix(struct rates *r, struct make *mk, struct model *m, bool gram,
                        struct err *e) {
    struct imat im;
    struct gram_col *col = NULL;
    struct imatrix_opts o = {.texts = mk->calib.v,
                             .n_texts = mk->calib.n,
                             .ctx = mk->calib_ctx,
                             .max_chunks = 2,
                             .parse_special = true,
                             .isa = mk->w->isa,
                             .blas = gram ? blas_choice(mk->w) : 0,
                             .pool = mk->w->pool,
                             .device = mk->w->device};
    imat_init(&im);
    int rc = 0;
    if (gram) rc = gram_col_new(&col, 0, mk->w->isa, mk->w->pool, e);
    if (col && !mk->in.answers) gram_col_leave_out_gradients(col);
    o.gram = col;
    double t0 = progress_now_s();
    enum log_level level = log_get_level();
    log_set_level(LOG_ERROR); /* it would warn that two chunks miss most experts */
    if (!rc) rc = imatrix_collect(m, &o, &im, e);
    double t = progress_now_s() - t0, tokens = (double)mk->calib_ctx;
    if (gram) /* The survey takes one more chunk. */
        r->gram_token = fmax(0, (t / tokens - r->calib_token) / 2 - r->calib_token);
    else
        r->calib_token = t / tokens / 2;
    if (!rc && mk->dry_run && !mk->imatrix) { /* its metadata counts in file sizes */
        mk->imatrix = io_join(mk->job.state, "imatrix.gguf");
        rc = imat_write(&im, mk->imatrix, IMAT_GGUF, true, e);
    }
    log_set_level(level);
    gram_col_free(col);
    imat_release(&im);
    return rc;
}

static int count_tokens(const struct model *m, const struct str_list *texts, struct ids *ids,
                        int64_t *n, struct err *e) {
    ids->n = 0;
    for (int i = 0; i < texts->n; i++) TRY(corpus_load(m, texts->v[i], true, ids, e));
    *n = ids->n;
    return 0;
}

static int time_model(struct rates *r, struct make *mk, const char *base, struct err *e) {
    struct model *m = NULL;
    struct ids ids = {0};
    int rc;
    TRY(open_model(mk->w, &m, base, e));
    TRY_GOTO(out, rc, count_tokens(m, &mk->calib, &ids, &r->calib_tokens, e));
    TRY_GOTO(out, rc, count_tokens(m, &mk->probe, &ids, &r->probe_tokens, e));
    TRY_GOTO(out, rc, count_tokens(m, &mk->eval, &ids, &r->eval_tokens, e));
    while (ids.n < 2 * mk->eval_ctx) ids_add(&ids, ids.n ? ids.v[ids.n - 1] : 0);
    ids.n = 2 * mk->eval_ctx;
    TRY_GOTO(out, rc, time_windows(r, mk, m, &ids, e));
    TRY_GOTO(out, rc, time_imatrix(r, mk, m, false, e));
    if (mk->in.feedback) rc = time_imatrix(r, mk, m, true, e);
out:
    ids_release(&ids);
    model_close(m);
    return rc;
}

/* ---- without a model ------------------------------------------------------------------------- */

static int text_tokens(const struct str_list *texts, int64_t *n, struct err *e) {
    *n = 0;
    for (int i = 0; i < texts->n; i++) {
        uint64_t size;
        TRY(io_file_size(texts->v[i], &size, e));
        *n += (int64_t)(size / 4); /* bytes per token */
    }
    return 0;
}

static const double disk_rate = 1e9; /* bytes per second of a good disk */

/* A product of the size that passes consist of, on every thread at once. */
struct gemm {
    struct kern k;
    double flops[256];
};
static void gemm_rate(void *ctx, int64_t begin, int64_t end, int worker) {
    struct gemm *g = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        g->flops[i] = kern_bench_gemm(&g->k, 128, 64, 2048, .2) * 1e9;
}

static int guess_model(struct rates *r, struct make *mk, const struct shapes *s, struct err *e) {
    struct gemm g = {0};
    const int n = pool_size(mk->w->pool) < 256 ? pool_size(mk->w->pool) : 256;
    struct shapes_gram gram;
    double rate = 0;
    kern_init(&g.k, mk->w->isa);
    pool_for(mk->w->pool, n, 1, gemm_rate, &g);
    for (int i = 0; i < n; i++) rate += g.flops[i];
    shapes_gram(s, &gram);
    /* The factor covers attention, norms and decoding. */
    r->calib_token = 1.3 * 2 * s->active / rate;
    r->gram_token = 1.3 * gram.flops / rate;
    r->window = r->calib_token * (double)mk->eval_ctx;
    const double have = (double)mem_available(), all = (double)s->base_bytes;
    if (have > 0 && all > have) { /* the rest is read again at every window */
        r->window += (all - have) / disk_rate;
        r->calib_token += (all - have) / disk_rate / (double)mk->calib_ctx;
    }
    TRY(text_tokens(&mk->calib, &r->calib_tokens, e));
    TRY(text_tokens(&mk->probe, &r->probe_tokens, e));
    return text_tokens(&mk->eval, &r->eval_tokens, e);
}

/* Returns whether timing real passes is cheap. A model that fits into memory takes seconds; a
 * larger one would be read from disk for every pass. A dry run times only models up to 8 GiB. */
static bool worth_running(const struct make *mk, const struct shapes *s) {
    const uint64_t most = mk->dry_run ? (uint64_t)8 << 30 : UINT64_MAX, have = mem_available();
    return s->base_bytes <= most && (!have || s->base_bytes <= have / 5 * 4);
}

int rates_measure(struct rates *r, struct make *mk, const struct shapes *s, const char *base,
                  struct err *e) {
    *r = (struct rates){.bandwidth = eval_bandwidth(mk->w->pool) * 1e9};
    TRY(time_rows(r, mk, s, e));
    if (!worth_running(mk, s)) base = NULL;
    TRY(base ? time_model(r, mk, base, e) : guess_model(r, mk, s, e));
    if (base && !mk->in.feedback && s->active > 0) { /* no memory to measure it */
        struct shapes_gram gram;
        shapes_gram(s, &gram);
        r->gram_token = r->calib_token * gram.flops / (2 * s->active);
    }
    log_debug("a window %.4f s; a token of calibration %.2e s, with moments %.2e s more; a weight "
              "in Q4_K %.2e s, in IQ3_S %.2e s, best %.2e s and %.2e s, with feedback %.2e s; a "
              "shrinkage %.4f s; %.1f GB/s",
              r->window, r->calib_token, r->gram_token, r->encode[QT_Q4_K], r->encode[QT_IQ3_S],
              r->encode_best[QT_Q4_K], r->encode_best[QT_IQ3_S], r->feedback_weight,
              r->feedback_tensor, r->bandwidth / 1e9);
    return 0;
}
