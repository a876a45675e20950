// SPDX-License-Identifier: MIT
/* jobs/verify.h - is a file or folder whole, and is it what it claims? */
#ifndef HONE_JOBS_VERIFY_H
#define HONE_JOBS_VERIFY_H

#include <stdbool.h>

#include "work/work.h"

struct verify_opts {
    const char *path;     /* file or folder */
    const char *manifest; /* checksums as sha256sum writes them; NULL: the folder's own, if any */
    bool deep;            /* read all data: no NaN or infinity in values and scales */
};
/* Fills m with a row per finding. Returns ERR_VERDICT when there is one; m is complete then too. */
int verify_run(const struct verify_opts *o, struct emit *m, struct err *e);

#endif
