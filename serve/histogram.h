// SPDX-License-Identifier: MIT
/* serve/histogram.h - latency histogram with Prometheus buckets. */
#ifndef HONE_SERVE_HISTOGRAM_H
#define HONE_SERVE_HISTOGRAM_H

#include <stdint.h>

#include "base/buf.h"

enum { HIST_BOUNDS = 16 };
struct histogram { /* zero-initialized: empty */
    int64_t n[HIST_BOUNDS +
              1]; /* samples per bucket, not cumulative; the last bucket is above all bounds */
    double sum;
};
/* Adds `times` samples of `seconds` each. */
void histogram_add(struct histogram *h, double seconds, int64_t times);
/* Adds the samples of another histogram. */
void histogram_join(struct histogram *h, const struct histogram *other);
/* Appends the histogram to out as a Prometheus metric called `name`. */
void histogram_put(const struct histogram *h, const char *name, const char *help, struct buf *out);

#endif
