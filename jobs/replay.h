// SPDX-License-Identifier: MIT
/* jobs/replay.h - a file made again from its own record, and both compared to the byte. */
#ifndef HONE_JOBS_REPLAY_H
#define HONE_JOBS_REPLAY_H

#include "work/work.h"

#include "commands/members.h"
struct replay_opts {
    const char *path;
#include "commands/replay.def"
};
/* Fills m with the comparison. Returns ERR_VERDICT when the bytes differ; m is complete then. */
int replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e);

#endif
