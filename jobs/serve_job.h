// SPDX-License-Identifier: MIT
/* jobs/serve_job.h - a server of one model, from its options to its end. */
#ifndef HONE_JOBS_SERVE_JOB_H
#define HONE_JOBS_SERVE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/generate/run_set.h"
#include "work/work.h"

#include "commands/members.h"
struct serve_job_opts {
    const char *path;          /* a GGUF file, or a folder of them */
    const char *key_from;      /* where `key` came from, for messages */
    const char *set[RUN_SETS]; /* NULL: the file's own value */
    /* Told a line per request, where `log` names no file; NULL: nobody. */
    void (*log_line)(void *ud, const char *line);
    void *log_ud;
    /* Told once, with a line of JSON, when requests can be answered; NULL: nobody. */
    void (*ready)(void *ud, const char *line);
    void *ready_ud;
#include "commands/serve.def" /* n_think: -1: no limit */
};
extern const struct serve_job_opts serve_job_usual;
/* Answers until it is told to stop. */
int serve_job_run(struct work *w, const struct serve_job_opts *a, struct err *e);

#endif
