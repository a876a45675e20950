// SPDX-License-Identifier: MIT
/* make/measure.c - the steps of `hone make` that measure: perplexity and divergence of every file
 * in one pass over the text (base and candidates run together), then speed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/imatrix.h"
#include "work/device.h"
#include "runtime/measure/job.h"
#include "runtime/measure/measurement_cache.h"
#include "make/make.h"
#include "work/open.h"
#include "work/passes.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/str.h"
#include "runtime/measure/eval.h"

/* ---- perplexity and divergence --------------------------------------------------------------- */

/* Begins the step that evaluates f; its key contains everything that the result depends on. */
static int eval_step(struct make *mk, const struct made *f, struct step *s, struct err *e) {
    char *name = xasprintf("eval-%s", f->is_base ? "base" : f->recipe);
    step_init(s, &mk->job, name);
    free(name);
    step_key(s, "base", "%s", mk->file[0].hash);
    step_key(s, "file", "%s", f->hash);
    step_key(s, "ctx", "%" PRId64 " %" PRId64, mk->eval_ctx, mk->eval_chunks);
    if (mk->by_depth) step_key(s, "rows", "%s", "by depth");
    for (int i = 0; i < mk->eval.n; i++) {
        char hex[33];
        TRY(job_file_hash(&mk->job, mk->eval.v[i], hex, e));
        step_key(s, "text", "%s", hex);
    }
    return 0;
}

/* Appends rows grouped as in `hone eval kld --by-depth`: 1..63 tokens of context, 64..127, ... */
static void put_depths(cJSON *to, const struct eval_kld_run *r, int cand) {
    cJSON *rows = doc_arr(to, "by_depth");
    for (int64_t lo = 1, hi = 64; lo < r->ctx; lo = hi, hi *= 2) {
        struct eval_group g;
        eval_kld_group(r, cand, -1, lo - 1, hi - 1, &g);
        if (!g.n_tokens) continue;
        cJSON *row = doc_obj(rows, NULL);
        doc_put_i64(row, "from", lo);
        doc_put_i64(row, "to", min_i64(hi, r->ctx) - 1);
        doc_put_i64(row, "n_tokens", g.n_tokens);
        doc_put_num(row, "mean_kld", g.mean_kld);
        if (g.n_chunks > 1) doc_put_num(row, "mean_kld_stderr", g.mean_kld_stderr);
    }
}

/* Returns the results of a candidate, or of the base, which are the same in the run of any
 * candidate. */
static cJSON *kld_result(const struct eval_kld_run *r, int cand, bool base) {
    struct eval_kld total, *k = &total;
    eval_kld_total(r, cand, k);
    cJSON *o = doc_new();
    doc_put_i64(o, "n_tokens", k->n_tokens);
    doc_put_i64(o, "n_chunks", k->n_chunks);
    doc_put_num(o, "ppl", base ? k->ppl_base : k->ppl);
    doc_put_num(o, "ppl_stderr", base ? k->ppl_base_stderr : k->ppl_stderr);
    if (base) return o;
    doc_put_num(o, "ppl_base", k->ppl_base);
    doc_put_num(o, "ppl_ratio", k->ppl_ratio);
    doc_put_num(o, "mean_kld", k->mean_kld);
    doc_put_num(o, "mean_kld_stderr", k->mean_kld_stderr);
    if (isfinite(k->mean_kld_stderr_windows))
        doc_put_num(o, "mean_kld_stderr_windows", k->mean_kld_stderr_windows);
    doc_put_num(o, "median_kld", k->median_kld);
    doc_put_num(o, "kld_p90", k->kld_p90);
    doc_put_num(o, "kld_p95", k->kld_p95);
    doc_put_num(o, "kld_p99", k->kld_p99);
    doc_put_num(o, "kld_p999", k->kld_p999);
    doc_put_num(o, "max_kld", k->max_kld);
    doc_put_num(o, "rms_dp", k->rms_dp);
    doc_put_num(o, "mean_dp", k->mean_dp);
    doc_put_num(o, "same_top1", k->same_top1);
    if (r->from == 0) put_depths(o, r, cand);
    return o;
}

