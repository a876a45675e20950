// SPDX-License-Identifier: MIT
/* template/repair.h - repair of any chat template: a search over small repairs, each verified. */
#ifndef HONE_TEMPLATE_REPAIR_H
#define HONE_TEMPLATE_REPAIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { REPAIR_MAX = 64 };
struct repair_step { /* one repair made */
    const char *id, *rule, *why;
    char *probe;          /* check that failed before and passes now: "args_null", "=args-text" */
    char *conv;           /* conversation of the check, as JSON */
    char *before, *after; /* renderings of conv before and after the repair, or the errors */
};
struct repair {
    struct buf text; /* whole repaired template; the original if nothing was repaired */
    struct repair_step v[REPAIR_MAX];
    int n;
    int n_checks, n_failed_before, n_failed_after;
    bool ours;  /* the template was repaired before and is unchanged */
    bool again; /* an earlier version had repaired it; that repair was replaced */
};
/* Returns the number of known repairs; *id, *rule and *why describe repair i. */
int repair_known(int i, const char **id, const char **rule, const char **why);
/* Repairs a template of `len` bytes. only: ids of the repairs to consider (n_only of them; NULL:
 * all). A template that does not compile stays unchanged, as does one that would then render no
 * message. Line ends are kept. */
int repair_run(struct repair *r, const char *src, size_t len, const char *name,
               const char *const *only, int n_only, struct err *e);
void repair_free(struct repair *r);

#endif
