// SPDX-License-Identifier: MIT
/* make/speeds.c - timing of encoders, error feedback and products on random rows. */
#include "make/speeds.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/os.h"
#include "base/progress.h"
#include "base/rng.h"
#include "kernels/bench.h"
#include "quantize/enc/gridq.h"
#include "quantize/fb_tensor.h"
#include "quantize/feedback.h"
#include "runtime/measure/eval.h"
#include "work/isa_choice.h"

/* ---- kinds ----------------------------------------------------------------------------------- */

enum fed_kind fed_kind(enum qtype t) {
    if (grid_spec_of(t)) return FED_GRIDS;
    return qtype_info(t)->block_elems % QK == 0 ? FED_CODES : FED_NARROW;
}

/* Returns the time for n columns, by the power law through the times for FED_SMALL and FED_LARGE.
 * Its exponent is limited to that of linear to cubic work. */
static double power(double at_small, double at_large, double n) {
    double p = log(at_large / at_small) / log((double)FED_LARGE / FED_SMALL);
    if (!(at_small > 0) || !(at_large > 0)) return 0;
    p = fmin(3, fmax(1, p));
    return at_large * pow(n / FED_LARGE, p);
}

double fed_choose(const struct speeds *s, enum fed_kind k, double n) {
    return power(s->fed[k][0].choose, s->fed[k][1].choose, n);
}

double fed_factors(const struct speeds *s, double n) {
    return power(s->fed[0][0].factors, s->fed[0][1].factors, n);
}

double fed_factor(const struct speeds *s, double n) {
    return power(s->fed[0][0].factor, s->fed[0][1].factor, n);
}

double fed_weight(const struct speeds *s, enum fed_kind k, double n) {
    const double a = s->fed[k][0].weight, b = s->fed[k][1].weight;
    const double at = a + (b - a) * (n - FED_SMALL) / (FED_LARGE - FED_SMALL);
    return fmax(at, fmin(a, b) / 2);
}

/* ---- time of a quiet machine ----------------------------------------------------------------- */

/* Adds the seconds for which this process's threads ran, and for which they waited for a processor.
 * Only Linux reports them. */
static void thread_times(double *ran, double *waited) {
    struct io_names all;
    struct err ignored;
    *ran = *waited = 0;
    if (io_list(&all, "/proc/self/task", &ignored)) return;
    for (int i = 0; i < all.n; i++) {
        char path[300];
        unsigned long long run = 0, wait = 0;
        snprintf(path, sizeof path, "/proc/self/task/%.200s/schedstat", all.v[i]);
        FILE *f = os_fopen(path, "r");
        if (f && fscanf(f, "%llu %llu", &run, &wait) == 2) {
            *ran += (double)run * 1e-9;
            *waited += (double)wait * 1e-9;
        }
        if (f) fclose(f);
    }
    io_names_release(&all);
}

struct watch {
    double t0, ran, waited;
};
/* Starts measuring wall-clock time and the time that the threads ran. */
static void watch_start(struct watch *w) {
    thread_times(&w->ran, &w->waited);
    w->t0 = progress_now_s();
}

/* Returns for what share of the time since watch_start the runnable threads actually ran. */
static double watch_share(const struct watch *w) {
    double ran, waited;
    thread_times(&ran, &waited);
    ran -= w->ran;
    waited -= w->waited;
    return ran > 0 && waited > 0 ? ran / (ran + waited) : 1;
}

/* Returns how long the work since watch_start would have taken on an idle machine. */
static double watch_quiet(const struct watch *w) {
    const double wall = progress_now_s() - w->t0;
    return wall * watch_share(w);
}

/* ---- random rows ----------------------------------------------------------------------------- */

/* Choosing a shrinkage tries 32 rows. */
enum { COLUMNS = FED_LARGE, LEAST_ROWS = 32 };
struct data {
    int64_t n_rows;
    float *x, *imp, *y; /* [n_rows][COLUMNS] rows; importance of the columns; a decoded row */
    uint8_t *out;
    struct pool *pool;
};

/* Fills in rows like those of models: normally distributed weights, log-normal importance. */
static void fill(struct data *d, struct pool *pool) {
    struct rng rng = {7};
    d->pool = pool;
    d->n_rows = max_i64(LEAST_ROWS, FEEDBACK_GROUP * pool_size(pool));
    d->x = xmalloc((size_t)((d->n_rows + 2) * COLUMNS) * sizeof *d->x);
    d->imp = d->x + d->n_rows * COLUMNS;
    d->y = d->imp + COLUMNS;
    d->out = xmalloc((size_t)(d->n_rows * COLUMNS) * 2);
    for (int64_t i = 0; i < d->n_rows * COLUMNS; i++) d->x[i] = .05F * rng_normal(&rng);
    for (int64_t i = 0; i < COLUMNS; i++) d->imp[i] = expf(rng_normal(&rng));
}

