// SPDX-License-Identifier: MIT
/* runtime/measure/cases.h - `hone eval tools`: runs the cases of a suite on a model and,
 * optionally, on its base. */
#ifndef HONE_RUNTIME_MEASURE_CASES_H
#define HONE_RUNTIME_MEASURE_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/measure/job.h"

#include "commands/members.h"
struct cases_opts {
    struct eval_args eval;
    const char *model;
    const char *suite; /* path, or "builtin" */
    bool table;        /* human-readable output: lists few failed cases and cuts long answers */
#include "commands/eval_cases.def" /* require: NaN: none */
};
extern const struct cases_opts eval_cases_usual;
/* Fills m. Returns ERR_VERDICT, with m complete, if a requirement is not met. */
int eval_cases_run(struct work *w, struct cases_opts *o, struct emit *m, struct err *e);

#endif
