// SPDX-License-Identifier: MIT
/* cli/quantize_budget.h - hone quantize --budget, apart from its options. */
#ifndef HONE_CLI_QUANTIZE_BUDGET_H
#define HONE_CLI_QUANTIZE_BUDGET_H

#include "cli/opt.h"
#include "quantize/quantize.h"

struct budget_args {
    struct str_list budget; /* sizes as given */
    double bpw;             /* one more, as bits per weight; 0: none */
    const char *sensitivity;
    bool no_floors;
};
int quantize_budgets(struct cli *c, const struct quantize_opts *q, const struct budget_args *b,
                     struct err *e);

#endif
