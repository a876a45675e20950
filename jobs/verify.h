// SPDX-License-Identifier: MIT
/* jobs/verify.h - hone verify: checks that a file or folder is complete and valid. */
#ifndef HONE_JOBS_VERIFY_H
#define HONE_JOBS_VERIFY_H

#include <stdbool.h>

#include "work/work.h"

#include "commands/members.h"
struct verify_opts {
    const char *path; /* file or folder */
#include "commands/verify.def"
};
/* Fills m with a row per finding. Returns ERR_VERDICT, with a complete m, if there are any. */
int verify_run(const struct verify_opts *o, struct emit *m, struct err *e);

#endif
