// SPDX-License-Identifier: MIT
/* jobs/inspect.h - hone inspect: description of a file or folder from its headers. */
#ifndef HONE_JOBS_INSPECT_H
#define HONE_JOBS_INSPECT_H

#include <stdbool.h>

#include "work/work.h"

#include "commands/members.h"
struct inspect_opts {
    const char *path;
#include "commands/inspect.def"
};
/* Fills m with the description. Returns ERR_DATA for an unknown format. */
int inspect_run(const struct inspect_opts *o, struct emit *m, struct err *e);

#endif
