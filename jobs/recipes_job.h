// SPDX-License-Identifier: MIT
/* jobs/recipes_job.h - hone recipes: lists recipes, or writes one as a plan. */
#ifndef HONE_JOBS_RECIPES_JOB_H
#define HONE_JOBS_RECIPES_JOB_H

#include "work/work.h"

#include "commands/members.h"
struct recipes_opts {
    const char *model; /* or NULL */
#include "commands/recipes.def"
};
/* Lists every recipe and, with a model, the exact size of its file; or writes one recipe's plan for
 * the model. */
int recipes_run(const struct work *w, const struct recipes_opts *o, struct emit *m, struct err *e);

#endif
