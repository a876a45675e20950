// SPDX-License-Identifier: MIT
/* jobs/eval_replay.h - hone eval traffic: replays recorded server requests against a model. */
#ifndef HONE_JOBS_EVAL_REPLAY_H
#define HONE_JOBS_EVAL_REPLAY_H

#include "runtime/measure/job.h"

#include "commands/members.h"
struct replay_opts {
    struct eval_args eval; /* only base, ctx, kv_type, act and pre are used */
    const char *model, *record;
#include "commands/eval_replay.def" /* require NaN: no requirement */
};
extern const struct replay_opts eval_replay_usual;
/* Fills m. Returns ERR_VERDICT, with a complete m, if too few answers are kept. */
int eval_replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e);

#endif
