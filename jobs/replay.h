// SPDX-License-Identifier: MIT
/* jobs/replay.h - a file made again from its own record, and both compared to the byte. */
#ifndef HONE_JOBS_REPLAY_H
#define HONE_JOBS_REPLAY_H

#include "work/work.h"

struct replay_opts {
    const char *path;
    const char *source;  /* what it was quantized from; NULL: the recorded name beside it */
    const char *imatrix; /* importance matrix; NULL: likewise */
    const char *gram;    /* second moments; NULL: likewise */
    const char *out;     /* where the copy stays; NULL: it is removed */
};
/* Fills m with the comparison. Returns ERR_VERDICT when the bytes differ; m is complete then. */
int replay_run(struct work *w, const struct replay_opts *o, struct emit *m, struct err *e);

#endif
