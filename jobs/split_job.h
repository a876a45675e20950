// SPDX-License-Identifier: MIT
/* jobs/split_job.h - one GGUF into shards, and shards into one GGUF. */
#ifndef HONE_JOBS_SPLIT_JOB_H
#define HONE_JOBS_SPLIT_JOB_H

#include "work/work.h"

#include "commands/members.h"
struct split_opts {
    const char *path;
#include "commands/split.def"
};
#include "commands/members.h"
struct merge_opts {
    const char *shard;
#include "commands/merge.def"
};
/* Splits; every tensor is read back and compared. Fills m. */
int split_run(const struct work *w, const struct split_opts *o, struct emit *m, struct err *e);
/* Joins the set that a shard belongs to. */
int merge_run(const struct work *w, const struct merge_opts *o, struct emit *m, struct err *e);

#endif
