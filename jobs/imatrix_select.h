// SPDX-License-Identifier: MIT
/* jobs/imatrix_select.h - hone imatrix --select: selection of documents for rare experts. */
#ifndef HONE_JOBS_IMATRIX_SELECT_H
#define HONE_JOBS_IMATRIX_SELECT_H

#include "work/work.h"

struct select_args {
    const char *model, *out;
    const char *const *text; /* [n_texts], at least one */
    int n_texts;
    const char *have; /* importance matrix of texts already used, or NULL */
    int64_t ctx, budget;
    bool parse_special;
};
/* Writes the selected documents to a->out, and the coverage before and after to `r`. */
int imatrix_select(struct work *w, const struct select_args *a, struct emit *r, struct err *e);

#endif
