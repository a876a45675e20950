// SPDX-License-Identifier: MIT
/* jobs/synth_job.h - hone synth: a model with random weights and the shapes of a real one. */
#ifndef HONE_JOBS_SYNTH_JOB_H
#define HONE_JOBS_SYNTH_JOB_H

#include "work/work.h"
#include "quantize/synth.h"

#include "commands/members.h"
struct synth_job_opts {
    struct synth_opts o;
#include "commands/synth.def"
};
extern const struct synth_job_opts synth_usual;
/* Writes a model with random weights and adds the result to m. */
int synth_job_run(struct work *w, struct synth_job_opts *x, struct emit *m, struct err *e);

#endif
