// SPDX-License-Identifier: MIT
/* lib/steps.c - the library calls that lead from a checkpoint to quantized files: convert, imatrix,
 * sensitivity, quantize, mix, make. Each runs the job of the command with the same name and returns
 * the result as JSON.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/convert_job.h"
#include "jobs/imatrix_job.h"
#include "jobs/imatrix_select.h"
#include "make/make.h"
#include "jobs/quantize_job.h"
#include "mix/sensitivity.h"
#include "lib/form.h"
#include "lib/options.h"

enum {
    CONVERT,
    IMATRIX,
    IMATRIX_MERGE,
    IMATRIX_STATS,
    IMATRIX_SELECT,
    SENSITIVITY,
    QUANTIZE,
    MIX,
    MAKE
};

/* ---- options ---- */

#include "commands/rows.h"
#define TO convert_job_opts
const struct option convert_options[] = {
#include "commands/convert.def"
    {0}};
#undef TO
#define TO imatrix_ask
const struct option imatrix_options[] = {
#include "commands/imatrix.def"
    {0}};
#undef TO
#define TO sensitivity_ask
const struct option sensitivity_options[] = {
#include "commands/sensitivity.def"
    {0}};
#undef TO
#define TO quantize_job_opts
const struct option quantize_options[] = {
#include "commands/quantize.def"
    {0}};
#undef TO
#define TO make_opts
const struct option make_options[] = {
#include "commands/make.def"
    {0}};
#undef TO

const struct form forms_steps[] = {
    [CONVERT] = FORM(convert, "convert", hone_convert_opts, convert_options),
    [IMATRIX] = FORM(imatrix, "imatrix", hone_imatrix_opts, imatrix_options),
    [IMATRIX_MERGE] = FORM(imatrix_merge, "imatrix", hone_imatrix_opts, imatrix_options),
    [IMATRIX_STATS] = FORM_OF_ARGUMENTS(imatrix_stats, "imatrix", imatrix_options),
    [IMATRIX_SELECT] = FORM(imatrix_select, "imatrix", hone_imatrix_opts, imatrix_options),
    [SENSITIVITY] = FORM(sensitivity, "sensitivity", hone_sensitivity_opts, sensitivity_options),
    [QUANTIZE] = FORM(quantize, "quantize", hone_quantize_opts, quantize_options),
    [MIX] = FORM(mix, "quantize", hone_mix_opts, quantize_options),
    [MAKE] = FORM(make, "make", hone_make_opts, make_options),
    {0}};

/* ---- calls ---- */

