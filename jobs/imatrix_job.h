// SPDX-License-Identifier: MIT
/* jobs/imatrix_job.h - hone imatrix: collects, merges, converts and describes importance matrices.
 */
#ifndef HONE_JOBS_IMATRIX_JOB_H
#define HONE_JOBS_IMATRIX_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/imatrix_select.h"

struct imatrix_job_opts {
    const char *out;
    const char *format;      /* "gguf" or "dat"; NULL: by the suffix of `out` */
    const char *gram;        /* file for second moments, or NULL */
    const char *moments;     /* file for sums of other powers, or NULL */
    const char *pre;         /* pre-tokenizer; NULL: the model's */
    const char *const *text; /* [n_texts] */
    int n_texts;
    int64_t ctx, chunks; /* tokens per chunk; maximum chunks, 0: all */
    int64_t gram_block;
    bool no_special;
};
#include "commands/members.h"
struct imatrix_ask {
    struct imatrix_job_opts a;
    struct select_args select;
#include "commands/imatrix.def"
};
/* Collects from texts, writes the requested files, and fills m with the coverage of experts. */
int imatrix_job_collect(struct work *w, const char *model, const struct imatrix_job_opts *a,
                        struct emit *m, struct err *e);
/* Adds up n files to a->out; with one file, converts it. */
int imatrix_job_merge(struct work *w, const char *const *path, int n,
                      const struct imatrix_job_opts *a, struct emit *m, struct err *e);
/* Fills m with statistics of each tensor of a matrix. */
int imatrix_job_stats(const char *path, struct emit *m, struct err *e);

#endif
