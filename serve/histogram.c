// SPDX-License-Identifier: MIT
/* serve/histogram.c - latency histogram with Prometheus buckets. */
#include "serve/histogram.h"

#include <inttypes.h>

static const double bound[HIST_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                          0.5,   1,      2.5,   5,    10,    30,   60,  300};

void histogram_add(struct histogram *h, double seconds, int64_t times) {
    int i = 0;
    while (i < HIST_BOUNDS && seconds > bound[i]) i++;
    h->n[i] += times;
    h->sum += seconds * (double)times;
}

void histogram_join(struct histogram *h, const struct histogram *other) {
    for (int i = 0; i <= HIST_BOUNDS; i++) h->n[i] += other->n[i];
    h->sum += other->sum;
}

void histogram_put(const struct histogram *h, const char *name, const char *help, struct buf *out) {
    int64_t n = 0;
    buf_fmt(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (int i = 0; i < HIST_BOUNDS; i++) {
        n += h->n[i];
        buf_fmt(out, "%s_bucket{le=\"%g\"} %" PRId64 "\n", name, bound[i], n);
    }
    n += h->n[HIST_BOUNDS];
    buf_fmt(out, "%s_bucket{le=\"+Inf\"} %" PRId64 "\n%s_sum %.9g\n%s_count %" PRId64 "\n", name, n,
            name, h->sum, name, n);
}
