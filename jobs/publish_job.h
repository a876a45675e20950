// SPDX-License-Identifier: MIT
/* jobs/publish_job.h - a folder made ready for others, or looked at for faults; and what came of
 * it. */
#ifndef HONE_JOBS_PUBLISH_JOB_H
#define HONE_JOBS_PUBLISH_JOB_H

#include <stdbool.h>

#include "make/publish.h"
#include "work/work.h"

#include "commands/members.h"
struct publish_job_opts {
    struct publish_opts o; /* o.facts is not looked at */
    struct publish_facts given;
#include "commands/publish.def"
};
/* Looks for faults. Returns ERR_VERDICT when there is an error; m is complete then too. */
int publish_job_check(const char *dir, bool quick, struct emit *m, struct err *e);
/* Makes it ready. */
int publish_job_run(const struct publish_job_opts *x, struct emit *m, struct err *e);

#endif
