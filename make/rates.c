// SPDX-License-Identifier: MIT
/* make/rates.c - timing of a model's passes. Affects only forecasts, never bytes. */
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
#include "base/os.h"
#include "base/progress.h"
#include "runtime/measure/eval.h"

/* ---- passes ---------------------------------------------------------------------------------- */

/* Measures the time of an evaluation window: sets r->window in seconds, and r->on_card. */
static int time_windows(struct rates *r, struct make *mk, struct model *m, const struct ids *ids,
                        struct err *e) {
    struct session *a = NULL, *b = NULL;
    struct eval_kld_run run;
    int rc;
    struct session_opts o = {.n_ctx = mk->eval_ctx,
                             .n_ubatch = passes_rows(mk->w, m, mk->eval_ctx, 2),
                             .reread = passes_reread(gguf_file_bytes(m->gguf)),
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
    /* The first pass also reads the file. */
    for (double t0, from = progress_now_s(); progress_now_s() - from < .4;) {
        t0 = progress_now_s();
        TRY_GOTO(out, rc, eval_kld_open(&job, &run, e));
        eval_kld_close(&run);
        r->window = fmin(r->window, (progress_now_s() - t0) / 2);
    }
    r->on_card = strcmp(session_info(a).device, "cuda") == 0;
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
                             .moments_there = !mk->w->isa_given,
                             .blas = gram ? blas_choice(mk->w) : 0,
                             .pool = mk->w->pool,
                             .device = mk->w->device};
    imat_init(&im);
    int rc = 0;
    if (gram) rc = gram_col_new(&col, 0, mk->w->isa, mk->w->pool, e);
    if (col && !mk->in.answers) gram_col_leave_out_gradients(col);
    o.gram = col;
    double t = 0;
    o.seconds = &t;
    enum log_level level = log_get_level();
    log_set_level(LOG_ERROR); /* hides the warning that two chunks miss most experts */
    if (!rc) rc = imatrix_collect(m, &o, &im, e);
    const double token = t / (2 * (double)mk->calib_ctx);
    if (gram)
        r->gram_token = fmax(0, token - r->calib_token);
    else
        r->calib_token = token;
    if (!rc && mk->dry_run && !mk->imatrix) { /* its metadata counts towards file sizes */
        mk->imatrix = io_join(mk->job.state, "imatrix.gguf");
        rc = imat_write(&im, mk->imatrix, IMAT_GGUF, true, e);
    }
    log_set_level(level);
    gram_col_free(col);
    imat_release(&im);
    return rc;
}

/* Counts the tokens of all texts; ids receives the tokens. */
static int count_tokens(const struct model *m, const struct str_list *texts, struct ids *ids,
                        int64_t *n, struct err *e) {
    ids->n = 0;
    for (int i = 0; i < texts->n; i++) TRY(corpus_load(m, texts->v[i], true, ids, e));
    *n = ids->n;
    return 0;
}

