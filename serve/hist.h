// SPDX-License-Identifier: MIT
/* serve/hist.h - how often times were how long, as Prometheus counts them. */
#ifndef HONE_SERVE_HIST_H
#define HONE_SERVE_HIST_H

#include <stdint.h>

#include "base/buf.h"

enum { HIST_BOUNDS = 16 };
struct hist {                   /* zero-initialised is empty */
    int64_t n[HIST_BOUNDS + 1]; /* up to each bound and above the one before; the last: longer */
    double sum;
};
/* Adds `times` times of so many seconds each. */
void hist_add(struct hist *h, double seconds, int64_t times);
/* Adds the counts of another histogram. */
void hist_join(struct hist *h, const struct hist *other);
/* Appends it as a metric of that name. */
void hist_put(const struct hist *h, const char *name, const char *help, struct buf *out);

#endif
