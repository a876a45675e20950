// SPDX-License-Identifier: MIT
/* runtime/engine/logits.h - the largest of a row of logits. */
#ifndef HONE_RUNTIME_ENGINE_LOGITS_H
#define HONE_RUNTIME_ENGINE_LOGITS_H

#include <stdint.h>

struct logit {
    float logit;
    int32_t id;
    double p; /* probability; set by the sampler */
};
/* Compares two struct logit for qsort: the larger logit first, ties to the lower id. */
int logit_order(const void *a, const void *b);
/* Puts the k >= 1 largest finite logits of n into h, the largest first, and returns how many there
 * are. Once there are k, blocks without a larger one are passed over. */
int64_t logits_keep(const float *logits, int64_t n, struct logit *h, int64_t k);
/* Does the same for k <= LOGITS_BEST into ids and logits. */
enum { LOGITS_BEST = 128 };
int32_t logits_best(const float *logits, int64_t n, int32_t k, int32_t *id, float *logit);
/* Returns the largest of n values, compared in lanes so that a compiler can do many at a time. */
float logits_max(const float *x, int64_t n);
/* Returns the index of the first maximum. */
int64_t logits_argmax(const float *x, int64_t n);

#endif