/* Measures the base model's passes and counts the texts' tokens. */
static int time_model(struct rates *r, struct make *mk, const char *base, struct err *e) {
    struct model *m = NULL;
    struct ids ids = {0};
    int rc;
    TRY(open_model(mk->w, &m, base, e));
    TRY_GOTO(out, rc, count_tokens(m, &mk->calib, &ids, &r->calib_tokens, e));
    TRY_GOTO(out, rc, count_tokens(m, &mk->probe, &ids, &r->probe_tokens, e));
    if (!mk->probe.n) r->probe_tokens = r->calib_tokens;
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

/* Estimates the number of tokens in texts from their sizes. */
static int text_tokens(const struct str_list *texts, int64_t *n, struct err *e) {
    *n = 0;
    for (int i = 0; i < texts->n; i++) {
        uint64_t size;
        TRY(io_file_size(texts->v[i], &size, e));
        *n += (int64_t)(size / 4); /* bytes per token */
    }
    return 0;
}

/* Returns the size of the unquantized projector. */
static double tower_bytes(const struct make *mk) {
    return mk->tower.n_files ? (double)mk->tower.file[0].size_bytes : 0;
}

/* Sets what --depths, which make_ask has checked, adds to the speed measurement. */
static void add_depths(const struct make *mk, struct estimate_opts *o) {
    int64_t depth[EVAL_MAX_LIST];
    int n = 0;
    struct err ignored;
    if (eval_parse_list(mk->depths, "--depths", depth, &n, &ignored)) return;
    o->n_depths = n;
    for (int i = 0; i < n; i++) {
        o->depth_tokens += depth[i];
        o->deepest = max_i64(o->deepest, depth[i]);
    }
}

/* Sets the number of cases that each file answers, by kind of suite. */
static void count_cases(const struct make *mk, int64_t n[SUITE_KINDS]) {
    enum { LOOPS = 13, CHECKS = 16 }; /* in the built-in suites */
    char *source = io_join(mk->src, "tools.jsonl"), *path[SUITE_KINDS];
    struct err ignored;
    (void)make_suites(mk, path, &ignored);
    n[SUITE_TOOLS] = path[SUITE_TOOLS] || (!mk->tools && io_exists(source)) ? mk->tools_cases : 0;
    n[SUITE_LOOPS] = path[SUITE_LOOPS] ? LOOPS : 0;
    n[SUITE_CHECKS] = path[SUITE_CHECKS] ? CHECKS : 0;
    for (int k = 0; k < SUITE_KINDS; k++) free(path[k]);
    free(source);
}

void rates_opts(const struct make *mk, struct estimate_opts *out) {
    int64_t cases[SUITE_KINDS];
    count_cases(mk, cases);
    *out = (struct estimate_opts){.files = {&mk->classes, &mk->recipes},
                                  .calib_ctx = mk->calib_ctx,
                                  .calib_chunks = mk->calib_chunks,
                                  .eval_ctx = mk->eval_ctx,
                                  .eval_chunks = mk->eval_chunks,
                                  .pp = mk->pp,
                                  .tg = mk->tg,
                                  .reps = mk->reps,
                                  .draft_windows = mk->drafts ? MAKE_DRAFT_WINDOWS : 0,
                                  .questions = mk->image_facts.n_questions,
                                  .image_tokens = mk->image_facts.n_tokens,
                                  .image_patches = mk->image_facts.n_patches,
                                  .tower_bytes = tower_bytes(mk),
                                  .tools_cases = cases[SUITE_TOOLS],
                                  .loops = cases[SUITE_LOOPS],
                                  .checks = cases[SUITE_CHECKS],
                                  .convert = io_is_dir(mk->src),
                                  .best = mk->search && strcmp(mk->search, "best") == 0};
    add_depths(mk, out);
}

/* Returns the path of the largest file of the source, freed by the caller; NULL: there is no
 * file. */
static char *largest_file(const char *src, uint64_t *size) {
    struct io_names all;
    struct err ignored;
    char *best = NULL;
    *size = 0;
    if (!io_is_dir(src)) return io_file_size(src, size, &ignored) ? NULL : xstrdup(src);
    if (io_list(&all, src, &ignored)) return NULL;
    for (int i = 0; i < all.n; i++) {
        char *path = io_join(src, all.v[i]);
        uint64_t n;
        if (!io_is_dir(path) && io_file_size(path, &n, &ignored) == 0 && n > *size) {
            free(best);
            best = path;
            *size = n;
        } else {
            free(path);
        }
    }
    io_names_release(&all);
    return best;
}

enum { PIECE = 1 << 22, PIECES = 15 };
static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median rate, in bytes per second, at which a few places of a file are read after they
 * have been dropped from the file cache; 0: the file is too small or has holes. */
static double read_rate(int fd, uint64_t size) {
    double rate[PIECES], seconds = 0;
    struct os_stat st;
    int n = 0;
    if (size < 4ULL * PIECE * PIECES || os_fstat(fd, &st) || st.stored < size / 2) return 0;
    char *at = xmalloc(PIECE);
    for (; n < PIECES && seconds < .5; n++) {
        const uint64_t off = size / PIECES * (uint64_t)n / PIECE * PIECE;
        (void)os_uncache(fd, off, PIECE);
        const double t0 = progress_now_s();
        if (os_pread(fd, at, PIECE, off) != PIECE) break;
        const double s = progress_now_s() - t0;
        rate[n] = PIECE / fmax(1e-9, s);
        seconds += s;
    }
    free(at);
    qsort(rate, (size_t)n, sizeof *rate, by_value);
    return n ? rate[n / 2] : 0;
}

/* Returns the speed of reading the source from disk, in bytes per second. */
static double disk_rate(const char *src) {
    /* rate of a good disk, and a rate above that of any disk, which means that the places were
     * still cached */
    static const double usual = 1e9, most = 1e10;
    uint64_t size;
    char *path = largest_file(src, &size);
    const int fd = path ? os_open(path, OS_READ, 0) : -1;
    const double rate = fd >= 0 ? read_rate(fd, size) : 0;
    if (fd >= 0) os_close(fd);
    free(path);
    return rate > 0 ? fmin(most, rate) : usual;
}

int rates_first(struct rates *r, struct make *mk, const struct shapes *s, struct err *e) {
    struct estimate_opts o;
    *r = (struct rates){.memory = (double)mem_available(), .disk = disk_rate(mk->src)};
    rates_opts(mk, &o);
    if (!(mk->speeds.product > 0)) TRY(speeds_find(&mk->speeds, &mk->busy, mk->w, e));
    /* Other processes may end before a long job does, so assume that at least a quarter of the
     * processors is available. */
    r->speeds = speeds_scaled(&mk->speeds, fmax(.25, 1 - mk->busy));
    TRY(text_tokens(&mk->calib, &r->calib_tokens, e));
    TRY(text_tokens(&mk->probe, &r->probe_tokens, e));
    TRY(text_tokens(&mk->eval, &r->eval_tokens, e));
    if (!mk->probe.n) r->probe_tokens = r->calib_tokens;
    rates_guess(r, s, &o);
    return 0;
}

bool rates_worth_running(const struct rates *r, const struct make *mk, const struct shapes *s) {
    enum { CHUNKS = 5 }; /* chunks of calibration: two without moments, three with them */
    static const double most = 6;
    const uint64_t have = mem_available();
    const bool fits = !have || s->base_bytes <= have / 5 * 4;
    const double chunk = (double)mk->calib_ctx * r->calib_token,
                 gram = mk->in.feedback ? 3 * (double)mk->calib_ctx * r->gram_token : 0;
    const double convert = mk->n_files ? 0 : (double)s->base_bytes / 2e8;
    return fits && (!mk->dry_run || convert + 2 * r->window + CHUNKS * chunk + gram <= most);
}

int rates_model(struct rates *r, struct make *mk, const struct shapes *s, const char *base,
                struct err *e) {
    TRY(time_model(r, mk, base, e));
    /* Gradients and single blocks run on the processor, for which the guess remains. */
    if (!r->on_card) r->pass_token = r->window / (double)mk->eval_ctx;
    r->measured = true;
    if (!mk->in.feedback && s->active > 0) { /* memory did not suffice to measure it */
        struct shapes_gram gram;
        shapes_gram(s, &gram);
        r->gram_token = r->calib_token * gram.flops / (2 * s->active);
    }
    return 0;
}
