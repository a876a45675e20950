// SPDX-License-Identifier: MIT
/* jobs/meta_job.h - hone meta: lists or edits the metadata of a GGUF file. */
#ifndef HONE_JOBS_META_JOB_H
#define HONE_JOBS_META_JOB_H

#include "containers/gguf.h"
#include "work/work.h"

#include "commands/members.h"
struct meta_opts {
    const char *path;
    struct str_list set; /* "KEY=VALUE"; to list: "KEY" */
    bool in_full;        /* values are JSON, not cut */
#include "commands/meta.def"
};
/* Lists the keys of a file, or changes them in place. Fills m. ERR_USAGE: the changes would make
 * the file unreadable, or are malformed; the file is unchanged. */
int meta_run(const struct meta_opts *o, struct emit *m, struct err *e);
/* Returns ERR_USAGE for a value outside the range of its key; the message gives the range. */
int meta_check_value(const struct gguf_kv *kv, struct err *e);
/* Logs how an edit was written. */
void meta_log_edit(const char *path, const struct gguf_edit *how);

#endif
