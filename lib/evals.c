// SPDX-License-Identifier: MIT
/* lib/evals.c - the library calls of hone eval, which measure files. They share one options struct;
 * each call accepts only the fields listed in its rows. */
#include "runtime/measure/caches.h"
#include "runtime/measure/cases.h"
#include "runtime/measure/divergence.h"
#include "runtime/measure/numbers.h"
#include "jobs/eval_replay.h"
#include "jobs/versus.h"
#include "runtime/measure/set.h"
#include "runtime/measure/tasks.h"
#include "runtime/measure/vision.h"
#include "lib/form.h"
#include "lib/options.h"

enum { PPL, KLD, MTP, CASES, CHOICE, NEEDLE, REPLAY, SUITE, SPEED, CACHES, LOGITS, VISION, VERSUS };

/* ---- options ---- */

#include "commands/rows.h"
#define TO eval_job
const struct option eval_ppl_options[] = {
#include "commands/eval_ppl.def"
    {0}};
const struct option eval_mtp_options[] = {
#include "commands/eval_mtp.def"
    {0}};
const struct option eval_speed_options[] = {
#include "commands/eval_speed.def"
    {0}};
const struct option eval_logits_options[] = {
#include "commands/eval_logits.def"
    {0}};
const struct option eval_choice_options[] = {
#include "commands/eval_choice.def"
    {0}};
const struct option eval_needle_options[] = {
#include "commands/eval_needle.def"
    {0}};
#undef TO
#define TO divergence_opts
const struct option eval_kld_options[] = {
#include "commands/eval_kld.def"
    {0}};
#undef TO
#define TO cases_opts
const struct option eval_cases_options[] = {
#include "commands/eval_cases.def"
    {0}};
#undef TO
#define TO replay_opts
const struct option eval_replay_options[] = {
#include "commands/eval_replay.def"
    {0}};
#undef TO
#define TO eval_set_opts
const struct option eval_suite_options[] = {
#include "commands/eval_suite.def"
    {0}};
#undef TO
#define TO vision_opts
const struct option eval_vision_options[] = {
#include "commands/eval_vision.def"
    {0}};
#undef TO
#define TO caches_opts
const struct option eval_kv_options[] = {
#include "commands/eval_kv.def"
    {0}};
#undef TO
#define TO versus_opts
const struct option versus_options[] = {
#include "commands/versus.def"
    {0}};
