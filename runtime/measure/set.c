// SPDX-License-Identifier: MIT
/* runtime/measure/set.c - `hone eval suite`: the standard set of measurements on one model, written
 * to one JSON file with a number per window and case, for `hone eval compare`. Texts give
 * perplexity and, with a base, divergence; suites give the share of cases passed; task files and
 * needles give the share answered correctly. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/defaults.h"
#include "calib/imatrix.h"
#include "runtime/measure/set.h"
#include "runtime/measure/measurement_cache.h"
#include "runtime/measure/measures.h"
#include "work/apart.h"
#include "base/gz.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/measure/internal.h"
#include "runtime/measure/choices.h"
#include "runtime/measure/suite.h"

struct suite_job {
    struct work *w;
    const struct eval_set_opts *a;
    struct measures ms;
    bool no_tools; /* the usual suite cannot be answered */
};

/* Returns a hash of everything besides the model that the numbers depend on: the input, the cache
 * type and the activations. */
static char *input_key(const struct suite_job *j, const char *data, size_t len, const char *more) {
    char hex[33];
    hash_xxh128_hex(hex, data, len);
    return xasprintf("%s %s %s %s", hex, j->a->eval.kv_type, j->a->eval.act, more);
}

/* ---- texts ---- */

/* Encodes a text file, or the built-in evaluation text if path is "builtin". */
static int load_text(const struct model *m, const char *path, struct ids *ids, struct err *e) {
    TRY(model_need_tok(m, e));
    if (strcmp(path, "builtin") != 0) return corpus_load(m, path, false, ids, e);
    for (int i = 0; default_text_at(i); i++) {
        const struct default_text *t = default_text_at(i);
        if (t->is_eval && !t->is_chat)
            return tok_encode(m->tok, t->data, default_text_len(t), false, true, ids, e);
    }
    return err_set(e, ERR_DATA, "no built-in text");
}

/* Returns a text's key, computed from its tokens: models have the same key only if they have the
 * same vocabulary. */
static char *text_key(const struct suite_job *j, const struct ids *ids) {
    char more[80];
    snprintf(more, sizeof more, "%" PRId64 " %" PRId64, j->a->eval.ctx, j->a->eval.chunks);
    return input_key(j, (const char *)ids->v, (size_t)ids->n * sizeof *ids->v, more);
}

/* Adds the measure ln_ppl with one sample per window; key: hash of the input. */
static int run_ppl(struct suite_job *j, struct session *s, const struct ids *ids, const char *group,
                   const char *key, struct err *e) {
    struct eval_ppl r;
    double *window = NULL;
    struct kept_of kept = {0};
    kept_model(&kept, j->a->eval.kept, s, NULL);
    int rc = eval_ppl_windows(s, ids, j->a->eval.ctx, j->a->eval.chunks, kept.of, &r, &window, e);
    kept_release(&kept);
    if (rc) return rc;
    struct measure *m = measures_add(&j->ms, "ln_ppl", group, key, true, r.n_chunks);
    memcpy(m->sample, window, (size_t)r.n_chunks * sizeof *window);
    free(window);
    return 0;
}

/* Adds a measure with the mean of `value` over each window. */
static void window_means(struct suite_job *j, const struct eval_kld_run *r, const char *name,
                         const double *value, const char *group, const char *key) {
    struct measure *m = measures_add(&j->ms, name, group, key, true, r->n_chunks);
    for (int64_t c = 0; c < r->n_chunks; c++) {
        double u;
        eval_mean(value + c * r->per_chunk, r->per_chunk, &m->sample[c], &u);
    }
}

/* Returns the key of a divergence from a base: the text's key and a hash of the base's headers and
 * of the beginning of each tensor. The caller frees it. */
static char *kld_key(const char *key, const struct gguf *base) {
    enum { BEGINNING = 4096 };
    struct xxh128 *x = xxh128_new();
    char hex[33];
    for (int i = 0; i < gguf_n_shards(base); i++) {
        uint64_t n;
        const uint8_t *header = gguf_shard_header(base, i, &n);
        xxh128_add(x, header, (size_t)n);
    }
    for (int64_t i = 0; i < gguf_n_tensors(base); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(base, i);
        xxh128_add(x, t->data, (size_t)min_i64((int64_t)t->n_bytes, BEGINNING));
    }
    xxh128_hex(x, hex);
    xxh128_free(x);
    return xasprintf("%s base %s", key, hex);
}

