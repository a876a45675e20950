// SPDX-License-Identifier: MIT
/* runtime/measure/measures.h - results of `hone eval suite` as samples: of each measure one number
 * per window or case, so that two models measured on the same input are compared pair by pair. */
#ifndef HONE_RUNTIME_MEASURE_MEASURES_H
#define HONE_RUNTIME_MEASURE_MEASURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { MEASURE_MIN = 8 }; /* fewer samples give no verdict */
struct measure {
    char name[32];  /* "ln_ppl", "kld", "passed", "right" */
    char group[64]; /* text, suite or task file */
    char input[33]; /* hash of what was measured on: equal ones can be compared */
    bool less_is_better;
    int64_t n;
    double *sample; /* [n] of windows (means) or cases (0 or 1); all weigh the same */
};
struct measures {
    struct measure *m;
    int n;
    char *model; /* as named when it was measured */
};
/* Adds a measure with n samples of 0 and returns it; it is borrowed, until the next one is added.
 * `input` is a text that says everything on which the numbers depend but the model; its hash is
 * kept. */
struct measure *measures_add(struct measures *ms, const char *name, const char *group,
                             const char *input, bool less_is_better, int64_t n);
void measures_release(struct measures *ms);
int measures_write(const struct measures *ms, const char *path, bool overwrite, struct err *e);
int measures_read(struct measures *ms, const char *path, struct err *e);

struct measure_pair {                   /* a minus b over the same samples */
    double a, b, diff, stderr_, lo, hi; /* lo, hi: 95 %, bootstrap of the samples */
    int verdict; /* -1: a is better, 1: b is, 0: the difference is within its error */
};
/* Returns the measure of b that has the same name, group, input and number of samples as `of`,
 * borrowed; NULL when b has none. */
const struct measure *measures_match(const struct measures *b, const struct measure *of);
void measure_compare(const struct measure *a, const struct measure *b, struct measure_pair *out);
/* Computes the mean of the samples and its standard error. */
void measure_mean(const struct measure *m, double *mean, double *stderr_out);

#endif
