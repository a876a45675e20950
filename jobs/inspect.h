// SPDX-License-Identifier: MIT
/* jobs/inspect.h - what a file or folder is, from its headers alone. */
#ifndef HONE_JOBS_INSPECT_H
#define HONE_JOBS_INSPECT_H

#include <stdbool.h>

#include "work/work.h"

#include "commands/members.h"
struct inspect_opts {
    const char *path;
#include "commands/inspect.def"
};
/* Fills m with what the file is. Returns ERR_DATA when it is nothing that is known. */
int inspect_run(const struct inspect_opts *o, struct emit *m, struct err *e);

#endif
