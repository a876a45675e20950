// SPDX-License-Identifier: MIT
/* jobs/serve_job.h - a server of one model, from its options to its end. */
#ifndef HONE_JOBS_SERVE_JOB_H
#define HONE_JOBS_SERVE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "work/work.h"

/* Sampling values for requests that do not say, by their names in runtime/generate/run_set.h. */
enum serve_set {
    SERVE_TEMP,
    SERVE_TOP_K,
    SERVE_TOP_P,
    SERVE_MIN_P,
    SERVE_REPEAT_PENALTY,
    SERVE_REPEAT_LAST_N,
    SERVE_SEED,
    SERVE_SETS
};
struct serve_job_opts {
    const char *path;     /* a GGUF file, or a folder of them */
    struct str_list more; /* further files or folders */
    struct str_list host, allow_host, allow_origin;
    /* the model's id for clients; for several files a comma-separated list in their order. NULL:
     * each file's name without .gguf */
    const char *alias;
    const char *kv_type, *act, *tmpl, *preset, *kwargs, *reasoning, *constrain, *draft, *special,
        *pre;
    /* tmpl: a file with a template; NULL: the model's own. preset: a file of presets; NULL: none */
    const char *key;      /* one that clients may give; NULL or "": none. where it came from: */
    const char *key_from; /* a name for messages */
    const char *key_file; /* more of them, one a line; or NULL */
    const char *set[SERVE_SETS]; /* NULL: the file's own value */
    const char *log;             /* file for a line per request; NULL: log_line */
    const char *record;          /* file for what is asked and answered; NULL: not kept */
    /* Told a line per request, where `log` names no file; NULL: nobody. */
    void (*log_line)(void *ud, const char *line);
    void *log_ud;
    /* Told once, with a line of JSON, when requests can be answered; NULL: nobody. */
    void (*ready)(void *ud, const char *line);
    void *ready_ud;
    uint64_t context_memory, max_body; /* bytes */
    const char *cache_dir;             /* folder for what outlives the server; NULL: nothing does */
    uint64_t cache_disk;               /* bytes of files there */
    int64_t port, ctx, parallel, queue, max_connections, max_tokens;
    int64_t n_think;        /* tokens of thinking, then it is ended; -1: no limit */
    double max_step, drain; /* seconds */
    bool no_key, strict;
    bool strict_calls; /* only the syntax of the template makes a call */
    bool open_objects; /* objects may have members that their schemas do not name */
    bool record_last;  /* of lines that continue each other the last is kept */
};
extern const struct serve_job_opts serve_job_usual;
/* Answers until it is told to stop. */
int serve_job_run(struct work *w, const struct serve_job_opts *a, struct err *e);

#endif
