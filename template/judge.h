// SPDX-License-Identifier: MIT
/* template/judge.h - the verdict on a chat template in a sentence, and the command that mends it.
 */
#ifndef HONE_TEMPLATE_JUDGE_H
#define HONE_TEMPLATE_JUDGE_H

#include "template/own.h"
#include "template/repair.h"

struct template_verdict {
    int n_errors;  /* that the linter finds */
    int n_left;    /* that it finds after the repair */
    bool unusable; /* no conversation can use the template (lint_unusable) */
    bool unknown;  /* it could not be judged, e.g. because the probes take too many steps */
    /* Explanation of the first error, with its place and message if the template is unusable; or
     * why it could not be judged. "": no error. */
    char why[600];
    struct repair repair;           /* n is 0: none, or it would remove no error */
    const struct own_template *own; /* hone's own template of the family, if it differs */
};
/* When to look for repairs, which takes longer. */
enum repair_when { REPAIR_NEVER, REPAIR_UNUSABLE, REPAIR_ERRORS };
/* Judges a template. ERR_INTR: interrupted, and there is nothing to free. */
int template_judge(struct template_verdict *v, const char *text, size_t len, enum repair_when when,
                   struct err *e);
void template_verdict_free(struct template_verdict *v);
/* Appends what to do about the errors of a template for which repairs were looked for, as a clause
 * with the command. path: its GGUF file, model folder or .jinja file. */
void template_remedy(const struct template_verdict *v, const char *path, struct buf *out);

#endif