/* Adds the measures ln_ppl and kld against the base with one sample per window. */
static int run_kld(struct suite_job *j, struct session *s, struct session *base,
                   const struct ids *ids, const char *group, const char *key, struct err *e) {
    const struct eval_domain d = {.name = group, .ids = ids->v, .n_ids = ids->n};
    struct kept_of kept = {0};
    kept_pair(&kept, j->a->eval.kept, base, NULL, NULL, s, NULL);
    const struct eval_kld_job job = {.base = base,
                                     .cand = &s,
                                     .n_cand = 1,
                                     .domain = &d,
                                     .n_domains = 1,
                                     .ctx = j->a->eval.ctx,
                                     .max_chunks = j->a->eval.chunks,
                                     .from = -1,
                                     .keep = kept.of};
    struct eval_kld_run r;
    int rc = eval_kld_open(&job, &r, e);
    kept_release(&kept);
    if (rc) return rc;
    window_means(j, &r, "ln_ppl", r.pos[0].nll_q, group, key);
    char *own = kld_key(key, session_model(base)->gguf);
    window_means(j, &r, "kld", r.pos[0].kld, group, own);
    free(own);
    eval_kld_close(&r);
    return 0;
}

/* Measures all texts of the suite, against the base if there is one. */
static int run_texts(struct suite_job *j, struct err *e) {
    const struct eval_args *a = &j->a->eval;
    struct eval_loaded l = {0}, b = {0};
    int rc;
    if (!j->a->text.n) return 0;
    TRY(eval_open_one(j->w, a, j->a->model, a->ctx, &l, e));
    if (a->base) TRY_GOTO(out, rc, eval_open_one(j->w, a, a->base, a->ctx, &b, e));
    rc = 0;
    for (int i = 0; i < j->a->text.n && !rc; i++) {
        const char *path = j->a->text.v[i];
        struct ids ids = {0};
        rc = load_text(l.m, path, &ids, e);
        char *key = rc ? NULL : text_key(j, &ids);
        if (!rc)
            rc = b.s ? run_kld(j, l.s, b.s, &ids, io_base(path), key, e)
                     : run_ppl(j, l.s, &ids, io_base(path), key, e);
        free(key);
        ids_release(&ids);
    }
out:
    eval_close_one(&l);
    eval_close_one(&b);
    return rc;
}

/* ---- suites, tasks ---- */

/* Adds the share of passed cases in one tool-calling file. */
static int run_suite(struct suite_job *j, const char *path, struct err *e) {
    struct suite s;
    struct suite_answers r;
    char more[80];
    TRY(eval_suite_read(&s, path, e));
    struct eval_args a = j->a->eval;
    a.ctx = 0; /* 0: as long as the cases need */
    int rc = eval_suite_of(j->w, &a, j->a->model, &s, j->a->n_cases, j->a->max_tokens, NULL, &r, e);
    if (!rc) {
        snprintf(more, sizeof more, "%" PRId64 " %" PRId64, j->a->n_cases, j->a->max_tokens);
        char *key = input_key(j, s.text, s.len, more);
        struct measure *m = measures_add(&j->ms, "passed", io_base(path), key, false, r.n);
        for (int i = 0; i < r.n; i++) m->sample[i] = r.verdict[i].pass;
        if (suite_calls(&s)) {
            m = measures_add(&j->ms, "valid_call", io_base(path), key, false, r.n);
            for (int i = 0; i < r.n; i++) m->sample[i] = r.verdict[i].valid;
        }
        free(key);
        suite_answers_release(&r);
    }
    suite_close(&s);
    return rc;
}

/* Adds the share of correct answers in one file of choices or needles. */
static int run_tasks(struct suite_job *j, const struct choice_job *cj, struct err *e) {
    struct choice_tasks t;
    struct choice_answers r;
    char *data = NULL, more[120];
    size_t len = 0;
    TRY(gz_read_file(&data, &len, cj->path, limit_of(LIM_TEXT), e));
    snprintf(more, sizeof more, "%s %" PRId64 " %" PRId64, cj->format ? cj->format : "needle",
             cj->n_cases, cj->ctx);
    char *key = input_key(j, data, len, more);
    free(data);
    int rc = eval_choice_of(j->w, &j->a->eval, j->a->model, cj, &t, &r, e);
    if (!rc) {
        struct measure *m = measures_add(&j->ms, cj->format ? "right" : "needle_right",
                                         io_base(cj->path), key, false, r.n);
        for (int i = 0; i < r.n; i++) m->sample[i] = r.pick[i] == t.t[i].right;
        choice_answers_release(&r);
        choices_close(&t);
    }
    free(key);
    return rc;
}

