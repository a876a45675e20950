// SPDX-License-Identifier: MIT
/* lib/evals.c - hone eval: measuring files. One struct of options for all, of which each call has
 * the rows that mean something to it. */
#include "runtime/measure/caches.h"
#include "runtime/measure/cases.h"
#include "runtime/measure/divergence.h"
#include "runtime/measure/numbers.h"
#include "jobs/eval_replay.h"
#include "runtime/measure/set.h"
#include "runtime/measure/tasks.h"
#include "lib/form.h"

enum { PPL, KLD, MTP, CASES, CHOICE, NEEDLE, REPLAY, SUITE, COMPARE, SPEED, CACHES, LOGITS };

/* ---- options ---- */

#define FROM hone_eval_opts
/* Rows of what a model computes in: `eval` is the job's struct eval_args. */
#define COMPUTES(eval)                                                                             \
    FIELD(FIELD_TEXT, kv_type, eval.kv_type, "kv-type"), FIELD(FIELD_TEXT, act, eval.act, "act"),  \
        ARGUMENT("hone_opts.pre", "pre")

struct eval_job { /* so that rows are alike */
    struct eval_args a;
    struct choice_job j;
};
#define TO eval_job
static const struct field ppl_fields[] = {FIELD(FIELD_COUNT, n_ctx, a.ctx, "ctx"),
                                          FIELD(FIELD_COUNT, max_windows, a.chunks, "chunks"),
                                          FIELD(FIELD_COUNT, stride, a.stride, "stride"),
                                          FIELD(FIELD_TEXT, keep, a.keep, "keep"), COMPUTES(a)};
static const struct field mtp_fields[] = {FIELD(FIELD_COUNT, n_ctx, a.ctx, "ctx"),
                                          FIELD(FIELD_COUNT, max_windows, a.chunks, "chunks"),
                                          COMPUTES(a)};
static const struct field speed_fields[] = {
    FIELD(FIELD_COUNT, n_prompt, a.pp, "pp"),         FIELD(FIELD_COUNT, n_generate, a.tg, "tg"),
    FIELD(FIELD_TEXT, depths, a.depths, "depths"),    FIELD(FIELD_COUNT, reps, a.reps, "reps"),
    FIELD(FIELD_TEXT, kv_type, a.kv_type, "kv-type"), FIELD(FIELD_TEXT, act, a.act, "act")};
static const struct field logits_fields[] = {ARGUMENT("ids", "ids"), ARGUMENT("path", "output"),
                                             FIELD_OF_WORK(FIELD_FORCE, overwrite, ""),
                                             COMPUTES(a)};
static const struct field choice_fields[] = {
    FIELD(FIELD_TEXT, format, j.format, "format"), FIELD(FIELD_TEXT, base, a.base, "base"),
    FIELD(FIELD_COUNT, max_cases, j.n_cases, "cases"), COMPUTES(a)};
static const struct field needle_fields[] = {
    FIELD(FIELD_COUNT, n_ctx, j.ctx, "ctx"), FIELD(FIELD_COUNT, n_depths, j.n_depths, "depths"),
    FIELD(FIELD_COUNT, per_depth, j.per_depth, "per-depth"),
    FIELD(FIELD_TEXT, base, a.base, "base"), COMPUTES(a)};
#undef TO
#define TO divergence_opts
static const struct field kld_fields[] = {
    FIELD(FIELD_TEXT, base, a.base, "base"),
    FIELD(FIELD_TEXT, base_file, a.base_file, "base-file"),
    FIELD(FIELD_TEXT, save_base, a.save_base, "save-base"),
    FIELD(FIELD_FLAG, compact, a.compact, "compact"),
    FIELD(FIELD_COUNT, top, a.top, "top"),
    FIELD(FIELD_COUNT, tail, a.tail, "tail"),
    FIELD(FIELD_COUNT, n_ctx, a.ctx, "ctx"),
    FIELD(FIELD_COUNT, max_windows, a.chunks, "chunks"),
    FIELD(FIELD_FLAG, by_depth, a.by_depth, "by-depth"),
    FIELD(FIELD_TEXT, plot, a.plot, "plot"),
    FIELD(FIELD_FLAG, routing, a.routing, "routing"),
    FIELD(FIELD_COUNT, worst, a.worst, "worst"),
    FIELD(FIELD_TEXT, base_kv_type, a.base_kv, "base-kv-type"),
    FIELD(FIELD_COUNT, kv_skip_layers, a.kv_skip, "kv-skip-layers"),
    FIELD(FIELD_TEXT, kv_skip_type, a.kv_skip_type, "kv-skip-type"),
    FIELD(FIELD_TEXT, keep, a.keep, "keep"),
    FIELD_OF_WORK(FIELD_FORCE, overwrite, ""),
    COMPUTES(a)};
