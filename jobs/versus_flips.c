// SPDX-License-Identifier: MIT
/* jobs/versus_flips.c - what changes against the base: choices, greedy texts, tool calls. Choices
 * and tool calls open one model at a time; greedy texts use the open sessions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/versus_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/measure/choices.h"
#include "runtime/measure/suite.h"

/* Returns model i: the base for 0, then the files. */
static struct versus_file *model_at(struct versus *v, int i) {
    return i ? &v->f[i - 1] : &v->base;
}

/* ---- multiple choice ---- */

struct picks { /* the answers of all models to all files of tasks */
    int64_t n_tasks, right[VERSUS_MAX + 1], changed[VERSUS_MAX + 1];
};

/* Splits FORMAT:FILE at the colon. The caller frees *format. */
static int split_choice(const char *given, char **format, const char **path, struct err *e) {
    const char *colon = strchr(given, ':');
    if (!colon) return err_set(e, ERR_USAGE, "--choice: '%s' is not FORMAT:FILE", given);
    *format = xstrndup(given, (size_t)(colon - given));
    *path = colon + 1;
    return 0;
}

/* Reads the tasks of a file, to find errors before the work. */
static int read_choice(const struct versus *v, const char *given, struct err *e) {
    struct choice_tasks tasks;
    char *format = NULL;
    const char *path = NULL;
    TRY(split_choice(given, &format, &path, e));
    const int rc = choices_open(&tasks, format, path, v->base.m->tok, v->o->n_cases, e);
    if (!rc) choices_close(&tasks);
    free(format);
    return rc;
}

/* Scores one file of tasks with every model. */
static int run_choice(struct versus *v, const char *given, struct picks *p, struct err *e) {
    int rc = 0, *base = NULL;
    char *format = NULL;
    const char *path = NULL;
    TRY(split_choice(given, &format, &path, e));
    const struct choice_job job = {.format = format, .path = path, .n_cases = v->o->n_cases};
    for (int i = 0; i <= v->n && !rc; i++) {
        struct choice_tasks tasks;
        struct choice_answers a;
        rc = eval_choice_of(v->w, &v->eval, model_at(v, i)->path, &job, &tasks, &a, e);
        if (rc) break;
        if (!i) {
            base = xcalloc((size_t)a.n + 1, sizeof *base);
            memcpy(base, a.pick, (size_t)a.n * sizeof *base);
            p->n_tasks += a.n;
        }
        for (int k = 0; k < a.n; k++) {
            p->right[i] += a.pick[k] == tasks.t[k].right;
            p->changed[i] += a.pick[k] != base[k];
        }
        choice_answers_release(&a);
        choices_close(&tasks);
    }
    free(base);
    free(format);
    return rc;
}

/* Scores all files of tasks and sets the counts of every model. */
static int run_choices(struct versus *v, struct err *e) {
    struct picks p = {0};
    for (int i = 0; i < v->o->choice.n; i++) TRY(run_choice(v, v->o->choice.v[i], &p, e));
    for (int i = 0; i <= v->n && p.n_tasks; i++) {
        struct versus_counts *c = &model_at(v, i)->n;
        c->choices = eval_share_of(p.changed[i], p.n_tasks);
        c->right_per_100 = 100 * (double)p.right[i] / (double)p.n_tasks;
    }
    v->has_choices = p.n_tasks > 0;
    return 0;
}

/* ---- greedy texts ---- */

/* Copies the prompt of text i: the domains in turn, evenly spaced within each. Returns false if the
 * domain is too short for another one. */
static bool prompt_of(const struct versus *v, int64_t i, int64_t n, int32_t *out) {
    const struct eval_domain *d = &v->texts.domain[i % v->texts.n];
    const int64_t each = (n + v->texts.n - 1) / v->texts.n, k = i / v->texts.n;
    const struct tok *t = v->base.m->tok;
    const int64_t room = d->n_ids - VERSUS_PROMPT_LEN, at = k * room / each;
    if (room < 0 || (k && at == (k - 1) * room / each)) return false;
    memcpy(out, d->ids + at, VERSUS_PROMPT_LEN * sizeof *out);
    if (tok_add_bos(t) && tok_special(t, TS_BOS) >= 0) out[0] = (int32_t)tok_special(t, TS_BOS);
    return true;
}

/* Compares the continuations of one prompt: at[i] receives the first differing token of file i,
 * from 1; 0: none. */
