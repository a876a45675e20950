// SPDX-License-Identifier: MIT
/* lib/templates.c - chat templates of files: described, linted, repaired, compared, rendered. */
#include "jobs/template_defects.h"
#include "jobs/template_text.h"
#include "lib/form.h"

enum { DESCRIBE, LINT, EXPLAIN, FIX, DIFF, SPANS, BATCH, EVAL };

/* ---- options ---- */

static const struct field describe_fields[] = {ARGUMENT("name", "name")};
static const struct field lint_fields[] = {ARGUMENT("name", "name"), ARGUMENT("strict", "strict")};
static const struct field explain_fields[] = {ARGUMENT("rule", "explain")};
#define FROM hone_template_fix_opts
#define TO fix_opts
static const struct field fix_fields[] = {FIELD(FIELD_TEXT, path, out, "output"),
                                          FIELD(FIELD_TEXT, only, only, "only"),
                                          FIELD(FIELD_TEXT, replace, replace, "replace"),
                                          FIELD(FIELD_FLAG, in_place, in_place, "in-place"),
                                          FIELD_OF_CALL(list, "list"),
                                          FIELD_OF_WORK(FIELD_FORCE, overwrite, "")};
#undef FROM
#undef TO
static const struct field diff_fields[] = {ARGUMENT("a", ""), ARGUMENT("b", "")};
#define FROM hone_template_render_opts
#define TO render_opts
static const struct field spans_fields[] = {
    ARGUMENT("conversation", "chat"),
    ARGUMENT("(the call)", "spans"),
    FIELD(FIELD_TEXT, tools, tools, "tools"),
    FIELD(FIELD_TEXT, kwargs, kwargs, "kwargs"),
    FIELD(FIELD_TEXT, name, name, "name"),
    FIELD(FIELD_TEXT, context, context, "context"),
    FIELD(FIELD_TEXT, mode, mode, "mode"),
    FIELD(FIELD_TEXT, now, now, "now"),
    FIELD(FIELD_TEXT, args, args, "args"),
    FIELD(FIELD_FLAG, no_invite, no_gen, "no-generation-prompt")};
static const struct field batch_fields[] = {ARGUMENT("scenarios", "batch"),
                                            FIELD(FIELD_TEXT, name, name, "name"),
                                            FIELD(FIELD_TEXT, mode, mode, "mode")};
#undef FROM
#undef TO
static const struct field eval_fields[] = {ARGUMENT("units", "batch"), ARGUMENT("mode", "mode")};

const struct form forms_templates[] = {
    [DESCRIBE] = FORM_OF_ARGUMENTS("hone_template_describe", "template show", describe_fields),
    [LINT] = FORM_OF_ARGUMENTS("hone_template_lint", "template lint", lint_fields),
    [EXPLAIN] = FORM_OF_ARGUMENTS("hone_template_explain", "template lint", explain_fields),
    [FIX] = FORM("hone_template_fix", "template fix", hone_template_fix_opts, fix_fields),
    [DIFF] = FORM_OF_ARGUMENTS("hone_template_diff", "template diff", diff_fields),
    [SPANS] =
        FORM("hone_template_spans", "template render", hone_template_render_opts, spans_fields),
    [BATCH] =
        FORM("hone_template_batch", "template render", hone_template_render_opts, batch_fields),
    [EVAL] = FORM_OF_ARGUMENTS("hone_template_eval", "template eval", eval_fields),
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
    if (fo.list) return task_end(&t, template_edits(&j, t.m, &t.c.err), json, e);
    rc = template_fix(&t.w, &j, &diff, &t.c.err);
    if (!rc) task_text(&t, "diff", &diff);
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