#undef TO
#define TO cases_opts
static const struct field cases_fields[] = {
    FIELD(FIELD_TEXT, base, eval.base, "base"),
    FIELD(FIELD_COUNT, max_cases, n_cases, "cases"),
    FIELD(FIELD_COUNT, max_tokens, max_tokens, "max-tokens"),
    FIELD(FIELD_TEXT, format, format, "format"),
    FIELD(FIELD_NUMBER, require, require, "require"),
    FIELD(FIELD_FLAG, no_loss, no_loss, "no-loss"),
    FIELD(FIELD_FLAG, from_answers, from_answers, "from-answers"),
    FIELD(FIELD_FLAG, constrained, constrained, "constrained"),
    FIELD(FIELD_FLAG, jump, jump, "jump"),
    FIELD(FIELD_FLAG, strict_calls, eval.strict_calls, "strict-calls"),
    FIELD(FIELD_FLAG, all, all, "all"),
    FIELD(FIELD_COUNT, n_ctx, eval.ctx, "ctx"),
    FIELD(FIELD_TEXT, keep, eval.keep, "keep"),
    COMPUTES(eval)};
#undef TO
#define TO replay_opts
static const struct field replay_fields[] = {FIELD(FIELD_TEXT, base, eval.base, "base"),
                                             FIELD(FIELD_COUNT, max_cases, n_cases, "cases"),
                                             FIELD(FIELD_FLAG, sampled, sampled, "sampled"),
                                             FIELD(FIELD_NUMBER, require, require, "require"),
                                             FIELD(FIELD_FLAG, all, all, "all"),
                                             FIELD(FIELD_COUNT, n_ctx, eval.ctx, "ctx"),
                                             COMPUTES(eval)};
#undef TO
#define TO eval_set_opts
static const struct field suite_fields[] = {
    ARGUMENT("path", "output"),
    FIELD(FIELD_TEXT, base, eval.base, "base"),
    FIELD(FIELD_LIST, texts, text, "text"),
    FIELD(FIELD_LIST, tools, tools, "tools"),
    FIELD(FIELD_LIST, choices, choice, "choice"),
    FIELD(FIELD_LIST, needles, needle, "needle"),
    FIELD(FIELD_COUNT, needle_ctx, needle_ctx, "needle-ctx"),
    FIELD(FIELD_COUNT, n_ctx, eval.ctx, "ctx"),
    FIELD(FIELD_COUNT, max_windows, eval.chunks, "chunks"),
    FIELD(FIELD_COUNT, max_cases, n_cases, "cases"),
    FIELD(FIELD_COUNT, max_tokens, max_tokens, "max-tokens"),
    FIELD_OF_WORK(FIELD_FORCE, overwrite, ""),
    COMPUTES(eval)};
#undef TO
#define TO caches_opts
static const struct field caches_fields[] = {
    FIELD(FIELD_TEXT, head_dims, dims, "head-dims"), FIELD(FIELD_TEXT, depths, depths, "depths"),
    FIELD(FIELD_TEXT, kv_type, types, "kv-type"),    FIELD(FIELD_TEXT, plot, plot, "plot"),
    FIELD_OF_WORK(FIELD_FORCE, overwrite, ""),       FIELD(FIELD_NUMBER, cosine, cosine, "cosine")};
#undef TO
static const struct field no_fields[] = {ARGUMENT("a", ""), ARGUMENT("b", "")};

const struct form forms_evals[] = {
    [PPL] = FORM("hone_eval_ppl", "eval ppl", hone_eval_opts, ppl_fields),
    [KLD] = FORM("hone_eval_kld", "eval kld", hone_eval_opts, kld_fields),
    [MTP] = FORM("hone_eval_mtp", "eval mtp", hone_eval_opts, mtp_fields),
    [CASES] = FORM("hone_eval_cases", "eval tools|eval checks", hone_eval_opts, cases_fields),
    [CHOICE] = FORM("hone_eval_choice", "eval choice", hone_eval_opts, choice_fields),
    [NEEDLE] = FORM("hone_eval_needle", "eval needle", hone_eval_opts, needle_fields),
    [REPLAY] = FORM("hone_eval_replay", "eval traffic", hone_eval_opts, replay_fields),
    [SUITE] = FORM("hone_eval_suite", "eval suite", hone_eval_opts, suite_fields),
    [COMPARE] = FORM_OF_ARGUMENTS("hone_eval_compare", "eval compare", no_fields),
    [SPEED] = FORM("hone_eval_speed", "eval speed", hone_eval_opts, speed_fields),
    [CACHES] = FORM("hone_eval_kv", "eval kv", hone_eval_opts, caches_fields),
    [LOGITS] = FORM("hone_eval_logits", "eval logits", hone_eval_opts, logits_fields),
    {0}};

/* ---- calls ---- */

static int begin(struct task *t, int form, const struct hone_eval_opts *eo, void *job,
                 const struct hone_opts *o, char **json, struct hone_error *e) {
    struct hone_eval_opts own;
    return task_begin_form(t, &forms_evals[form], eo, &own, job, o, json, e);
}

int hone_eval_ppl(const char *model, const char *text, const struct hone_eval_opts *eo,
                  const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(text, e);
    struct eval_job j = {.a = eval_text_usual};
    struct task t;
    int rc = begin(&t, PPL, eo, &j, o, json, e);
    if (rc) return rc;
    j.a.pre = t.w.pre;
    return task_end(&t, eval_ppl_run(&t.w, &j.a, model, text, t.m, &t.c.err), json, e);
}

