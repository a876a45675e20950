// SPDX-License-Identifier: MIT
/* cli/imatrix_select.h - hone imatrix --select: texts that rare experts need, out of a pool. */
#ifndef HONE_CLI_IMATRIX_SELECT_H
#define HONE_CLI_IMATRIX_SELECT_H

#include "cli/opt.h"

struct select_args {
    const char *out, *have; /* have: an importance matrix, or NULL */
    int64_t ctx, budget;
    bool parse_special;
};
/* c->arg: the model, then texts (at least one). */
int imatrix_select(struct cli *c, const struct select_args *a, struct err *e);

#endif
