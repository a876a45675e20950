// SPDX-License-Identifier: MIT
/* jobs/verify.h - is a file or folder whole, and is it what it claims? */
#ifndef HONE_JOBS_VERIFY_H
#define HONE_JOBS_VERIFY_H

#include <stdbool.h>

#include "work/work.h"

#include "commands/members.h"
struct verify_opts {
    const char *path; /* file or folder */
#include "commands/verify.def"
};
/* Fills m with a row per finding. Returns ERR_VERDICT when there is one; m is complete then too. */
int verify_run(const struct verify_opts *o, struct emit *m, struct err *e);

#endif