struct bench { /* open models: the base, then the candidates */
    struct model **model;
    struct session **session;
    int n;
};

/* Opens n files with a session each, the base, which is the largest, first; on error, bench_close()
 * is still needed. */
static int bench_open(struct make *mk, struct bench *b, struct made *const *f, int n,
                      struct err *e) {
    b->model = xcalloc((size_t)n, sizeof *b->model);
    b->session = xcalloc((size_t)n, sizeof *b->session);
    b->n = n;
    for (int i = 0; i < n; i++) {
        TRY(open_model(mk->w, &b->model[i], f[i]->path, e));
        open_warn_context(mk->w, b->model[i], mk->eval_ctx);
    }
    return device_sessions(mk->w, b->model, n, mk->eval_ctx, b->session, e);
}

static void bench_close(struct bench *b) {
    for (int i = 0; i < b->n; i++) {
        session_free(b->session[i]);
        model_close(b->model[i]);
    }
    free(b->session);
    free(b->model);
}

int make_keep_eval(struct make *mk, const struct made *f, struct err *e) {
    struct step s;
    int rc = eval_step(mk, f, &s, e);
    if (rc == 0) rc = step_save(&s, NULL, 0, f->eval, e);
    step_release(&s);
    return rc;
}

/* Records the result of candidate `cand` as the evaluation of f. */
static int record_eval(struct make *mk, struct made *f, const struct eval_kld_run *r, int cand,
                       struct err *e) {
    make_keep(&f->eval, kld_result(r, cand, f->is_base));
    return make_keep_eval(mk, f, e);
}

/* Records the results of f[i], which was measured to the end, and of the base. */
static int record_files(struct make *mk, struct made *const *f, int i, const struct eval_kld_run *r,
                        struct err *e) {
    if (!f[0]->eval) TRY(record_eval(mk, f[0], r, i - 1, e));
    return record_eval(mk, f[i], r, i - 1, e);
}

/* Sets *out to a text that identifies everything on which f's results depend; the caller frees
 * it. */
static int eval_name(struct make *mk, const struct made *f, char **out, struct err *e) {
    struct step s;
    int rc = eval_step(mk, f, &s, e);
    *out = rc ? NULL : xasprintf("eval %s", s.key.data);
    step_release(&s);
    return rc;
}

double make_measured(struct make *mk, const struct made *f) {
    struct err ignored;
    char *name = NULL;
    double share = 0;
    if (mk->w->kept && eval_name(mk, f, &name, &ignored) == 0)
        share = kept_share(mk->w->kept, name);
    free(name);
    return share;
}

