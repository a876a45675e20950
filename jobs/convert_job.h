// SPDX-License-Identifier: MIT
/* jobs/convert_job.h - a Hugging Face folder to GGUF, and its vision tower to a projector file. */
#ifndef HONE_JOBS_CONVERT_JOB_H
#define HONE_JOBS_CONVERT_JOB_H

#include "convert/convert.h"
#include "work/work.h"

/* Converts o->src to o->out, where that is not NULL, and its vision tower to `mmproj`, where that
 * is not NULL. Fills m; with o->dry_run nothing is written, and m has the plan. */
int convert_job_run(struct work *w, struct convert_opts *o, const char *mmproj, struct emit *m,
                    struct err *e);

#endif
