// SPDX-License-Identifier: MIT
/* runtime/measure/set.h - `hone eval suite`: the standard set of measurements on one model, written
 * to one file with a number per window and case. */
#ifndef HONE_RUNTIME_MEASURE_SET_H
#define HONE_RUNTIME_MEASURE_SET_H

#include <stdint.h>

#include "runtime/measure/job.h"

#include "commands/members.h"
struct eval_set_opts {
    struct eval_args eval; /* out: result file; base: also measure divergence from it */
    const char *model;
#include "commands/eval_suite.def"
};
extern const struct eval_set_opts eval_set_usual;
/* Runs the measurements, writes them to o->eval.out, and fills m with the means. */
int eval_set_run(struct work *w, struct eval_set_opts *o, struct emit *m, struct err *e);
/* Compares two files that eval_set_run wrote, measure by measure. */
int eval_set_compare(const char *a, const char *b, struct emit *m, struct err *e);

#endif
