// SPDX-License-Identifier: MIT
/* runtime/measure/measurement_cache.h - files of kept measurements (base/results_cache.h) of a
 * command, and of a job. */
#ifndef HONE_RUNTIME_MEASURE_MEASUREMENT_CACHE_H
#define HONE_RUNTIME_MEASURE_MEASUREMENT_CACHE_H

#include "base/results_cache.h"
#include "runtime/measure/eval.h"

/* Opens the file of --keep. Returns ERR_USAGE when there are several processes (base/ranks.h),
 * which cannot share it. path NULL: *out is NULL. */
int kept_open(struct results_cache **out, const char *path, struct err *e);
/* Opens a job's own file of kept measurements; one that cannot be used is reported and made anew.
 * Returns NULL when that fails too. */
struct results_cache *kept_open_own(const char *path);

/* What numbers of one model, or of candidates compared with a base, depend on. The functions below
 * also work with k NULL, when nothing is kept. */
struct kept_of {
    struct results_cache_of *of; /* [n] */
    int n;
};
/* Adds all that the numbers of one model depend on. `hash` is that of the file's content; NULL: its
 * name, size and time stamp stand for it. */
void kept_model(struct kept_of *x, struct results_cache *k, const struct session *s,
                const char *hash);
/* Adds all that the comparison of a candidate's session with a base depends on. The base is a
 * session, or, with base NULL, the file of logits base_file, by its name, size and time stamp. The
 * hashes are as in kept_model. */
void kept_pair(struct kept_of *x, struct results_cache *k, const struct session *base,
               const char *base_hash, const char *base_file, const struct session *s,
               const char *hash);
/* Adds what errors of encoders depend on: the weights of a model, its importance matrix by the hash
 * of its file ("": none), and second moments (NULL: none). */
void kept_weights(struct kept_of *x, struct results_cache *k, const struct gguf *g,
                  const char *imatrix_hash, const struct gguf *moments);
/* Adds any other text that says what values depend on; it takes over `what`, which free() frees. */
void kept_text(struct kept_of *x, struct results_cache *k, char *what);
void kept_release(struct kept_of *x);
/* Keeps the share of a measurement that is done, under its name, and gets it: 0 when nothing is
 * known of it, and with k NULL. */
void kept_put_share(struct results_cache *k, const char *name, double share);
double kept_share(struct results_cache *k, const char *name);

#endif