#undef TO
#define EVAL(call, command)                                                                        \
    FORM(eval_##call, "eval " command, hone_eval_opts, eval_##call##_options)
const struct form forms_evals[] = {[PPL] = EVAL(ppl, "ppl"),
                                   [KLD] = EVAL(kld, "kld"),
                                   [MTP] = EVAL(mtp, "mtp"),
                                   [CASES] = EVAL(cases, "tools|eval checks"),
                                   [CHOICE] = EVAL(choice, "choice"),
                                   [NEEDLE] = EVAL(needle, "needle"),
                                   [REPLAY] = EVAL(replay, "traffic"),
                                   [SUITE] = EVAL(suite, "suite"),
                                   [SPEED] = EVAL(speed, "speed"),
                                   [CACHES] = EVAL(kv, "kv"),
                                   [LOGITS] = EVAL(logits, "logits"),
                                   [VISION] = EVAL(vision, "vision"),
                                   [VERSUS] =
                                       FORM(versus, "versus", hone_eval_opts, versus_options),
                                   {0}};

/* ---- calls ---- */

/* Starts a measurement: copies the options (NULL: defaults) to the job, as row `form` of
 * forms_evals specifies, and prepares *json. */
static int begin_eval(struct task *t, int form, const struct hone_eval_opts *eo, void *job,
                      const struct hone_opts *o, char **json, struct hone_error *e) {
    struct hone_eval_opts own;
    return task_begin_form(t, &forms_evals[form], eo, &own, job, o, json, e);
}

int hone_eval_ppl(const char *model, const char *text, const struct hone_eval_opts *eo,
                  const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(text, e);
    struct eval_job j = {.eval = eval_text_usual};
    struct task t;
    int rc = begin_eval(&t, PPL, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    return task_end(&t, eval_ppl_run(&t.w, &j.eval, model, text, t.m, &t.c.err), json, e);
}

int hone_eval_mtp(const char *model, const char *text, const struct hone_eval_opts *eo,
                  const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(text, e);
    struct eval_job j = {.eval = eval_text_usual};
    struct task t;
    int rc = begin_eval(&t, MTP, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    return task_end(&t, eval_mtp_run(&t.w, &j.eval, &model, 1, text, t.m, &t.c.err), json, e);
}

int hone_eval_speed(const char *model, const struct hone_eval_opts *eo, const struct hone_opts *o,
                    char **json, struct hone_error *e) {
    NEED(model, e);
    struct eval_job j = {.eval = eval_speed_usual};
    struct task t;
    int rc = begin_eval(&t, SPEED, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    return task_end(&t, eval_speed_run(&t.w, &j.eval, model, t.m, &t.c.err), json, e);
}

int hone_eval_logits(const char *model, const char *ids, const char *path,
                     const struct hone_eval_opts *eo, const struct hone_opts *o, char **json,
                     struct hone_error *e) {
    NEED(model, e);
    struct eval_job j = {.eval = eval_answer_usual};
    struct task t;
    int rc = begin_eval(&t, LOGITS, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    j.eval.ids = ids;
    j.eval.out = path;
    return task_end(&t, eval_logits_run(&t.w, &j.eval, model, t.m, &t.c.err), json, e);
}

int hone_eval_choice(const char *model, const char *file, const struct hone_eval_opts *eo,
                     const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(file, e);
    struct eval_job j = {.eval = eval_answer_usual};
    struct task t;
    int rc = begin_eval(&t, CHOICE, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    j.tasks.path = file;
    rc = eval_choice_run(&t.w, &j.eval, model, &j.tasks, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_eval_needle(const char *model, const char *text, const struct hone_eval_opts *eo,
                     const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    NEED(text, e);
    struct eval_job j = {.eval = eval_answer_usual, .tasks = eval_needle_usual};
    struct task t;
    int rc = begin_eval(&t, NEEDLE, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    j.tasks.path = text;
    return task_end(&t, eval_tasks_run(&t.w, &j.eval, model, &j.tasks, t.m, &t.c.err), json, e);
}

int hone_eval_kld(const char *const *models, const char *const *texts,
                  const struct hone_eval_opts *eo, const struct hone_opts *o, char **json,
                  struct hone_error *e) {
    struct divergence_opts j = {.eval = eval_text_usual};
    struct task t;
    int rc = begin_eval(&t, KLD, eo, &j, o, json, e);
    if (rc) return rc;
    const struct str_list m = task_list(&t, models), l = task_list(&t, texts);
    j.eval.pre = t.w.pre;
    j.model = m.v;
    j.n_models = m.n;
    j.text = l.v;
    j.n_texts = l.n;
    rc = m.n ? divergence_run(&t.w, &j, t.m, &t.c.err)
             : err_set(&t.c.err, ERR_USAGE, "eval kld: at least one model is needed");
    return task_end(&t, rc, json, e);
}

int hone_eval_vision(const char *const *models, const char *questions,
                     const struct hone_eval_opts *eo, const struct hone_opts *o, char **json,
                     struct hone_error *e) {
    NEED(questions, e);
    struct vision_opts j = eval_vision_usual;
    struct task t;
    int rc = begin_eval(&t, VISION, eo, &j, o, json, e);
    if (rc) return rc;
    const struct str_list m = task_list(&t, models);
    j.eval.pre = t.w.pre;
    j.model = m.v;
    j.n_models = m.n;
    j.lines = questions;
    rc = m.n ? eval_vision_run(&t.w, &j, t.m, &t.c.err)
             : err_set(&t.c.err, ERR_USAGE, "eval vision: at least one model is needed");
    return task_end(&t, rc, json, e);
}

int hone_eval_cases(const char *model, const char *suite, const struct hone_eval_opts *eo,
                    const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    struct cases_opts j = eval_cases_usual;
    struct task t;
    int rc = begin_eval(&t, CASES, eo, &j, o, json, e);
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
    int rc = begin_eval(&t, REPLAY, eo, &j, o, json, e);
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
    int rc = begin_eval(&t, SUITE, eo, &j, o, json, e);
    if (rc) return rc;
    j.eval.pre = t.w.pre;
    j.eval.out = path;
    j.model = model;
    return task_end(&t, eval_set_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_versus(const char *base, const char *const *files, const struct hone_eval_opts *eo,
                const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(base, e);
    struct versus_opts j = versus_usual;
    struct task t;
    int rc = begin_eval(&t, VERSUS, eo, &j, o, json, e);
    if (rc) return rc;
    const struct str_list l = task_list(&t, files);
    j.eval.pre = t.w.pre;
    j.base = base;
    j.file = l.v;
    j.n_files = l.n;
    return task_end(&t, versus_run(&t.w, &j, t.m, &t.c.err), json, e);
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
    int rc = begin_eval(&t, CACHES, eo, &j, o, json, e);
    return rc ? rc : task_end(&t, eval_caches_run(&t.w, &j, t.m, &t.c.err), json, e);
}
