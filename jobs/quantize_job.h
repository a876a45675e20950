// SPDX-License-Identifier: MIT
/* jobs/quantize_job.h - one GGUF into quantized ones, by recipes, plans, a type, or a budget. */
#ifndef HONE_JOBS_QUANTIZE_JOB_H
#define HONE_JOBS_QUANTIZE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/quantize_budget.h"
#include "work/work.h"

/* What is asked for, as texts; names and lists are checked by quantize_job_run. */
struct quantize_job_opts {
    const char *in, *out;
    const char *recipe;         /* "A,B": presets and plan files */
    const char *type;           /* one type for everything that can be quantized */
    const char *imatrix;        /* or NULL */
    const char *gram;           /* second moments, for error feedback; or NULL */
    struct str_list sequential; /* texts to calibrate with block by block, for error feedback with
                                   the file's own inputs */
    const char *search;         /* "fast", "best", "conventional"; NULL: fast */
    const char *without;        /* steps of feedback to leave out, "balance,codes"; or NULL */
    const char *plan_out;       /* where the plan used is written; or NULL */
    struct str_list tensor;     /* "REGEX=TYPE" */
    uint64_t split_max;         /* bytes of a file of the output; 0: one file */
    struct budget_args mix;
    bool pure, dry_run, resume, requantize;
};
/* Writes the files, or with dry_run none, and fills m with what they are. */
int quantize_job_run(struct work *w, const struct quantize_job_opts *a, struct emit *m,
                     struct err *e);
/* Warns of tensors that got a larger type, and of those that the importance matrix (NULL: none)
 * does not have. */
void quantize_warn(const char *imatrix, const struct quantize_report *r);

#endif
