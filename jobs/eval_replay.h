// SPDX-License-Identifier: MIT
/* jobs/eval_replay.h - what a server recorded, asked again of a model, and of a base. */
#ifndef HONE_JOBS_EVAL_REPLAY_H
#define HONE_JOBS_EVAL_REPLAY_H

#include "runtime/measure/job.h"

struct replay_opts {
    struct eval_args eval; /* of these: base, ctx, kv_type, act, pre */
    const char *model, *record;
    int64_t n_cases; /* evenly spread; 0: all */
    double require;  /* percent of the answers that must be kept; NaN: none */
    bool sampled;    /* with the recorded seeds and sampling, instead of the likeliest tokens */
    bool all;        /* every answer is listed, not only those that changed */
};
extern const struct replay_opts eval_replay_usual;
/* Fills m. Returns ERR_VERDICT when too few answers are kept; m is complete then. */
int eval_replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e);

#endif