/* ---- encoders -------------------------------------------------------------------------------- */

struct rows {
    const struct data *d;
    const struct enc *enc;
    uint64_t bytes;
    enum search search;
};

/* Encodes rows begin to end - 1; a pool_fn. */
static void encode_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct rows *r = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        r->enc->row(r->d->x + i * COLUMNS, r->d->imp, COLUMNS, r->d->out + (uint64_t)i * r->bytes,
                    r->search);
}

/* Returns the time, in seconds, to encode the first n rows, divided among the threads. */
static double time_rows(struct rows *r, int64_t n) {
    struct watch w;
    watch_start(&w);
    pool_for(r->d->pool, n, 1, encode_rows, r);
    return watch_quiet(&w);
}

/* Returns the time to encode a weight, in seconds, with the rows divided among the threads; 0 if
 * the type has no encoder. */
static double time_type(const struct data *d, enum qtype t, enum search search) {
    static const double trial = .01; /* seconds that a trial should take */
    struct rows r = {d, enc_find(t), qtype_row_bytes(t, COLUMNS), search};
    if (!r.enc || !r.bytes) return 0;
    const int64_t threads = pool_size(d->pool); /* at most n_rows */
    time_rows(&r, 1);                           /* builds tables */
    const double once = time_rows(&r, threads);
    const double rounds = fmin((double)(d->n_rows / threads), ceil(trial / fmax(1e-9, once)));
    const int64_t n = threads * (int64_t)rounds;
    double best = HUGE_VAL; /* other work may slow down a trial */
    for (int k = 0; k < 2; k++) best = fmin(best, time_rows(&r, n));
    return best / (double)(n * COLUMNS);
}

/* Returns the weighted squared error of the first encoded row, relative to the row. */
static double error_of(const struct data *d, const struct kern *ref, enum qtype t) {
    double err = 0, all = 0;
    ref->op[t].decode(d->out, d->y, COLUMNS);
    for (int64_t i = 0; i < COLUMNS; i++) {
        const double x = (double)d->x[i], w = (double)d->imp[i], diff = x - (double)d->y[i];
        err += w * diff * diff;
        all += w * x * x;
    }
    return err / all;
}

/* Returns whether mixes may use a type; excludes those that only low budgets use. */
static bool is_timed(const struct qtype_info *q) {
    return q && (q->flags & (QF_MIX | QF_MIX_NARROW)) && !(q->flags & QF_LAST_RESORT);
}

/* Measures the time and error of the encoders of all types. */
static void time_encoders(struct speeds *s, const struct data *d) {
    struct kern *ref = xcalloc(1, sizeof *ref);
    kern_init(ref, KERN_REF);
    for (int t = 0; t < QT_COUNT; t++) {
        if (!is_timed(qtype_info(t))) continue;
        s->encode[t] = time_type(d, (enum qtype)t, SEARCH_FAST);
        if (s->encode[t] > 0) s->error[t] = error_of(d, ref, (enum qtype)t);
        s->encode_best[t] = time_type(d, (enum qtype)t, SEARCH_BEST);
    }
    free(ref);
}

/* ---- error feedback -------------------------------------------------------------------------- */

struct fed {
    const struct data *d;
    struct fb_tensor *fb;
    int64_t n;
    uint64_t bytes;
};

/* Copies a row for the encoder; cannot fail. */
static bool load_row(void *ctx, int64_t row, float *x) {
    const struct fed *f = ctx;
    memcpy(x, f->d->x + row * f->n, (size_t)f->n * sizeof *x);
    return true;
}

/* Encodes groups of rows with error feedback; a pool_fn. */
static void feed_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct fed *f = ctx;
    for (int64_t i = begin; i < end; i++)
        fb_tensor_rows(f->fb, worker, 0, f->d->x + i * FEEDBACK_GROUP * f->n, FEEDBACK_GROUP,
                       f->d->out + (uint64_t)(i * FEEDBACK_GROUP) * f->bytes, f->bytes);
}

/* Returns second moments [n][n] like those of inputs, freed by the caller: similar neighbors, a few
 * directions common to all columns, and scales by importance. No entry or factor is subnormal,
 * because some processors multiply subnormals many times more slowly. */
