// SPDX-License-Identifier: MIT
/* jobs/bench_job.h - speed of single kernels on one thread of this machine. */
#ifndef HONE_JOBS_BENCH_JOB_H
#define HONE_JOBS_BENCH_JOB_H

#include "work/work.h"

#define BENCH_USUAL_SECONDS 0.03
/* Fills m with rates by tensor type and instruction set up to w->isa. types: names with commas
 * between them; NULL: all. seconds: time for each number. */
int bench_job_run(struct work *w, const char *types, double seconds, struct emit *m, struct err *e);

#endif
