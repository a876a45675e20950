// SPDX-License-Identifier: MIT
/* serve/histogram.h - how often times were how long, as Prometheus counts them. */
#ifndef HONE_SERVE_HISTOGRAM_H
#define HONE_SERVE_HISTOGRAM_H

#include <stdint.h>

#include "base/buf.h"

enum { HIST_BOUNDS = 16 };
struct histogram {              /* zero-initialised is empty */
    int64_t n[HIST_BOUNDS + 1]; /* up to each bound and above the one before; the last: longer */
    double sum;
};
/* Adds `times` times of so many seconds each. */
void histogram_add(struct histogram *h, double seconds, int64_t times);
/* Adds the counts of another histogram. */
void histogram_join(struct histogram *h, const struct histogram *other);
/* Appends it as a metric of that name. */
void histogram_put(const struct histogram *h, const char *name, const char *help, struct buf *out);

#endif
