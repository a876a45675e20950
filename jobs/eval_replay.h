// SPDX-License-Identifier: MIT
/* jobs/eval_replay.h - what a server recorded, asked again of a model, and of a base. */
#ifndef HONE_JOBS_EVAL_REPLAY_H
#define HONE_JOBS_EVAL_REPLAY_H

#include "runtime/measure/job.h"

#include "commands/members.h"
struct replay_opts {
    struct eval_args eval; /* of these: base, ctx, kv_type, act, pre */
    const char *model, *record;
#include "commands/eval_replay.def" /* require: NaN: none */
};
extern const struct replay_opts eval_replay_usual;
/* Fills m. Returns ERR_VERDICT when too few answers are kept; m is complete then. */
int eval_replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e);

#endif
