// SPDX-License-Identifier: MIT
/* jobs/convert_job.h - hone convert: a Hugging Face folder to GGUF and a projector file. */
#ifndef HONE_JOBS_CONVERT_JOB_H
#define HONE_JOBS_CONVERT_JOB_H

#include "convert/convert.h"
#include "work/work.h"

#include "commands/members.h"
struct convert_job_opts {
    struct convert_opts o;
#include "commands/convert.def"
};
/* Converts x->o.src to x->o.out and its vision tower to x->mmproj; either may be NULL. Fills m.
 * With x->o.dry_run writes nothing and adds the plan to m. */
int convert_job_run(struct work *w, struct convert_job_opts *x, struct emit *m, struct err *e);

#endif
