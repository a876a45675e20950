// SPDX-License-Identifier: MIT
/* jobs/imatrix_job.h - importance matrices: collected from texts, merged, converted, described. */
#ifndef HONE_JOBS_IMATRIX_JOB_H
#define HONE_JOBS_IMATRIX_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/imatrix_select.h"

struct imatrix_job_opts {
    const char *out;
    const char *format;      /* "gguf" or "dat"; NULL: by the ending of `out` */
    const char *gram;        /* where second moments go; NULL: they are not collected */
    const char *moments;     /* where sums of other powers go; NULL: they are not collected */
    const char *pre;         /* pre-tokenizer; NULL: the model's */
    const char *const *text; /* [n_texts] */
    int n_texts;
    int64_t ctx, chunks; /* tokens of a chunk; most chunks, 0: all */
    int64_t gram_block;
    bool no_special;
};
#include "commands/members.h"
struct imatrix_ask {
    struct imatrix_job_opts a;
    struct select_args select;
#include "commands/imatrix.def"
};
/* Collects from texts, writes what was asked for, and fills m with the coverage of experts. */
int imatrix_job_collect(struct work *w, const char *model, const struct imatrix_job_opts *a,
                        struct emit *m, struct err *e);
/* Adds files [n] up into a->out; one alone is converted. */
int imatrix_job_merge(const struct work *w, const char *const *path, int n,
                      const struct imatrix_job_opts *a, struct emit *m, struct err *e);
/* Fills m with what a matrix says of each tensor. */
int imatrix_job_stats(const char *path, struct emit *m, struct err *e);

#endif