/* Returns ERR_USAGE for tasks that are not given as FORMAT:FILE. */
static int bad_choice(const char *spec, struct err *e) {
    return err_set(e, ERR_USAGE, "--choice: '%s' is not FORMAT:FILE; formats are %s", spec,
                   choices_formats());
}

/* Runs tasks given as FORMAT:FILE, e.g. "winogrande:file.csv". */
static int run_choice(struct suite_job *j, const char *spec, struct err *e) {
    const char *colon = strchr(spec, ':');
    if (!colon) return bad_choice(spec, e);
    char *format = xstrndup(spec, (size_t)(colon - spec));
    const struct choice_job cj = {.format = format, .path = colon + 1, .n_cases = j->a->n_cases};
    int rc = run_tasks(j, &cj, e);
    free(format);
    return rc;
}

/* Checks that the model can answer a suite; `usual`: the suite is the default, which is left
 * out if it cannot be answered. */
static int check_suite(struct suite_job *j, const struct model *m, const char *path, bool usual,
                       struct err *e) {
    struct suite s;
    struct suite_plan p;
    TRY(eval_suite_read(&s, path, e));
    const int rc = suite_plan_open(&p, &s, m, j->a->n_cases, NULL, e);
    if (rc == 0) suite_plan_close(&p);
    suite_close(&s);
    if (rc == 0) return 0;
    if (!usual) return err_wrap(e, "--tools %s", path);
    log_warn("no tool calls are measured, as with --tools none: %s", e->msg);
    j->no_tools = true;
    return 0;
}

/* Checks the suites and files of tasks, which come after the texts. */
static int check_all(struct suite_job *j, bool usual, struct err *e) {
    struct model *m;
    uint64_t size;
    TRY(eval_model(&j->a->eval, j->a->model, &m, e));
    int rc = 0;
    for (int i = 0; i < j->a->tools.n && !rc; i++)
        if (strcmp(j->a->tools.v[i], "none") != 0)
            rc = check_suite(j, m, j->a->tools.v[i], usual, e);
    model_close(m);
    for (int i = 0; i < j->a->choice.n && !rc; i++) {
        const char *colon = strchr(j->a->choice.v[i], ':');
        rc = colon ? io_file_size(colon + 1, &size, e) : bad_choice(j->a->choice.v[i], e);
    }
    for (int i = 0; i < j->a->needle.n && !rc; i++) rc = io_file_size(j->a->needle.v[i], &size, e);
    return rc;
}

/* Runs all suites, tasks and texts that the options name. */
static int run_all(struct suite_job *j, struct err *e) {
    TRY(run_texts(j, e));
    for (int i = 0; i < j->a->tools.n && !j->no_tools; i++)
        if (strcmp(j->a->tools.v[i], "none") != 0) TRY(run_suite(j, j->a->tools.v[i], e));
    for (int i = 0; i < j->a->choice.n; i++) TRY(run_choice(j, j->a->choice.v[i], e));
    for (int i = 0; i < j->a->needle.n; i++) {
        const struct choice_job cj = {
            .path = j->a->needle.v[i], .ctx = j->a->needle_ctx, .n_depths = 5, .per_depth = 4};
        TRY(run_tasks(j, &cj, e));
    }
    return 0;
}

static void emit_suite(const struct suite_job *j, struct emit *m) {
    emit_str(m, "model", "model", j->ms.model);
    if (j->a->eval.base) emit_str(m, "base", "base", j->a->eval.base);
    emit_str(m, "output", "output", j->a->eval.out);
    emit_table(m, "measures", "");
    emit_col(m, "measure", "measure");
    emit_col(m, "group", "of");
    emit_col(m, "n", "n");
    emit_col(m, "value", "mean");
    emit_col(m, "stderr", "+-");
    for (int i = 0; i < j->ms.n; i++) {
        double mean, u;
        measure_mean(&j->ms.m[i], &mean, &u);
        emit_row(m);
        emit_cell_str(m, j->ms.m[i].name);
        emit_cell_str(m, j->ms.m[i].group);
        emit_cell_i64(m, j->ms.m[i].n);
        emit_cell_num(m, mean, 6);
        emit_cell_num(m, u, 6);
    }
}

const struct eval_set_opts eval_set_usual = {
    .eval = {.ctx = 512, .chunks = 40, .kv_type = KV_EXACT, .act = ACT_EXACT},
    .max_tokens = 256,
    .needle_ctx = 4096};

