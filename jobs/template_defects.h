// SPDX-License-Identifier: MIT
/* jobs/template_defects.h - defects of a chat template, and their repair. */
#ifndef HONE_JOBS_TEMPLATE_DEFECTS_H
#define HONE_JOBS_TEMPLATE_DEFECTS_H

#include <stdbool.h>

#include "base/buf.h"
#include "work/work.h"

/* Fills m with the meaning of a rule of the linter and its remedy; rule "all": of each. */
int template_explain(const char *rule, struct emit *m, struct err *e);
/* Fills m with the defects of the template of a source. name: which template, when there are
 * several; NULL: the usual one. Returns ERR_VERDICT when there is an error, with `strict` a warning
 * too; m is complete then. */
int template_lint(const char *src, const char *name, bool strict, struct emit *m, struct err *e);

/* Returns the number of errors that a template has, and appends what the first of them means. */
int template_judge(const char *text, struct buf *first);

#include "commands/members.h"
struct fix_opts {
    const char *src;
#include "commands/template_fix.def"
};
#include "commands/members.h"
struct template_lint_opts {
#include "commands/template_lint.def"
};
/* Fills m with the edits that are known for a source, and whether they apply. */
int template_edits(const struct fix_opts *o, struct emit *m, struct err *e);
/* Repairs, and stores what was asked for. The difference goes to `diff`; m gets it too, the whole
 * new template, and each repair with the conversation that shows it. */
int template_fix(struct work *w, const struct fix_opts *o, struct emit *m, struct buf *diff,
                 struct err *e);

#endif
