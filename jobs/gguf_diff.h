// SPDX-License-Identifier: MIT
/* jobs/gguf_diff.h - what changed between two GGUF files or split sets. */
#ifndef HONE_JOBS_GGUF_DIFF_H
#define HONE_JOBS_GGUF_DIFF_H

#include <stdbool.h>

#include "work/work.h"

struct diff_opts {
    const char *a, *b;
    bool list;        /* every tensor that differs */
    bool want_error;  /* relative RMS error of b's weights against a's; reads them, implies list */
    bool no_manifest; /* read the data, whatever manifest.json says of them */
};
/* Fills m with what differs. Returns ERR_VERDICT when something does; m is complete then too. */
int diff_run(const struct work *w, const struct diff_opts *o, struct emit *m, struct err *e);

#endif