int make_measure(struct make *mk, struct made *const *f, int n, const struct make_watch *watch,
                 struct err *e) {
    static const struct make_watch none = {0};
    const struct make_watch *see = watch ? watch : &none;
    struct bench b = {0};
    struct ids ids = {0};
    struct eval_kld_run r = {0};
    struct kept_of kept = {0};
    char **name = xcalloc((size_t)n, sizeof *name);
    int rc = bench_open(mk, &b, f, n, e);
    for (int i = 0; i < mk->eval.n && rc == 0; i++)
        rc = corpus_load(b.model[0], mk->eval.v[i], true, &ids, e);
    eval_spread_chunks(&ids, mk->eval_ctx, mk->eval_chunks);
    if (mk->eval_chunks != 1) eval_shuffle_chunks(&ids, mk->eval_ctx);
    if (!mk->rows) mk->rows = eval_rows_new();
    const struct eval_domain all = {.name = "", .ids = ids.v, .n_ids = ids.n};
    for (int i = 1; i < n && rc == 0; i++) rc = eval_name(mk, f[i], &name[i - 1], e);
    for (int i = 1; i < n && rc == 0; i++)
        kept_pair(&kept, mk->w->kept, b.session[0], f[0]->hash, NULL, b.session[i], f[i]->hash);
    const struct eval_kld_job job = {.base = b.session[0],
                                     .cand = b.session + 1,
                                     .n_cand = n - 1,
                                     .domain = &all,
                                     .n_domains = 1,
                                     .ctx = mk->eval_ctx,
                                     .max_chunks = mk->eval_chunks,
                                     .from = mk->by_depth ? 0 : -1,
                                     .keep = kept.of,
                                     .name = (const char *const *)name,
                                     .look = see->look,
                                     .ud = see->ctx,
                                     .looks = see->looks,
                                     .n_looks = see->n_looks,
                                     .rows = mk->rows};
    if (rc == 0) rc = eval_kld_open(&job, &r, e);
    if (rc == 0) {
        if (see->end) see->end(see->ctx, &r);
        for (int i = 1; i < n && rc == 0; i++)
            if (eval_kld_windows(&r, i - 1) == r.n_chunks) rc = record_files(mk, f, i, &r, e);
        eval_kld_close(&r);
    }
    for (int i = 0; i < n; i++) free(name[i]);
    free(name);
    kept_release(&kept);
    ids_release(&ids);
    bench_close(&b);
    return rc;
}

/* Measures f[1..n) against f[0], in passes with as many files as fit into memory. */
static int measure_all(struct make *mk, struct made **f, int n, struct err *e) {
    const int most = passes_files(mk->w, f[0]->path) - 1;
    for (int i = 1, k; i < n; i += k) {
        struct made *base = f[0], *before = f[i - 1];
        k = n - i < most ? n - i : most;
        f[i - 1] = base;
        const int rc = make_measure(mk, f + i - 1, k + 1, NULL, e);
        f[i - 1] = before;
        if (rc) return rc;
    }
    return 0;
}

