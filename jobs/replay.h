// SPDX-License-Identifier: MIT
/* jobs/replay.h - hone replay: reproduces a quantized file from its record and compares the two. */
#ifndef HONE_JOBS_REPLAY_H
#define HONE_JOBS_REPLAY_H

#include "work/work.h"

#include "commands/members.h"
struct replay_opts {
    const char *path;
#include "commands/replay.def"
};
/* Fills m with the comparison. Returns ERR_VERDICT, with a complete m, if bytes differ. */
int replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e);

#endif
