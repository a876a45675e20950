// SPDX-License-Identifier: MIT
/* runtime/measure/tasks.h - multiple-choice files, and numbers hidden in a long text. */
#ifndef HONE_RUNTIME_MEASURE_TASKS_H
#define HONE_RUNTIME_MEASURE_TASKS_H

#include "runtime/measure/job.h"

/* Scores the tasks of j with a model and, where a->base names one, a base. Fills m. */
int eval_tasks_run(struct work *w, const struct eval_args *a, const char *model,
                   const struct choice_job *j, struct emit *m, struct err *e);

/* Does what eval_tasks_run does, with a file of multiple choice. Returns ERR_USAGE without
 * j->format, which says what the file is. */
int eval_choice_run(struct work *w, const struct eval_args *a, const char *model,
                    const struct choice_job *j, struct emit *m, struct err *e);

#endif
