// SPDX-License-Identifier: MIT
/* runtime/measure/measures.h - results of `hone eval suite` as samples: one number per measure and
 * window or case, so that two models measured on the same input are compared pair by pair. */
#ifndef HONE_RUNTIME_MEASURE_MEASURES_H
#define HONE_RUNTIME_MEASURE_MEASURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { MEASURE_MIN = 8 }; /* minimum number of samples for a verdict */
struct measure {
    char name[32];  /* "ln_ppl", "kld", "passed", "right" */
    char group[64]; /* text, suite or task file */
    char input[33]; /* hash of the input; measures with equal hashes are comparable */
    bool less_is_better;
    int64_t n;
    double *sample; /* [n] windows (means) or cases (0 or 1), equally weighted */
};
struct measures {
    struct measure *m;
    int n;
    char *model; /* model name given for the measurement */
};
/* Adds a measure with n zero samples and returns it, borrowed until the next call. `input` is a
 * text of everything that the numbers depend on besides the model; its hash is stored. */
struct measure *measures_add(struct measures *ms, const char *name, const char *group,
                             const char *input, bool less_is_better, int64_t n);
void measures_release(struct measures *ms);
/* Writes the measurements, with every sample, as JSON. */
int measures_write(const struct measures *ms, const char *path, bool overwrite, struct err *e);
/* Reads a file of `hone eval suite`; on error, nothing is left to release. */
int measures_read(struct measures *ms, const char *path, struct err *e);

struct measure_pair {                   /* a minus b over the same samples */
    double a, b, diff, stderr_, lo, hi; /* lo, hi: 95 %, bootstrap of the samples */
    int verdict;                        /* -1: a is better, 1: b is better, 0: not significant */
};
/* Returns the measure of b that has the same name, group, input and number of samples as `of`,
 * borrowed; NULL: none. */
const struct measure *measures_match(const struct measures *b, const struct measure *of);
/* Compares a - b by sample. verdict: 1 if a is better than b, -1 if worse, 0 if that is not
 * clear. */
void measure_compare(const struct measure *a, const struct measure *b, struct measure_pair *out);
/* Computes mean (NaN without samples) and standard error (0 below two samples). */
void measure_mean(const struct measure *m, double *mean, double *stderr_out);

#endif
