// SPDX-License-Identifier: MIT
/* jobs/convert_job.h - a Hugging Face folder to GGUF, and its vision tower to a projector file. */
#ifndef HONE_JOBS_CONVERT_JOB_H
#define HONE_JOBS_CONVERT_JOB_H

#include "convert/convert.h"
#include "work/work.h"

#include "commands/members.h"
struct convert_job_opts {
    struct convert_opts o;
#include "commands/convert.def"
};
/* Converts x->o.src to x->o.out, where that is not NULL, and its vision tower to x->mmproj, where
 * that is not NULL. Fills m; with x->o.dry_run nothing is written, and m has the plan. */
int convert_job_run(struct work *w, struct convert_job_opts *x, struct emit *m, struct err *e);

#endif