int hone_eval_mtp(const char *model, const char *text, const struct hone_eval_opts *eo,
                  const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(text, e);
    struct eval_job j = {.a = eval_text_usual};
    struct task t;
    int rc = begin(&t, MTP, eo, &j, o, json, e);
    if (rc) return rc;
    j.a.pre = t.w.pre;
    return task_end(&t, eval_mtp_run(&t.w, &j.a, model, text, t.m, &t.c.err), json, e);
}

int hone_eval_speed(const char *model, const struct hone_eval_opts *eo, const struct hone_opts *o,
                    char **json, struct hone_error *e) {
    NEED(model, e);
    struct eval_job j = {.a = eval_speed_usual};
    struct task t;
    int rc = begin(&t, SPEED, eo, &j, o, json, e);
    if (rc) return rc;
    j.a.pre = t.w.pre;
    return task_end(&t, eval_speed_run(&t.w, &j.a, model, t.m, &t.c.err), json, e);
}

int hone_eval_logits(const char *model, const char *ids, const char *path,
                     const struct hone_eval_opts *eo, const struct hone_opts *o, char **json,
                     struct hone_error *e) {
    NEED(model, e);
    struct eval_job j = {.a = eval_answer_usual};
    struct task t;
    int rc = begin(&t, LOGITS, eo, &j, o, json, e);
    if (rc) return rc;
    j.a.pre = t.w.pre;
    j.a.ids = ids;
    j.a.out = path;
    return task_end(&t, eval_logits_run(&t.w, &j.a, model, t.m, &t.c.err), json, e);
}

int hone_eval_choice(const char *model, const char *file, const struct hone_eval_opts *eo,
                     const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(file, e);
    struct eval_job j = {.a = eval_answer_usual};
    struct task t;
    int rc = begin(&t, CHOICE, eo, &j, o, json, e);
    if (rc) return rc;
    j.a.pre = t.w.pre;
    j.j.path = file;
    rc = eval_choice_run(&t.w, &j.a, model, &j.j, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_eval_needle(const char *model, const char *text, const struct hone_eval_opts *eo,
                     const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(text, e);
    struct eval_job j = {.a = eval_answer_usual, .j = eval_needle_usual};
    struct task t;
    int rc = begin(&t, NEEDLE, eo, &j, o, json, e);
    if (rc) return rc;
    j.a.pre = t.w.pre;
    j.j.path = text;
    return task_end(&t, eval_tasks_run(&t.w, &j.a, model, &j.j, t.m, &t.c.err), json, e);
}

int hone_eval_kld(const char *const *models, const char *const *texts,
                  const struct hone_eval_opts *eo, const struct hone_opts *o, char **json,
                  struct hone_error *e) {
    struct divergence_opts j = {.a = eval_text_usual};
    struct task t;
    int rc = begin(&t, KLD, eo, &j, o, json, e);
    if (rc) return rc;
    const struct str_list m = task_list(&t, models), l = task_list(&t, texts);
    j.a.pre = t.w.pre;
    j.model = m.v;
    j.n_models = m.n;
    j.text = l.v;
    j.n_texts = l.n;
    rc = m.n ? divergence_run(&t.w, &j, t.m, &t.c.err)
             : err_set(&t.c.err, ERR_USAGE, "eval kld: at least one model is needed");
    return task_end(&t, rc, json, e);
}

int hone_eval_cases(const char *model, const char *suite, const struct hone_eval_opts *eo,
                    const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    struct cases_opts j = eval_cases_usual;
    struct task t;
    int rc = begin(&t, CASES, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    j.model = model;
    j.suite = suite ? suite : "builtin";
    return task_end(&t, eval_cases_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_eval_replay(const char *model, const char *record, const struct hone_eval_opts *eo,
                     const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(record, e);
    struct replay_opts j = eval_replay_usual;
    struct task t;
    int rc = begin(&t, REPLAY, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    j.model = model;
    j.record = record;
    return task_end(&t, eval_replay_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_eval_suite(const char *model, const char *path, const struct hone_eval_opts *eo,
                    const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    struct eval_set_opts j = eval_set_usual;
    struct task t;
    int rc = begin(&t, SUITE, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    j.eval.out = path;
    j.model = model;
    return task_end(&t, eval_set_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_eval_compare(const char *a, const char *b, const struct hone_opts *o, char **json,
                      struct hone_error *e) {
    NEED(a, e);
    NEED(b, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, eval_set_compare(a, b, t.m, &t.c.err), json, e);
}

int hone_eval_kv(const struct hone_eval_opts *eo, const struct hone_opts *o, char **json,
                 struct hone_error *e) {
    struct caches_opts j = eval_caches_usual;
    struct task t;
    int rc = begin(&t, CACHES, eo, &j, o, json, e);
    return rc ? rc : task_end(&t, eval_caches_run(&t.w, &j, t.m, &t.c.err), json, e);
}