int make_eval(struct make *mk, struct err *e) {
    struct made **todo = xcalloc((size_t)mk->n_files + 1, sizeof *todo);
    int n = 1, rc = 0;
    todo[0] = &mk->file[0];
    bool need_base = false;
    for (int i = 0; i < mk->n_files && rc == 0; i++) {
        struct step s;
        cJSON *found;
        rc = eval_step(mk, &mk->file[i], &s, e);
        if (rc == 0 && make_reuse(mk, &s, &found)) {
            make_keep(&mk->file[i].eval, found);
        } else if (i == 0) {
            need_base = true;
        } else {
            if (make_counts(mk)) mk->n_begun += make_measured(mk, &mk->file[i]);
            todo[n++] = &mk->file[i];
        }
        step_release(&s);
    }
    if (need_base && n == 1 && mk->n_files > 1) todo[n++] = &mk->file[1];
    if (rc == 0 && n > 1 && !make_counts(mk)) {
        log_info("measuring %d file%s against %s", n - 1, str_s(n - 1), mk->file[0].file);
        rc = measure_all(mk, todo, n, e);
    }
    free(todo);
    if (rc) return rc;
    cJSON *about = doc_new();
    doc_put_i64(about, "ctx", mk->eval_ctx);
    cJSON *texts = doc_arr(about, "texts");
    for (int i = 0; i < mk->eval.n; i++) doc_put_str(texts, NULL, io_base(mk->eval.v[i]));
    doc_put_i64(about, "pp", mk->pp);
    doc_put_i64(about, "tg", mk->tg);
    make_keep(&mk->about_eval, about); /* make_report adds n_tokens and n_chunks */
    return 0;
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* Writes n measured speeds as the list "speed". */
static void put_speeds(cJSON *to, const struct eval_speed *row, int n) {
    cJSON *rows = doc_arr(to, "speed");
    for (int i = 0; i < n; i++) {
        cJSON *o = doc_obj(rows, NULL);
        doc_put_str(o, "test", row[i].test);
        doc_put_i64(o, "depth", row[i].depth);
        doc_put_num(o, "tok_per_s", row[i].tok_per_s);
        doc_put_num(o, "tok_per_s_stddev", row[i].tok_per_s_stddev);
    }
}

/* Times a file; `what` is the cache key of its repetitions. */
static int time_file(struct make *mk, const struct made *f, const char *what, cJSON **out,
                     struct err *e) {
    const struct results_cache_of keep = {mk->w->kept, what};
    struct model *m = NULL;
    struct session *s = NULL;
    struct eval_speed row[2 * EVAL_MAX_LIST];
    int64_t depth[EVAL_MAX_LIST], deepest = 0;
    int n = 0, n_depths, rc;
    TRY(eval_parse_list(mk->depths, "--depths", depth, &n_depths, e));
    for (int i = 0; i < n_depths; i++) deepest = max_i64(deepest, depth[i]);
    struct session_opts o = {.n_ctx = deepest + mk->pp + mk->tg + 8,
                             .isa = mk->w->isa,
                             .act = ACT_Q8,
                             .kv_type = kv_type_find(KV_USUAL)->type,
                             .pack = true,
                             .pack_cache = mk->w->pack_cache,
                             .pool = mk->w->pool,
                             .device = device_alone(mk->w)};
    TRY_GOTO(out, rc, open_model(mk->w, &m, f->path, e));
    TRY_GOTO(out, rc, session_new(&s, m, &o, e));
    TRY_GOTO(out, rc,
             eval_speed(s, mk->pp, mk->tg, depth, n_depths, (int)mk->reps,
                        eval_session_bandwidth(s, mk->w->pool), &keep, row, &n, e));
    cJSON *found = *out = doc_new();
    const struct session_info at = session_info(s);
    doc_put_str(found, "device", at.device);
    if (at.offload_blocks) doc_put_i64(found, "offload_bytes", at.offload_bytes);
    for (int i = 0; i < n; i++) {
        bool pp = strncmp(row[i].test, "pp", 2) == 0;
        if (row[i].depth != depth[0]) continue;
        doc_put_num(found, pp ? "pp_tok_per_s" : "tg_tok_per_s", row[i].tok_per_s);
        doc_put_num(found, pp ? "pp_tok_per_s_stddev" : "tg_tok_per_s_stddev",
                    row[i].tok_per_s_stddev);
    }
    if (n_depths > 1) put_speeds(found, row, n);
out:
    session_free(s);
    model_close(m);
    return rc;
}

/* Measures a file's speed, or reuses the recorded one. */
static int speed_one(struct make *mk, struct made *f, struct err *e) {
    char *name = xasprintf("speed-%s", f->is_base ? "base" : f->recipe), machine[512];
    struct step s;
    cJSON *found;
    int rc = 0;
    step_init(&s, &mk->job, name);
    free(name);
    step_key(&s, "file", "%s", f->hash);
    step_key(&s, "test", "pp%" PRId64 " tg%" PRId64 " reps%" PRId64, mk->pp, mk->tg, mk->reps);
    if (strcmp(mk->depths, "0") != 0) step_key(&s, "depths", "%s", mk->depths);
    make_machine(mk, machine);
    step_key(&s, "machine", "%s", machine);
    if (mk->w->device.max_bytes) step_key(&s, "max_vram", "%" PRIu64, mk->w->device.max_bytes);
    if (!make_reuse(mk, &s, &found) && !make_counts(mk)) {
        rc = time_file(mk, f, s.key.data, &found, e);
        if (rc == 0) rc = step_save(&s, NULL, 0, found, e);
    }
    make_keep(&f->speed, found);
    step_release(&s);
    return rc;
}

int make_speed(struct make *mk, struct err *e) {
    log_info("measuring speed");
    for (int i = 0; i < mk->n_files; i++) {
        progress_set_item("file", i + 1, mk->n_files);
        TRY(speed_one(mk, &mk->file[i], e));
    }
    progress_set_item(NULL, 0, 0);
    return 0;
}
