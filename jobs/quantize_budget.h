// SPDX-License-Identifier: MIT
/* jobs/quantize_budget.h - hone quantize --budget, --bpw and --vram, apart from the table of
 * options.
 */
#ifndef HONE_JOBS_QUANTIZE_BUDGET_H
#define HONE_JOBS_QUANTIZE_BUDGET_H

#include "work/work.h"
#include "quantize/quantize.h"

struct budget_args {
    struct str_list budget; /* sizes as given */
    double bpw;             /* one more, as bits per weight; 0: none */
    const char *sensitivity, *prefer, *avoid, *kv_type;
    const char *front;    /* an SVG to write; NULL: none */
    struct str_list gate; /* texts; none: files are not compared with plain recipes */
    uint64_t vram, reserve, bandwidth;
    int64_t ctx, slots;
    bool no_floors;
};
/* Tells whether some limit was given: bytes, bits per weight, or the memory of a card. */
bool budget_asked(const struct budget_args *b);
/* Tells whether some option was given that only goes with a limit. */
bool budget_detail(const struct budget_args *b);
/* Makes a file for each limit that was given. `sequential` has texts for files that are made block
 * by block (mix/sequential.h); q->gram then only says what feedback will do to each type. Without
 * texts all files are made from one reading. */
int quantize_budgets(struct work *w, const struct quantize_opts *q, const struct budget_args *b,
                     const struct str_list *sequential, struct emit *m, struct err *e);

#endif
