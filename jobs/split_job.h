// SPDX-License-Identifier: MIT
/* jobs/split_job.h - one GGUF into shards, and shards into one GGUF. */
#ifndef HONE_JOBS_SPLIT_JOB_H
#define HONE_JOBS_SPLIT_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "work/work.h"

struct split_opts {
    const char *path;
    const char *out;   /* OUT.gguf names OUT-00001-of-0000N.gguf; NULL: as the input */
    uint64_t max_size; /* bytes of tensors of one file; 0: the usual */
    bool data_first;   /* tensors in the first file too */
    bool dry_run;      /* number and sizes only */
};
/* Splits; every tensor is read back and compared. Fills m. */
int split_run(const struct work *w, const struct split_opts *o, struct emit *m, struct err *e);
/* Joins the set that a shard belongs to. out NULL: the name without its shard number. */
int merge_run(const struct work *w, const char *shard, const char *out, struct emit *m,
              struct err *e);

#endif
