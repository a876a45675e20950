// SPDX-License-Identifier: MIT
/* jobs/recipes_job.h - every recipe there is, what it would make of a model, and any of them as a
 * plan. */
#ifndef HONE_JOBS_RECIPES_JOB_H
#define HONE_JOBS_RECIPES_JOB_H

#include "jobs/work.h"

/* Lists all; model: also the exact size of the file each makes of it, or NULL. */
int recipes_list(const char *model, const char *imatrix, struct emit *m, struct err *e);
/* Writes the plan that a recipe makes for a model. */
int recipes_plan(const struct work *w, const char *model, const char *recipe, const char *imatrix,
                 const char *out, struct emit *m, struct err *e);

#endif