static float *fake_moments(const struct data *d, int64_t n, struct err *e) {
    enum { RANK = 4 };
    struct rng rng = {11};
    float *m = try_calloc((size_t)(n * n), sizeof *m, "second moments", e);
    float *dir = xcalloc((size_t)(RANK * n), sizeof *dir), *near = xcalloc((size_t)n, sizeof *near);
    for (int64_t i = 0; i < RANK * n; i++) dir[i] = .3F * rng_normal(&rng);
    for (int64_t i = 0; i < n; i++) near[i] = (float)fmax(1e-6, pow(.9, (double)i));
    for (int64_t i = 0; m && i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            float c = near[llabs(i - k)];
            for (int r = 0; r < RANK; r++) c += dir[r * n + i] * dir[r * n + k];
            m[i * n + k] = 1000 * c * sqrtf(d->imp[i] * d->imp[k]);
        }
    free(dir);
    free(near);
    return m;
}

/* Times a type on n columns. `store` holds the factors of types timed before. */
static int time_feedback(struct fed_speed *out, const struct data *d, const struct gram_input *in,
                         struct factors *store, enum qtype type, struct err *e) {
    struct fed f = {.d = d, .n = in->n, .bytes = qtype_row_bytes(type, in->n)};
    const struct fb_source src = {.in = in,
                                  .type = type,
                                  .search = SEARCH_BEST,
                                  .n = in->n,
                                  .rows = d->n_rows,
                                  .n_mat = 1,
                                  .imp = d->imp,
                                  .load = load_row,
                                  .ctx = &f,
                                  .steps = FEEDBACK_ALL,
                                  .pool = d->pool,
                                  .factors = store};
    const int64_t made = factors_made(store);
    struct watch w;
    watch_start(&w);
    TRY(fb_tensor_new(&f.fb, &src, e));
    out->choose = watch_quiet(&w);
    if (factors_made(store) > made) { /* again, now that the factors are known */
        fb_tensor_free(f.fb);
        const double first = out->choose;
        watch_start(&w);
        TRY(fb_tensor_new(&f.fb, &src, e));
        out->choose = watch_quiet(&w);
        out->factors = fmax(0, first - out->choose);
    }
    watch_start(&w);
    int rc = fb_tensor_matrix(f.fb, 0, e);
    out->factor = watch_quiet(&w);
    out->weight = HUGE_VAL;
    for (int k = 0; k < 2 && !rc; k++) {
        watch_start(&w);
        pool_for(d->pool, d->n_rows / FEEDBACK_GROUP, 1, feed_rows, &f);
        out->weight = fmin(out->weight, watch_quiet(&w) / (double)(d->n_rows * in->n));
    }
    fb_tensor_free(f.fb);
    return rc;
}

/* Measures feedback for one type of each kind on matrices of n columns; sets s->fed[kind][at]. */
static int time_kinds(struct speeds *s, const struct data *d, int at, int64_t n, struct err *e) {
    static const enum qtype type[FED_KINDS] = {QT_Q4_K, QT_IQ3_S, QT_IQ4_NL};
    float *m = fake_moments(d, n, e);
    if (!m) return ERR_SYS;
    const float count[] = {1000};
    char name[] = "x";
    const struct gram_input in = {
        .name = name, .n = n, .block = n, .n_mat = 1, .sum = {m, m}, .count = {count, count}};
    struct factors *store = factors_new();
    int rc = 0;
    for (int k = 0; k < FED_KINDS && !rc; k++)
        rc = time_feedback(&s->fed[k][at], d, &in, store, type[k], e);
    factors_free(store);
    free(m);
    return rc;
}

/* ---- products -------------------------------------------------------------------------------- */

/* A product of the size that passes consist of, computed by every thread at the same time. */
struct gemm {
    struct kern k;
    double flops[256];
};
/* Measures each item's rate in FLOP per second; a pool_fn. */
static void gemm_rate(void *ctx, int64_t begin, int64_t end, int worker) {
    struct gemm *g = ctx;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        g->flops[i] = kern_bench_gemm(&g->k, 128, 64, 2048, .2) * 1e9;
}

/* Returns the FLOP per second of matrix products over all threads. */
static double product_rate(const struct work *w) {
    struct gemm *g = xcalloc(1, sizeof *g);
    const int n = pool_size(w->pool) < 256 ? pool_size(w->pool) : 256;
    double rate = 0;
    kern_init(&g->k, w->isa);
    pool_for(w->pool, n, 1, gemm_rate, g);
    for (int i = 0; i < n; i++) rate += g->flops[i];
    free(g);
    return rate;
}

/* Returns whether --max-memory allows the trials with FED_LARGE columns: moments and six
 * factors. */
