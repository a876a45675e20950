// SPDX-License-Identifier: MIT
/* runtime/measure/cases.h - a model answers the cases of a suite, a base model the same ones. */
#ifndef HONE_RUNTIME_MEASURE_CASES_H
#define HONE_RUNTIME_MEASURE_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/measure/job.h"

struct cases_opts {
    struct eval_args eval;
    const char *model;
    const char *suite;  /* path, or "builtin" */
    const char *format; /* syntax of calls; NULL: what the template asks for */
    int64_t n_cases, max_tokens;
    double require;    /* percent of the cases that must pass; NaN: none */
    bool no_loss;      /* no case may fail that the base passes */
    bool all;          /* every case is listed, not only those that failed */
    bool from_answers; /* the suite is a record: its answers are what is expected */
    bool constrained;  /* answer once more with calls held to the tools' schemas */
    bool jump;         /* of those: what must come is not drawn, and not counted as overruled */
    bool table;        /* for people: few of the failed cases, long answers cut */
};
extern const struct cases_opts eval_cases_usual;
/* Fills m. Returns ERR_VERDICT when what was required does not hold; m is complete then. */
int eval_cases_run(struct work *w, struct cases_opts *o, struct emit *m, struct err *e);

#endif
