// SPDX-License-Identifier: MIT
/* runtime/engine/logits.h - selection of the largest logits. */
#ifndef HONE_RUNTIME_ENGINE_LOGITS_H
#define HONE_RUNTIME_ENGINE_LOGITS_H

#include <stdint.h>

struct logit {
    float logit;
    int32_t id;
    double p; /* probability; set by the sampler */
};
/* Compares two struct logit for qsort: the larger logit first, ties by ascending id. */
int logit_order(const void *a, const void *b);
/* Stores the k >= 1 largest finite logits of n in h, in descending order, and returns their number.
 * Once it has found k, it skips blocks without a larger one. */
int64_t logits_keep(const float *logits, int64_t n, struct logit *h, int64_t k);
/* Stores the k <= LOGITS_BEST largest in ids and logits, like logits_keep. */
enum { LOGITS_BEST = 128 };
/* Stores the k largest logits and their tokens, largest first; returns their number. */
int32_t logits_best(const float *logits, int64_t n, int32_t k, int32_t *id, float *logit);
/* Returns the largest of n values, comparing in lanes so that a compiler can vectorize it. */
float logits_max(const float *x, int64_t n);
/* Returns the index of the first maximum. */
int64_t logits_argmax(const float *x, int64_t n);

#endif