static int run_prompt(struct versus *v, const int32_t *prompt, double *at, struct err *e) {
    struct ids base = {0}, own = {0};
    int rc =
        eval_greedy(v->base.s[0], prompt, VERSUS_PROMPT_LEN, VERSUS_GREEDY_LEN, NULL, &base, e);
    for (int i = 0; i < v->n && !rc; i++) {
        rc =
            eval_greedy(v->f[i].s[0], prompt, VERSUS_PROMPT_LEN, VERSUS_GREEDY_LEN, &base, &own, e);
        at[i] = own.n < base.n ? (double)own.n + 1 : 0;
    }
    ids_release(&base);
    ids_release(&own);
    return rc;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sets the counts of file i from the first differing tokens of n texts, at[text][file]. */
static void count_greedy(struct versus *v, int i, const double *at, int64_t n) {
    double *first = xcalloc((size_t)n + 1, sizeof *first);
    int64_t changed = 0;
    for (int64_t k = 0; k < n; k++)
        if (at[k * v->n + i] > 0) first[changed++] = at[k * v->n + i];
    qsort(first, (size_t)changed, sizeof *first, ascending);
    v->f[i].n.greedy = eval_share_of(changed, n);
    if (changed) v->f[i].n.first_change = (first[(changed - 1) / 2] + first[changed / 2]) / 2;
    free(first);
}

static int run_greedy(struct versus *v, int64_t n, struct err *e) {
    int32_t prompt[VERSUS_PROMPT_LEN];
    double *at = xcalloc((size_t)(n * v->n) + 1, sizeof *at);
    struct progress prog = {0};
    int64_t done = 0;
    int rc = 0;
    progress_begin(&prog, "greedy texts", PROG_ITEMS, (uint64_t)n);
    for (int64_t i = 0; i < n && !rc; i++) {
        if (prompt_of(v, i, n, prompt)) rc = run_prompt(v, prompt, at + v->n * done++, e);
        progress_update(&prog, (uint64_t)i + 1);
    }
    progress_end(&prog);
    for (int i = 0; i < v->n && !rc && done; i++) count_greedy(v, i, at, done);
    v->has_greedy = !rc && done > 0;
    free(at);
    return rc;
}

/* ---- tool calls ---- */

struct calls { /* cases that each model answered, and among them */
    int64_t n[VERSUS_MAX + 1], changed[VERSUS_MAX + 1], valid[VERSUS_MAX + 1],
        passed[VERSUS_MAX + 1];
};

/* Answers the cases of a suite with model i. *a stays empty, with a warning, if the model's
 * template does not allow that. */
static int answer_suite(struct versus *v, int i, const struct suite *suite, struct suite_answers *a,
                        struct err *e) {
    struct eval_args how = v->eval;
    how.ctx = 0; /* as long as the prompts need */
    const struct versus_file *x = model_at(v, i);
    if (suite_calls(suite) && !versus_calls(x->m)) {
        log_warn("%s: tool calls are not compared: its template has no known syntax for them",
                 x->path);
        return 0;
    }
    const int rc =
        eval_suite_of(v->w, &how, x->path, suite, v->o->n_cases, v->o->max_tokens, NULL, a, e);
    if (rc == ERR_DATA) log_warn("%s: its answers are not compared", e->msg);
    return rc == ERR_DATA ? 0 : rc;
}

/* Runs one suite on every model. */
static int run_suite(struct versus *v, const char *path, struct calls *c, struct err *e) {
    struct suite suite;
    struct suite_answers base = {0};
    TRY(eval_suite_read(&suite, path, e));
    for (int i = 0; i < suite.n; i++)
        v->mixed_suites |= !json_first(json_get(suite.c[i].json, "tools"));
    int rc = answer_suite(v, 0, &suite, &base, e);
    for (int i = 0; i <= v->n && !rc && base.n; i++) {
        struct suite_answers own = {0}, *a = i ? &own : &base;
        if (i) rc = answer_suite(v, i, &suite, a, e);
        for (int k = 0; k < a->n && !rc; k++) {
            c->n[i]++;
            c->valid[i] += a->verdict[k].valid;
            c->passed[i] += a->verdict[k].pass;
            c->changed[i] += i && !answer_same(&a->answer[k], &base.answer[k]);
        }
        suite_answers_release(&own);
    }
    suite_answers_release(&base);
    suite_close(&suite);
    return rc;
}

static int run_tools(struct versus *v, struct err *e) {
    static const char *const builtin[] = {"builtin"};
    struct calls c = {0};
    const char *const *list = v->o->tools.v;
    int n = v->o->tools.n;
    if (!n && v->o->flips && versus_calls(v->base.m)) {
        list = builtin;
        n = 1;
    } else if (!n && v->o->flips) {
        log_info("no tool calls are compared: the base's template has no known syntax for them");
    }
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], "none") != 0) TRY(run_suite(v, list[i], &c, e));
    for (int i = 0; i <= v->n; i++) {
        struct versus_counts *to = &model_at(v, i)->n;
        to->tools = eval_share_of(c.changed[i], c.n[i]);
        to->tools_valid = c.valid[i];
        to->tools_passed = c.passed[i];
    }
    v->has_tools = c.n[0] > 0;
    return 0;
}

/* ---- all ---- */

int versus_read_flips(const struct versus *v, struct err *e) {
    for (int i = 0; i < v->o->choice.n; i++) TRY(read_choice(v, v->o->choice.v[i], e));
    for (int i = 0; i < v->o->tools.n; i++) {
        struct suite suite;
        if (strcmp(v->o->tools.v[i], "none") == 0) continue;
        TRY(eval_suite_read(&suite, v->o->tools.v[i], e));
        suite_close(&suite);
    }
    return 0;
}

int64_t versus_n_greedy(const struct versus_opts *o) {
    return o->greedy ? o->greedy : o->flips ? VERSUS_GREEDY : 0;
}

int versus_flips(struct versus *v, struct err *e) {
    const int64_t n = versus_n_greedy(v->o);
    for (int i = 0; i <= v->n; i++) {
        model_at(v, i)->n.right_per_100 = (double)NAN;
        model_at(v, i)->n.first_change = (double)NAN;
    }
    if (n) TRY(run_greedy(v, n, e));
    TRY(run_choices(v, e));
    return run_tools(v, e);
}
