// SPDX-License-Identifier: MIT
/* jobs/gguf_diff.h - hone diff: comparison of two GGUF files or split sets. */
#ifndef HONE_JOBS_GGUF_DIFF_H
#define HONE_JOBS_GGUF_DIFF_H

#include <stdbool.h>

#include "work/work.h"

#include "commands/members.h"
struct diff_opts {
    const char *a, *b;
#include "commands/diff.def"
};
/* Fills m with the differences. Returns ERR_VERDICT, with a complete m, if there are any. */
int diff_run(const struct work *w, const struct diff_opts *o, struct emit *m, struct err *e);

#endif
