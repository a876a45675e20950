// SPDX-License-Identifier: MIT
/* jobs/bench_job.h - hone bench-kernels: speed of individual kernels on one thread. */
#ifndef HONE_JOBS_BENCH_JOB_H
#define HONE_JOBS_BENCH_JOB_H

#include "work/work.h"

#include "commands/members.h"
struct bench_kernels_opts {
#include "commands/bench_kernels.def"
};
extern const struct bench_kernels_opts bench_kernels_usual;
/* Fills m with rates by tensor type, for every instruction set up to w->isa. */
int bench_job_run(struct work *w, const struct bench_kernels_opts *o, struct emit *m,
                  struct err *e);

#endif
