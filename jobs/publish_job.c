// SPDX-License-Identifier: MIT
/* jobs/publish_job.c - hone publish: prepares or checks a folder (publish_job.h). */
#include <stdlib.h>
#include <string.h>

#include "jobs/publish_job.h"
#include "make/publish.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "report/folder_lint.h"
#include "template/judge.h"

static void emit_findings(struct emit *m, const struct lint *l) {
    emit_table(m, "findings", l->n ? "findings" : NULL);
    emit_col(m, "level", "level");
    emit_col(m, "rule", "rule");
    emit_col(m, "file", "file");
    emit_col(m, "finding", "finding");
    for (int i = 0; i < l->n; i++) {
        const struct lint_finding *f = &l->finding[i];
        emit_row(m);
        emit_cell_str(m, f->error ? "error" : "warning");
        emit_cell_str(m, f->rule);
        emit_cell_str(m, f->file);
        emit_cell_str(m, f->text);
    }
}

/* Emits whether the folder can be published, with the first finding in full. */
static void emit_verdict(struct emit *m, const struct lint *l) {
    struct buf b = {0};
    int n_warnings = l->n - l->n_errors, first = 0;
    while (first < l->n && l->n_errors && !l->finding[first].error) first++;
    if (l->n_errors)
        buf_fmt(&b, "Not publishable: %d error%s", l->n_errors, l->n_errors == 1 ? "" : "s");
    else
        buf_fmt(&b, "Publishable: no error in %lld file%s", (long long)l->n_files,
                str_s(l->n_files));
    if (n_warnings)
        buf_fmt(&b, "%s %d warning%s", l->n_errors ? " and" : ",", n_warnings,
                n_warnings == 1 ? "" : "s");
    if (l->n) {
        const struct lint_finding *f = &l->finding[first];
        buf_fmt(&b, "; first %s: %s%s%s", l->n_errors ? "to repair" : "of them",
                f->file ? f->file : "", f->file && *f->file ? ": " : "", f->text);
    }
    if (b.data[b.len - 1] != '.') buf_chr(&b, '.');
    emit_answer(m, b.data);
    buf_release(&b);
}

/* Returns ERR_USAGE unless dir is a folder. */
static int check_is_folder(const char *dir, struct err *e) {
    return io_is_dir(dir) ? 0 : err_set(e, ERR_USAGE, "%s is not a folder", dir);
}

/* Judges the chat template of a file (struct lint, judge). */
static enum judged judge(const char *text, const char *path, struct buf *what) {
    struct template_verdict v;
    struct err ignored;
    if (template_judge(&v, text, strlen(text), REPAIR_ERRORS, &ignored))
        return JUDGED_FINE; /* interrupted */
    const enum judged is = v.unusable                ? JUDGED_ERROR
                           : v.n_errors || v.unknown ? JUDGED_WARNING
                                                     : JUDGED_FINE;
    if (v.unknown)
        buf_fmt(what, "its chat template was not checked: %s", v.why);
    else if (is == JUDGED_WARNING)
        buf_fmt(what, "its chat template has %d defect%s, the first: %s", v.n_errors,
                str_s(v.n_errors), v.why);
    else if (is == JUDGED_ERROR)
        buf_str(what, v.why);
    if (v.n_errors) {
        buf_str(what, "; ");
        template_remedy(&v, path, what);
    }
    template_verdict_free(&v);
    return is;
}

int publish_job_check(const char *dir, bool quick, struct emit *m, struct err *e) {
    struct lint l = {.dir = dir, .quick = quick, .judge = judge};
    TRY(check_is_folder(dir, e));
    int rc = lint_folder(&l, e);
    if (rc == 0) {
        emit_verdict(m, &l);
        emit_bool(m, "ok", "publishable", l.n_errors == 0);
        emit_i64(m, "n_files", "files", l.n_files);
        emit_i64(m, "n_errors", "errors", l.n_errors);
        emit_i64(m, "n_warnings", "warnings", l.n - l.n_errors);
        emit_findings(m, &l);
        for (int i = 0; i < l.n; i++)
            if (l.finding[i].error) {
                rc = err_set(e, ERR_VERDICT, "%s: %d error%s, the first: %.100s: %.300s", dir,
                             l.n_errors, l.n_errors == 1 ? "" : "s", l.finding[i].file,
                             l.finding[i].text);
                break;
            }
    }
    lint_release(&l);
    return rc;
}

/* Prepares the folder and adds the result. */
static int publish_and_emit(const struct publish_opts *o, struct emit *m, struct err *e) {
    struct publish_report r;
    char size[48];
    TRY(publish_folder(o, &r, e));
    if (!(r.has_license && r.has_base) && !o->manifest_only)
        log_info("the card names no %s: hone publish %s%s%s adds it",
                 r.has_license ? "base model" : "license", o->dir,
                 r.has_license ? "" : " --license ID", r.has_base ? "" : " --base-model ORG/NAME");
    emit_fmt_bytes(size, r.n_bytes);
    emit_str(m, "folder", "folder", o->dir);
    emit_i64(m, "n_models", "models", r.n_models);
    emit_i64(m, "n_written", "files written", r.n_written);
    emit_i64(m, "n_listed", "files listed", r.n_listed);
    emit_str(m, "size", "size", size);
    emit_i64(m, "size_bytes", NULL, (int64_t)r.n_bytes);
    return 0;
}

int publish_job_run(const struct publish_job_opts *x, struct emit *m, struct err *e) {
    struct facts facts;
    struct publish_opts with = x->o;
    TRY(check_is_folder(with.dir, e));
    facts_init(&facts);
    with.facts = &facts;
    int rc = publish_facts_parse(&x->given, &facts, e);
    if (rc == 0) rc = publish_and_emit(&with, m, e);
    facts_release(&facts);
    return rc;
}
