// SPDX-License-Identifier: MIT
/* template/judge.c - the verdict on a chat template in a sentence, and the command that mends it.
 */
#include "template/judge.h"

#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/str.h"
#include "template/lint.h"
#include "template/lint_rules.h"
#include "text/shell.h"

/* Fills in the number of errors and the explanation of the worst. */
static void explain(struct template_verdict *v, const struct lint_report *r) {
    const struct lint_finding *f = lint_unusable(r);
    v->n_errors = v->n_left = r->n_by[LINT_ERROR];
    v->unusable = f != NULL;
    for (int i = 0; i < r->n && !f; i++)
        if (r->v[i].severity == LINT_ERROR) f = &r->v[i];
    if (!f) return;
    const struct lint_rule *rule = lint_rule_find(f->rule);
    int n = snprintf(v->why, sizeof v->why, "%s", rule ? rule->meaning : f->rule), k = 0;
    while (f->detail[k]) k++;
    while (k && f->detail[k - 1] == '.') k--;
    if (v->unusable && f->line)
        snprintf(v->why + n, sizeof v->why - (size_t)n, " (line %d, column %d: %.*s)", f->line,
                 f->col, k, f->detail);
}

/* Returns whether some rule has an error in `before` and none in `after`. An error that only
 * another one had hidden does not count against a repair. */
static bool removes_one(const struct lint_report *before, const struct lint_report *after) {
    for (int i = 0; i < before->n; i++) {
        bool stays = before->v[i].severity != LINT_ERROR;
        for (int k = 0; k < after->n && !stays; k++)
            stays = after->v[k].severity == LINT_ERROR &&
                    strcmp(after->v[k].rule, before->v[i].rule) == 0;
        if (!stays) return true;
    }
    return false;
}

/* Looks for a repair and keeps it if it removes errors. */
static int find_repair(struct template_verdict *v, const char *text, size_t len,
                       const struct lint_report *before, struct err *e) {
    struct lint_report after;
    struct err ignored;
    bool better = false;
    TRY(repair_run(&v->repair, text, len, "the chat template", NULL, 0, e));
    const struct buf *fixed = &v->repair.text;
    if (v->repair.n && lint_run(&after, fixed->data, fixed->len, "the repaired template", JINJA_HF,
                                &ignored) == 0) {
        better = after.n_by[LINT_ERROR] < v->n_errors || removes_one(before, &after);
        if (better) v->n_left = after.n_by[LINT_ERROR];
        lint_report_free(&after);
    }
    if (!better) repair_free(&v->repair);
    return 0;
}

int template_judge(struct template_verdict *v, const char *text, size_t len, enum repair_when when,
                   struct err *e) {
    struct lint_report r;
    struct err why;
    memset(v, 0, sizeof *v);
    if (lint_run(&r, text, len, "the chat template", JINJA_HF, &why)) {
        if (why.code == ERR_INTR) return err_set(e, ERR_INTR, "interrupted");
        v->unknown = true;
        snprintf(v->why, sizeof v->why, "%.500s", why.msg);
        return 0;
    }
    explain(v, &r);
    v->own = own_for(text, len);
    if (v->own && own_len(v->own) == len && memcmp(v->own->text, text, len) == 0) v->own = NULL;
    const bool look =
        when == REPAIR_ERRORS ? v->n_errors > 0 : when == REPAIR_UNUSABLE && v->unusable;
    const int rc = look ? find_repair(v, text, len, &r, e) : 0;
    lint_report_free(&r);
    return rc;
}

void template_verdict_free(struct template_verdict *v) {
    repair_free(&v->repair);
}

void template_remedy(const struct template_verdict *v, const char *path, struct buf *out) {
    const bool folder = io_is_dir(path);
    struct buf word = {0};
    shell_word(&word, path);
    if (v->repair.n)
        buf_fmt(out, "hone template fix %s --in-place repairs it", word.data);
    else if (v->own)
        buf_fmt(out, "hone template fix %s --replace %s --in-place replaces it with hone's own",
                word.data, v->own->name);
    else if (!v->unusable)
        buf_fmt(out, "hone has no repair for it; hone template lint %s explains", word.data);
    else if (folder || str_ends(path, ".jinja"))
        buf_fmt(out, "correct it, or use that of the original model, in %s%s", path,
                folder ? "/chat_template.jinja" : "");
    else
        buf_fmt(out,
                "correct it, or use that of the original model: hone meta %s "
                "tokenizer.chat_template=@FILE",
                word.data);
    buf_release(&word);
}
