// SPDX-License-Identifier: MIT
/* runtime/generate/sample.h - token sampling from logits. */
#ifndef HONE_RUNTIME_GENERATE_SAMPLE_H
#define HONE_RUNTIME_GENERATE_SAMPLE_H

#include <stdint.h>

#include "base/rng.h"

struct sample_opts {      /* each step can be disabled by a neutral value */
    float temp;           /* <= 0: greedy */
    int32_t top_k;        /* <= 0: all */
    float top_p;          /* >= 1: off */
    float min_p;          /* <= 0: off */
    float repeat_penalty; /* 1: off; over the last repeat_last_n tokens */
    int32_t repeat_last_n;
    float presence_penalty, frequency_penalty; /* 0: off; over the same tokens */
};
/* Samples in this order: penalties, top_k, softmax with temp, then top_p and min_p on that
 * distribution. `last`: previous tokens, newest last. A sampler allocates O(n_vocab) once. */
struct sampler;
/* Returns a sampler for n_vocab logits; the same seed gives the same choices. */
struct sampler *sampler_new(const struct sample_opts *o, int64_t n_vocab, uint64_t seed);
void sampler_free(struct sampler *s);
/* Returns the number of logits that a draw reads. */
int64_t sampler_n_vocab(const struct sampler *s);
/* Returns a token drawn from the logits. last [n_last]: previous tokens, for the penalties. */
int32_t sampler_pick(struct sampler *s, const float *logits, const int32_t *last, int64_t n_last);
/* Returns the number of largest logits that determine the choice after n_last tokens; -1: all. */
int64_t sampler_needs(const struct sampler *s, int64_t n_last);
/* Makes the same choice from the n largest finite logits in descending order, ties by ascending id.
 * n is at least sampler_needs(), or the number of finite logits if that is smaller. */
int32_t sampler_pick_best(struct sampler *s, const int32_t *id, const float *logit, int64_t n,
                          const int32_t *last, int64_t n_last);

/* Returns the state of the random number generator; sampler_set_rng restores it, so that the next
 * draw is repeated. */
uint64_t sampler_get_rng(const struct sampler *s);
/* Restores the random number generator to a state read earlier from a sampler. */
void sampler_set_rng(struct sampler *s, uint64_t place);

#endif
