// SPDX-License-Identifier: MIT
/* jobs/inspect.h - what a file or folder is, from its headers alone. */
#ifndef HONE_JOBS_INSPECT_H
#define HONE_JOBS_INSPECT_H

#include <stdbool.h>

#include "work/work.h"

enum inspect_keys { KEYS_SHORT, KEYS_ALL, KEYS_NONE };
struct inspect_opts {
    const char *path;
    enum inspect_keys keys; /* metadata: long values cut, whole, or none */
    bool tensors;           /* list every tensor */
};
/* Fills m with what the file is. Returns ERR_DATA when it is nothing that is known. */
int inspect_run(const struct inspect_opts *o, struct emit *m, struct err *e);

#endif
