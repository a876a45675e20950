// SPDX-License-Identifier: MIT
/* jobs/recipes_job.h - every recipe there is, what it would make of a model, and any of them as a
 * plan. */
#ifndef HONE_JOBS_RECIPES_JOB_H
#define HONE_JOBS_RECIPES_JOB_H

#include "work/work.h"

#include "commands/members.h"
struct recipes_opts {
    const char *model; /* or NULL */
#include "commands/recipes.def"
};
/* Lists every recipe, with a model also the exact size of the file each makes of it; or writes the
 * plan that one makes for the model. */
int recipes_run(const struct work *w, const struct recipes_opts *o, struct emit *m, struct err *e);

#endif
