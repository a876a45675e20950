// SPDX-License-Identifier: MIT
/* jobs/publish_job.h - hone publish: prepares a folder for the Hub, or checks one. */
#ifndef HONE_JOBS_PUBLISH_JOB_H
#define HONE_JOBS_PUBLISH_JOB_H

#include <stdbool.h>

#include "make/publish.h"
#include "work/work.h"

#include "commands/members.h"
struct publish_job_opts {
    struct publish_opts o; /* o.facts is ignored */
    struct publish_facts given;
#include "commands/publish.def"
};
/* Checks a folder. Returns ERR_VERDICT, with a complete m, if there are errors. */
int publish_job_check(const char *dir, bool quick, struct emit *m, struct err *e);
/* Writes card, checksums and manifest. */
int publish_job_run(const struct publish_job_opts *x, struct emit *m, struct err *e);

#endif
