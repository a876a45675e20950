// SPDX-License-Identifier: MIT
/* jobs/quantize_budget.h - hone quantize --budget, --bpw and --vram: the best mixes within limits.
 */
#ifndef HONE_JOBS_QUANTIZE_BUDGET_H
#define HONE_JOBS_QUANTIZE_BUDGET_H

#include "work/work.h"
#include "quantize/quantize.h"

struct budget_args {
    struct str_list budget; /* sizes as given */
    double bpw;             /* one more size, in bits per weight; 0: none */
    const char *sensitivity, *prefer, *avoid, *kv_type;
    const char *front;    /* SVG plot to write, or NULL */
    struct str_list gate; /* texts for the gate; empty: no gate */
    uint64_t vram, reserve, bandwidth;
    int64_t ctx, slots;
    bool no_floors;
};
/* Returns whether a limit was given: bytes, bits per weight, or a card's memory. */
bool budget_asked(const struct budget_args *b);
/* Returns whether an option was given that needs a limit. */
bool budget_detail(const struct budget_args *b);
/* Makes a file for each limit. With texts in `sequential`, files are made block by block
 * (mix/sequential.h) and learned in `learn` passes (0: not at all), and q->gram only serves to
 * estimate the gain of feedback for each type. Without texts, all files are made in one pass. */
int quantize_budgets(struct work *w, const struct quantize_opts *q, const struct budget_args *b,
                     const struct str_list *sequential, int learn, struct emit *m, struct err *e);

#endif
