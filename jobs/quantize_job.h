// SPDX-License-Identifier: MIT
/* jobs/quantize_job.h - hone quantize: quantizes a GGUF by recipes, plans, a type, or a budget. */
#ifndef HONE_JOBS_QUANTIZE_JOB_H
#define HONE_JOBS_QUANTIZE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/quantize_budget.h"
#include "work/work.h"

/* Options as texts; quantize_job_run checks names and lists. */
#include "commands/members.h"
struct quantize_job_opts {
    const char *in;
    struct budget_args mix;
#include "commands/quantize.def"
};
/* Writes the files, unless dry_run, and fills m with their description. */
int quantize_job_run(struct work *w, const struct quantize_job_opts *a, struct emit *m,
                     struct err *e);
/* Warns of tensors that got a larger type, and of those without an entry in the importance matrix
 * (or NULL). */
void quantize_warn(const char *imatrix, const struct quantize_report *r);

#endif
