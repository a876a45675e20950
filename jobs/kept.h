// SPDX-License-Identifier: MIT
/* jobs/kept.h - files of kept measurements (core/keep.h) of a command, and of a job. */
#ifndef HONE_JOBS_KEPT_H
#define HONE_JOBS_KEPT_H

#include "core/keep.h"
#include "runtime/eval/eval.h"

/* --keep FILE: path NULL: *out is NULL. Of several ranks none can keep: ERR_USAGE. */
int kept_open(struct keep **out, const char *path, struct err *e);
/* A file of ours: one that cannot be used is said and made anew; NULL when that fails too. */
struct keep *kept_open_own(const char *path);

/* What numbers of one model, or of candidates compared with a base, depend on. hash: of contents;
 * NULL: names, sizes and time stamps. Works with k NULL. */
struct kept_of {
    struct keep_of *of; /* [n] */
    int n;
};
void kept_model(struct kept_of *x, struct keep *k, const struct session *s, const char *hash);
/* base NULL: a file of logits, by its name, size and time stamp. */
void kept_pair(struct kept_of *x, struct keep *k, const struct session *base, const char *base_hash,
               const char *base_file, const struct session *s, const char *hash);
/* A model's weights with an importance matrix (hash of its file, "" none), and second moments (NULL
 * none): what encoders' errors depend on. */
void kept_weights(struct kept_of *x, struct keep *k, const struct gguf *g, const char *imatrix_hash,
                  const struct gguf *moments);
/* Any other text; taken over. */
void kept_text(struct kept_of *x, struct keep *k, char *what);
void kept_release(struct kept_of *x);

#endif
