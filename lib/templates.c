// SPDX-License-Identifier: MIT
/* lib/templates.c - library calls for chat templates: describe, lint, fix, diff, render. */
#include "jobs/template_defects.h"
#include "jobs/template_text.h"
#include "lib/form.h"
#include "lib/options.h"

enum { DESCRIBE, LINT, EXPLAIN, FIX, SPANS, BATCH, EVAL };

/* ---- options ---- */

#include "commands/rows.h"
#define TO template_show_opts
const struct option template_show_options[] = {
#include "commands/template_show.def"
    {0}};
#undef TO
#define TO template_lint_opts
const struct option template_lint_options[] = {
#include "commands/template_lint.def"
    {0}};
#undef TO
#define TO fix_opts
const struct option template_fix_options[] = {
#include "commands/template_fix.def"
    {0}};
#undef TO
#define TO render_opts
const struct option template_render_options[] = {
#include "commands/template_render.def"
    {0}};
#undef TO
#define TO template_eval_opts
const struct option template_eval_options[] = {
#include "commands/template_eval.def"
    {0}};
#undef TO

const struct form forms_templates[] = {
    [DESCRIBE] = FORM_OF_ARGUMENTS(template_describe, "template show", template_show_options),
    [LINT] = FORM_OF_ARGUMENTS(template_lint, "template lint", template_lint_options),
    [EXPLAIN] = FORM_OF_ARGUMENTS(template_explain, "template lint", template_lint_options),
    [FIX] = FORM(template_fix, "template fix", hone_template_fix_opts, template_fix_options),
    [SPANS] =
        FORM(template_spans, "template render", hone_template_render_opts, template_render_options),
    [BATCH] =
        FORM(template_batch, "template render", hone_template_render_opts, template_render_options),
    [EVAL] = FORM_OF_ARGUMENTS(template_eval, "template eval", template_eval_options),
    {0}};

/* ---- calls ---- */

int hone_template_describe(const char *source, const char *name, const struct hone_opts *o,
                           char **json, struct hone_error *e) {
    NEED(source, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, template_describe(source, name, t.m, NULL, &t.c.err), json, e);
}

int hone_template_lint(const char *source, const char *name, int strict, const struct hone_opts *o,
                       char **json, struct hone_error *e) {
    NEED(source, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    if (rc) return rc;
    return task_end(&t, template_lint(source, name, strict != 0, t.m, &t.c.err), json, e);
}

int hone_template_explain(const char *rule, const struct hone_opts *o, char **json,
                          struct hone_error *e) {
    NEED(rule, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, template_explain(rule, t.m, &t.c.err), json, e);
}

int hone_template_fix(const char *source, const struct hone_template_fix_opts *opts,
                      const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(source, e);
    struct hone_template_fix_opts fo;
    struct fix_opts j = {.src = source};
    struct buf diff = {0};
    struct task t;
    int rc = task_begin_form(&t, &forms_templates[FIX], opts, &fo, &j, o, json, e);
    if (rc) return rc;
    if (j.list) return task_end(&t, template_edits(&j, t.m, &t.c.err), json, e);
    rc = template_fix(&t.w, &j, t.m, &diff, &t.c.err);
    buf_release(&diff);
    return task_end(&t, rc, json, e);
}

int hone_template_diff(const char *a, const char *b, const struct hone_opts *o, char **json,
                       struct hone_error *e) {
    NEED(a, e);
    NEED(b, e);
    struct buf diff = {0};
    struct task t;
    int rc = task_begin(&t, o, json, e);
    if (rc) return rc;
    rc = template_diff(a, b, &diff, &t.c.err);
    if (!rc || rc == ERR_VERDICT) task_text(&t, "diff", &diff);
    buf_release(&diff);
    return task_end(&t, rc, json, e);
}

int hone_template_spans(const char *source, const char *conversation,
                        const struct hone_template_render_opts *opts, const struct hone_opts *o,
                        char **json, struct hone_error *e) {
    NEED(source, e);
    NEED(conversation, e);
    struct hone_template_render_opts ro;
    struct render_opts j = {.src = source, .chat = conversation, .spans = true};
    struct buf none = {0};
    struct task t;
    int rc = task_begin_form(&t, &forms_templates[SPANS], opts, &ro, &j, o, json, e);
    if (rc) return rc;
    rc = template_render(&j, &none, t.m, &t.c.err);
    buf_release(&none);
    return task_end(&t, rc, json, e);
}

int hone_template_batch(const char *source, const char *scenarios,
                        const struct hone_template_render_opts *opts, const struct hone_opts *o,
                        char **json, struct hone_error *e) {
    NEED(source, e);
    NEED(scenarios, e);
    struct hone_template_render_opts ro;
    struct render_opts j = {.src = source, .batch = scenarios};
    struct task t;
    int rc = task_begin_form(&t, &forms_templates[BATCH], opts, &ro, &j, o, json, e);
    return rc ? rc : task_end(&t, template_render(&j, &t.text, t.m, &t.c.err), json, e);
}

int hone_template_eval(const char *units, const char *mode, const struct hone_opts *o, char **json,
                       struct hone_error *e) {
    NEED(units, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, template_eval(units, mode, &t.text, &t.c.err), json, e);
}
