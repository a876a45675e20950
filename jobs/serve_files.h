// SPDX-License-Identifier: MIT
/* jobs/serve_files.h - the files of `hone serve`: finding them, reading their headers, dividing the
 * memory, loading and closing. Internal to the job. */
#ifndef HONE_JOBS_SERVE_FILES_H
#define HONE_JOBS_SERVE_FILES_H

#include "jobs/serve_job.h"
#include "serve/serve.h"

struct kv_type;
struct serve_files {
    struct work *w;
    const struct serve_job_opts *a;
    struct serve_file *v;
    int n, cap;
    int first;              /* the file for requests without a model */
    uint64_t max_bytes;     /* limit for all loaded files; 0: none */
    uint64_t context_bytes; /* per file */
    const struct kv_type *kv_k, *kv_v;
    const char *tmpl; /* template of --template; NULL: each file's own */
};
/* Returns whether each file's own template is to be repaired (--template fix). */
bool serve_repairs(const struct serve_job_opts *a);
/* Fills f with the files and folders of a. A damaged file in a folder gets `wrong`; one among
 * several files that the user named is an error. */
int serve_files_read(struct serve_files *f, struct work *w, const struct serve_job_opts *a,
                     const char *tmpl, struct err *e);
/* Sets the error for a context of n_ctx tokens that takes `one` bytes, which is more than `room`.
 */
int serve_files_no_context(const struct serve_files *f, int64_t n_ctx, uint64_t one, uint64_t room,
                           struct err *e);
/* Returns the default limit of a file's context memory in main memory. */
uint64_t serve_files_main(void);
void serve_files_release(struct serve_files *f);
/* Implements serve_opts.load and .unload; ud is the struct serve_files. */
int serve_files_load(void *ud, int i, struct serve_core *out, struct err *e);
/* Closes a model's sessions and files. */
void serve_files_unload(void *ud, int i, struct serve_core *c);

#endif
