// SPDX-License-Identifier: MIT
/* jobs/template_defects.h - hone template lint and fix: defects of a chat template and repairs. */
#ifndef HONE_JOBS_TEMPLATE_DEFECTS_H
#define HONE_JOBS_TEMPLATE_DEFECTS_H

#include <stdbool.h>

#include "base/buf.h"
#include "work/work.h"

/* Fills m with the explanation and remedy of a linter rule; rule "all": of every rule. */
int template_explain(const char *rule, struct emit *m, struct err *e);
/* Fills m with the defects of a source's template. name: the template to use; NULL: the default.
 * Returns ERR_VERDICT, with a complete m, if there are errors, or with `strict` warnings. */
int template_lint(const char *src, const char *name, bool strict, struct emit *m, struct err *e);

#include "commands/members.h"
struct fix_opts {
    const char *src;
#include "commands/template_fix.def"
};
#include "commands/members.h"
struct template_lint_opts {
#include "commands/template_lint.def"
};
/* Fills m with the known repairs and whether the source needs them. */
int template_edits(const struct fix_opts *o, struct emit *m, struct err *e);
/* Repairs a template and stores it where the options request. Appends the diff to `diff`. Fills m
 * with the diff, the whole new template, and each repair with a conversation that shows its
 * effect. */
int template_fix(struct work *w, const struct fix_opts *o, struct emit *m, struct buf *diff,
                 struct err *e);

#endif
