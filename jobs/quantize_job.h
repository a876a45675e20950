// SPDX-License-Identifier: MIT
/* jobs/quantize_job.h - one GGUF into quantized ones, by recipes, plans, a type, or a budget. */
#ifndef HONE_JOBS_QUANTIZE_JOB_H
#define HONE_JOBS_QUANTIZE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/quantize_budget.h"
#include "work/work.h"

/* What is asked for, as texts; names and lists are checked by quantize_job_run. */
#include "commands/members.h"
struct quantize_job_opts {
    const char *in;
    struct budget_args mix;
#include "commands/quantize.def"
};
/* Writes the files, or with dry_run none, and fills m with what they are. */
int quantize_job_run(struct work *w, const struct quantize_job_opts *a, struct emit *m,
                     struct err *e);
/* Warns of tensors that got a larger type, and of those that the importance matrix (NULL: none)
 * does not have. */
void quantize_warn(const char *imatrix, const struct quantize_report *r);

#endif