static bool has_room(void) {
    uint64_t limit;
    const uint64_t room = buf_room(&limit);
    return !limit || room >= (uint64_t)1 << 28;
}

/* Derives the times for FED_LARGE columns from those for FED_SMALL: choices are quadratic, factors
 * cubic, and half of the time per weight is linear. */
static void extrapolate(struct speeds *s) {
    static const double by = (double)FED_LARGE / FED_SMALL;
    for (int k = 0; k < FED_KINDS; k++) {
        const struct fed_speed *a = &s->fed[k][0];
        s->fed[k][1] = (struct fed_speed){.choose = a->choose * by * by,
                                          .factors = a->factors * by * by * by,
                                          .factor = a->factor * by * by * by,
                                          .weight = a->weight * (1 + by) / 2};
    }
}

/* Measures all speeds of this machine. */
static int measure(struct speeds *s, const struct work *w, struct err *e) {
    struct data d;
    s->bandwidth = eval_bandwidth(w->pool) * 1e9;
    fill(&d, w->pool);
    time_encoders(s, &d);
    const enum log_level level = log_get_level();
    if (level > LOG_INFO) log_set_level(LOG_INFO);
    int rc = time_kinds(s, &d, 0, FED_SMALL, e);
    if (!rc && has_room()) rc = time_kinds(s, &d, 1, FED_LARGE, e);
    if (!rc && !has_room()) extrapolate(s);
    log_set_level(level);
    free(d.x);
    free(d.out);
    return rc;
}

/* ---- the record ------------------------------------------------------------------------------ */

enum { FORMAT = 3, N_NUMBERS = sizeof(struct speeds) / sizeof(double) };
static_assert(N_NUMBERS * sizeof(double) == sizeof(struct speeds), "only doubles");

struct speeds speeds_scaled(const struct speeds *s, double by) {
    struct speeds out = *s;
    out.product *= by;
    out.bandwidth *= by;
    for (int t = 0; t < QT_COUNT; t++) {
        out.encode[t] /= by;
        out.encode_best[t] /= by;
    }
    for (int k = 0; k < FED_KINDS; k++)
        for (int i = 0; i < 2; i++) {
            struct fed_speed *f = &out.fed[k][i];
            f->choose /= by;
            f->factors /= by;
            f->factor /= by;
            f->weight /= by;
        }
    return out;
}

char *speeds_text(const struct speeds *s, const char *isa, int threads) {
    double v[N_NUMBERS];
    struct buf b = {0};
    memcpy(v, s, sizeof v);
    buf_fmt(&b, "speeds %d %s %d", FORMAT, isa, threads);
    for (int i = 0; i < N_NUMBERS; i++) buf_fmt(&b, "\n%.17g", v[i]);
    buf_str(&b, "\n");
    return buf_take(&b);
}

bool speeds_read(struct speeds *s, const char *text, const char *isa, int threads) {
    double v[N_NUMBERS];
    char head[80];
    const int n = snprintf(head, sizeof head, "speeds %d %s %d\n", FORMAT, isa, threads);
    if (strncmp(text, head, (size_t)n) != 0) return false;
    text += n - 1;
    for (int i = 0; i < N_NUMBERS; i++) {
        char *end;
        v[i] = strtod(text, &end);
        if (end == text || !(v[i] >= 0 && v[i] < 1e18)) return false;
        text = end;
    }
    memcpy(s, v, sizeof *s);
    return s->product > 0 && strcmp(text, "\n") == 0;
}

int speeds_find(struct speeds *s, double *busy, const struct work *w, struct err *e) {
    /* If products are faster by this factor than recorded, the machine was busy when they were
     * recorded. */
    static const double much_faster = 1.15;
    const char *isa = kern_isa_name(w->isa);
    const int threads = pool_size(w->pool);
    struct watch watch;
    watch_start(&watch);
    const double now = product_rate(w);
    char file[32];
    snprintf(file, sizeof file, "speeds-%d", threads);
    char *text = choice_read(w->choices, file);
    const bool known = text && speeds_read(s, text, isa, threads);
    struct err ignored;
    *busy = 1 - watch_share(&watch);
    free(text);
    if (known && now < much_faster * s->product) {
        *s = speeds_scaled(s, fmin(1, now / s->product));
        return 0;
    }
    *s = (struct speeds){.product = now};
    TRY(measure(s, w, e));
    if (!has_room()) return 0;
    text = speeds_text(s, isa, threads);
    if (choice_write(w->choices, file, text, &ignored))
        log_debug("the speeds of this machine were not saved: %s", ignored.msg);
    free(text);
    return 0;
}
