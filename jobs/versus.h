// SPDX-License-Identifier: MIT
/* jobs/versus.h - hone versus: compares GGUF files of one model, by any makers, with one base. */
#ifndef HONE_JOBS_VERSUS_H
#define HONE_JOBS_VERSUS_H

#include <stdbool.h>

#include "runtime/measure/job.h"

#include "commands/members.h"
struct versus_opts {
    struct eval_args eval;
    const char *base;
    const char *const *file; /* [n_files] */
    int n_files;
#include "commands/versus.def"
};
extern const struct versus_opts versus_usual;
/* Opens the base and all files, computes the divergence of all in one pass over the texts, counts
 * flips where requested, and fills m. ERR_DATA: a file is not of the base's model. ERR_USAGE: a
 * file is given twice. */
int versus_run(struct work *w, const struct versus_opts *o, struct emit *m, struct err *e);

#endif
