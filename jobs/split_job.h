// SPDX-License-Identifier: MIT
/* jobs/split_job.h - hone split and hone merge: a GGUF to shards and back. */
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
/* Splits a GGUF; reads back and compares every tensor. Fills m. */
int split_run(const struct work *w, const struct split_opts *o, struct emit *m, struct err *e);
/* Joins the shards of the set that the named shard belongs to. Fills m. */
int merge_run(const struct work *w, const struct merge_opts *o, struct emit *m, struct err *e);

#endif
