// SPDX-License-Identifier: MIT
/* jobs/serve_job.h - hone serve: a server of one or several models. */
#ifndef HONE_JOBS_SERVE_JOB_H
#define HONE_JOBS_SERVE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/generate/run_set.h"
#include "work/work.h"

#include "commands/members.h"
struct serve_job_opts {
    const char *path;          /* a GGUF file, or a folder of them */
    const char *key_from;      /* source of `key`, for messages */
    const char *set[RUN_SETS]; /* generation settings as text; NULL: the file's own value */
    /* called with a line per request if `log` names no file; or NULL */
    void (*log_line)(void *ud, const char *line);
    void *log_ud;
    /* called once requests can be answered, with a line of JSON; or NULL */
    void (*ready)(void *ud, const char *line);
    void *ready_ud;
#include "commands/serve.def" /* n_think -1: no limit */
};
extern const struct serve_job_opts serve_job_usual;
/* Serves requests until it is interrupted. */
int serve_job_run(struct work *w, const struct serve_job_opts *a, struct err *e);

#endif