int hone_convert(const char *folder, const char *path, const struct hone_convert_opts *opts,
                 const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(folder, e);
    struct hone_convert_opts co;
    struct convert_job_opts j = {.o = {.src = folder, .out = path}};
    struct task t;
    int rc = task_begin_form(&t, &forms_steps[CONVERT], opts, &co, &j, o, json, e);
    if (rc) return rc;
    rc = task_need(path ? path : j.mmproj, true, &t.c.err);
    if (!rc) rc = convert_job_run(&t.w, &j, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_imatrix(const char *model, const char *const *texts, const char *path,
                 const struct hone_imatrix_opts *opts, const struct hone_opts *o, char **json,
                 struct hone_error *e) {
    NEED(model, e);
    struct hone_imatrix_opts io;
    struct imatrix_ask j = {.a = {.out = path}};
    struct task t;
    int rc = task_begin_form(&t, &forms_steps[IMATRIX], opts, &io, &j, o, json, e);
    if (rc) return rc;
    const struct str_list l = task_list(&t, texts);
    j.a.text = l.v;
    j.a.n_texts = l.n;
    j.a.pre = t.w.pre;
    rc = task_need(path, true, &t.c.err);
    if (!rc && !l.n) rc = err_set(&t.c.err, ERR_USAGE, "imatrix: at least one text is needed");
    if (!rc) rc = imatrix_job_collect(&t.w, model, &j.a, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_imatrix_merge(const char *const *from, const char *path,
                       const struct hone_imatrix_opts *opts, const struct hone_opts *o, char **json,
                       struct hone_error *e) {
    struct hone_imatrix_opts io;
    struct imatrix_ask j = {.a = {.out = path}};
    struct task t;
    int rc = task_begin_form(&t, &forms_steps[IMATRIX_MERGE], opts, &io, &j, o, json, e);
    if (rc) return rc;
    const struct str_list l = task_list(&t, from);
    rc = task_need(path, true, &t.c.err);
    if (!rc && !l.n) rc = err_set(&t.c.err, ERR_USAGE, "imatrix: at least one matrix is needed");
    if (!rc) rc = imatrix_job_merge(&t.w, l.v, l.n, &j.a, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_imatrix_stats(const char *path, const struct hone_opts *o, char **json,
                       struct hone_error *e) {
    NEED(path, e);
    struct task t;
    int rc = task_begin(&t, o, json, e);
    return rc ? rc : task_end(&t, imatrix_job_stats(path, t.m, &t.c.err), json, e);
}

int hone_imatrix_select(const char *model, const char *const *texts, int64_t n_tokens,
                        const char *path, const struct hone_imatrix_opts *opts,
                        const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    struct hone_imatrix_opts io;
    struct imatrix_ask j = {.select = {.model = model, .out = path, .budget = n_tokens}};
    struct task t;
    int rc = task_begin_form(&t, &forms_steps[IMATRIX_SELECT], opts, &io, &j, o, json, e);
    if (rc) return rc;
    const struct str_list l = task_list(&t, texts);
    j.select.text = l.v;
    j.select.n_texts = l.n;
    j.select.ctx = j.a.ctx;
    j.select.parse_special = !j.a.no_special;
    rc = task_need(path, true, &t.c.err);
    if (!rc && (!l.n || n_tokens < 1))
        rc = err_set(&t.c.err, ERR_USAGE, "imatrix: selecting needs texts and a number of tokens");
    if (!rc) rc = imatrix_select(&t.w, &j.select, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_sensitivity(const char *model, const char *path, const struct hone_sensitivity_opts *opts,
                     const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(model, e);
    struct hone_sensitivity_opts so;
    struct sensitivity_ask j = sensitivity_usual;
    struct task t;
    int rc = task_begin_form(&t, &forms_steps[SENSITIVITY], opts, &so, &j, o, json, e);
    if (rc) return rc;
    j.o.model = model;
    j.o.out = path;
    return task_end(&t, sensitivity_run(&t.w, &j, t.m, &t.c.err), json, e);
}

int hone_quantize(const char *in, const char *path, const struct hone_quantize_opts *opts,
                  const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(in, e);
    struct hone_quantize_opts qo;
    struct quantize_job_opts j = {.in = in, .out = path};
    struct task t;
    int rc = task_begin_form(&t, &forms_steps[QUANTIZE], opts, &qo, &j, o, json, e);
    if (rc) return rc;
    rc = task_need(path, !qo.dry_run, &t.c.err);
    if (!rc && !qo.recipe && !qo.type)
        rc = err_set(&t.c.err, ERR_USAGE, "hone_quantize_opts.recipe or type is needed");
    if (!rc) rc = quantize_job_run(&t.w, &j, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

/* Formats a number of bytes for --budget, "15938355200". The text is in w's memory. */
static const char *bytes_text(struct work *w, uint64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return arena_strndup(&w->mem, text, strlen(text));
}

int hone_mix(const char *in, const char *path, const struct hone_mix_opts *opts,
             const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(in, e);
    struct hone_mix_opts mo;
    struct quantize_job_opts j = {.in = in, .out = path};
    struct task t;
    int rc = task_begin_form(&t, &forms_steps[MIX], opts, &mo, &j, o, json, e);
    if (rc) return rc;
    if (mo.bytes) work_list_add(&t.w, &j.mix.budget, bytes_text(&t.w, mo.bytes));
    rc = task_need(path, !mo.dry_run, &t.c.err);
    if (!rc && !budget_asked(&j.mix))
        rc = err_set(&t.c.err, ERR_USAGE, "a mix needs a limit: bytes, budget, bpw or vram");
    if (!rc) rc = quantize_job_run(&t.w, &j, t.m, &t.c.err);
    return task_end(&t, rc, json, e);
}

int hone_make(const char *source, const char *folder, const struct hone_make_opts *opts,
              const struct hone_opts *o, char **json, struct hone_error *e) {
    NEED(source, e);
    struct hone_make_opts mo;
    struct make_opts j = {.mk = make_usual};
    struct task t;
    struct buf after = {0};
    int rc = task_begin_form(&t, &forms_steps[MAKE], opts, &mo, &j, o, json, e);
    if (rc) return rc;
    j.mk.w = &t.w;
    j.mk.src = source;
    j.mk.redo = t.w.overwrite;
    j.mk.asked_chunks = j.mk.eval_chunks;
    rc = task_need(folder, true, &t.c.err);
    if (!rc) rc = make_run(&j.mk, j.recipes, folder, t.m, &after, &t.c.err);
    buf_release(&after);
    return task_end(&t, rc, json, e);
}
