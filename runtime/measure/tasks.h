// SPDX-License-Identifier: MIT
/* runtime/measure/tasks.h - `hone eval choice` and `hone eval needle`: accuracy on multiple-choice
 * files and on finding numbers hidden in a long text. */
#ifndef HONE_RUNTIME_MEASURE_TASKS_H
#define HONE_RUNTIME_MEASURE_TASKS_H

#include "runtime/measure/job.h"

/* Scores the tasks of j with a model and, if a->base is set, with a base. Fills m. */
int eval_tasks_run(struct work *w, const struct eval_args *a, const char *model,
                   const struct choice_job *j, struct emit *m, struct err *e);

/* Like eval_tasks_run, for a multiple-choice file. ERR_USAGE without j->format. */
int eval_choice_run(struct work *w, const struct eval_args *a, const char *model,
                    const struct choice_job *j, struct emit *m, struct err *e);

#endif
