// SPDX-License-Identifier: MIT
/* jobs/imatrix_select.h - hone imatrix --select: texts that rare experts need, out of a pool. */
#ifndef HONE_JOBS_IMATRIX_SELECT_H
#define HONE_JOBS_IMATRIX_SELECT_H

#include "work/work.h"

struct select_args {
    const char *model, *out;
    const char *const *text; /* [n_texts], at least one */
    int n_texts;
    const char *have; /* an importance matrix, or NULL */
    int64_t ctx, budget;
    bool parse_special;
};
/* Writes the chosen documents to a->out, and what the coverage was and is to `r`. */
int imatrix_select(struct work *w, const struct select_args *a, struct emit *r, struct err *e);

#endif
