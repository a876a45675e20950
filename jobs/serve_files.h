// SPDX-License-Identifier: MIT
/* jobs/serve_files.h - the files of `hone serve`: which ones, what their headers tell, what memory
 * each may take, and how they are loaded. Internal to the job. */
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
    int first;              /* for requests that name none */
    uint64_t max_bytes;     /* of all that are loaded; 0: no bound */
    uint64_t context_bytes; /* of each */
    const struct kv_type *kv_k, *kv_v;
    const char *tmpl; /* in place of each file's own; NULL: its own */
};
/* Fills f with the files that a names: files, and what models a folder holds. Of a file that cannot
 * be served, f says why; ERR when it was named by itself, or is the only one. */
int serve_files_read(struct serve_files *f, struct work *w, const struct serve_job_opts *a,
                     const char *tmpl, struct err *e);
void serve_files_release(struct serve_files *f);
/* Loads file i, as serve_opts.load; ud is the struct serve_files. The second one closes it again.
 */
int serve_files_load(void *ud, int i, struct serve_core *out, struct err *e);
void serve_files_unload(void *ud, int i, struct serve_core *c);

#endif
