// SPDX-License-Identifier: MIT
/* jobs/synth_job.h - a model of random weights with the shapes of a real one. */
#ifndef HONE_JOBS_SYNTH_JOB_H
#define HONE_JOBS_SYNTH_JOB_H

#include "work/work.h"
#include "quantize/synth.h"

extern const struct synth_opts synth_usual;
/* Writes the model; tokenizer: a folder whose vocabulary and chat template it gets, or NULL. */
int synth_job_run(struct work *w, struct synth_opts *o, const char *tokenizer, struct emit *m,
                  struct err *e);

#endif