int eval_set_run(struct work *w, struct eval_set_opts *a, struct emit *m, struct err *e) {
    if (!a->eval.out) return err_set(e, ERR_USAGE, "eval suite needs -o OUT.json");
    struct apart files = {.w = w};
    apart_in(&files, a->model);
    apart_in(&files, a->eval.base);
    apart_in_all(&files, a->text.v, a->text.n);
    apart_in_all(&files, a->tools.v, a->tools.n);
    apart_in_all(&files, a->needle.v, a->needle.n);
    for (int i = 0; i < a->choice.n; i++) {
        const char *colon = strchr(a->choice.v[i], ':');
        if (colon) apart_in(&files, colon + 1);
    }
    apart_out(&files, a->eval.out);
    TRY(apart_check(&files, e));
    TRY(out_try(a->eval.out, w->overwrite, e));
    if (a->max_tokens < 1) return err_set(e, ERR_USAGE, "--max-tokens must be at least 1");
    if (!a->text.n) work_list_add(w, &a->text, "builtin");
    const bool usual = a->tools.n == 0;
    if (usual) work_list_add(w, &a->tools, "builtin");
    struct suite_job j = {.w = w, .a = a};
    j.ms.model = xstrdup(io_base(a->model));
    char *part = xasprintf("%s.part", a->eval.out);
    int rc = check_all(&j, usual, e);
    if (!rc) rc = kept_open(&a->eval.kept, part, e);
    free(part);
    if (!rc) rc = run_all(&j, e);
    if (!rc) rc = measures_write(&j.ms, a->eval.out, w->overwrite, e);
    results_cache_close(a->eval.kept, !rc);
    if (!rc) emit_suite(&j, m);
    measures_release(&j.ms);
    return rc;
}

/* ---- comparison of two sets ---- */

/* Adds the comparison of two sets of measurements and a verdict for each. */
static void emit_pairs(struct emit *m, const struct measures *a, const struct measures *b,
                       int n_matched) {
    int64_t n[3] = {0, 0, 0};
    emit_str(m, "a", "A", a->model);
    emit_str(m, "b", "B", b->model);
    for (int i = 0; i < a->n; i++) {
        const struct measure *other = measures_match(b, &a->m[i]);
        struct measure_pair p;
        if (!other) continue;
        measure_compare(&a->m[i], other, &p);
        n[p.verdict + 1]++;
    }
    emit_i64(m, "n_a_better", "A is better in", n[0]);
    emit_i64(m, "n_b_better", "B is better in", n[2]);
    emit_i64(m, "n_no_difference", "no difference beyond its error in", n[1]);
    emit_i64(m, "n_unmatched", "measures that only one has", a->n + b->n - 2 * n_matched);
    emit_table(m, "measures", "");
    static const char *const col[][2] = {
        {"measure", "measure"}, {"group", "of"},  {"n", "n"},   {"a", "A"},   {"b", "B"},
        {"diff", "A - B"},      {"stderr", "+-"}, {"lo", NULL}, {"hi", NULL}, {"better", "better"}};
    for (size_t i = 0; i < COUNT_OF(col); i++) emit_col(m, col[i][0], col[i][1]);
    for (int i = 0; i < a->n; i++) {
        static const char *const word[3] = {"A", "neither", "B"};
        const struct measure *other = measures_match(b, &a->m[i]);
        struct measure_pair p;
        if (!other) continue;
        measure_compare(&a->m[i], other, &p);
        emit_row(m);
        emit_cell_str(m, a->m[i].name);
        emit_cell_str(m, a->m[i].group);
        emit_cell_i64(m, a->m[i].n);
        const double v[] = {p.a, p.b, p.diff, p.stderr_, p.lo, p.hi};
        for (size_t k = 0; k < COUNT_OF(v); k++) emit_cell_num(m, v[k], 6);
        emit_cell_str(m, word[p.verdict + 1]);
    }
}

int eval_set_compare(const char *path_a, const char *path_b, struct emit *m, struct err *e) {
    struct measures a, b;
    TRY(measures_read(&a, path_a, e));
    int rc = measures_read(&b, path_b, e), n = 0;
    if (!rc) {
        for (int i = 0; i < a.n; i++) n += measures_match(&b, &a.m[i]) != NULL;
        if (n)
            emit_pairs(m, &a, &b, n);
        else
            rc = err_set(e, ERR_DATA,
                         "%s and %s have no measure of the same input: measure both with the same "
                         "texts, suites, base and options",
                         path_a, path_b);
        measures_release(&b);
    }
    measures_release(&a);
    return rc;
}
