// SPDX-License-Identifier: MIT
/* runtime/measure/measurement_cache.h - results caches of measurements (base/results_cache.h), one
 * per command or per job, and their keys. */
#ifndef HONE_RUNTIME_MEASURE_MEASUREMENT_CACHE_H
#define HONE_RUNTIME_MEASURE_MEASUREMENT_CACHE_H

#include "base/results_cache.h"
#include "runtime/measure/eval.h"

/* Opens the file of --keep. path NULL: sets *out to NULL. ERR_USAGE if several processes run
 * (base/ranks.h): they cannot share a cache. */
int kept_open(struct results_cache **out, const char *path, struct err *e);
/* Opens a job's own cache. An unusable file is reported and replaced. Returns NULL if replacing it
 * fails. */
struct results_cache *kept_open_own(const char *path);

/* Cache keys for one model, or for candidates compared with a base. The functions below accept k
 * NULL (no cache). */
struct kept_of {
    struct results_cache_of *of; /* [n] */
    int n;
};
/* Adds the key of measurements of one model. `hash`: of the file's content; NULL: use its name,
 * size and time stamp. */
void kept_model(struct kept_of *x, struct results_cache *k, const struct session *s,
                const char *hash);
/* Adds the key of a comparison of the candidate s with a base. The base is a session or, if NULL,
 * the logits file base_file, identified by name, size and time stamp. Hashes: see kept_model. */
void kept_pair(struct kept_of *x, struct results_cache *k, const struct session *base,
               const char *base_hash, const char *base_file, const struct session *s,
               const char *hash);
/* Adds the key of encoder errors: a model's weights, its importance matrix by file hash ("": none),
 * and second moments (NULL: none). */
void kept_weights(struct kept_of *x, struct results_cache *k, const struct gguf *g,
                  const char *imatrix_hash, const struct gguf *moments);
/* Adds any other key text; takes ownership of `what`, which must come from malloc. */
void kept_text(struct kept_of *x, struct results_cache *k, char *what);
void kept_release(struct kept_of *x);
/* Stores a measurement's completed share under its name. kept_share returns it; 0: unknown, or k is
 * NULL. */
void kept_put_share(struct results_cache *k, const char *name, double share);
/* Returns the share recorded under `name`, in (0, 1]; 0 if it is missing. */
double kept_share(struct results_cache *k, const char *name);

#endif
