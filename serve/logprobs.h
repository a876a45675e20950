// SPDX-License-Identifier: MIT
/* serve/logprobs.h - writer of token log probabilities in the formats of OpenAI's APIs. */
#ifndef HONE_SERVE_LOGPROBS_H
#define HONE_SERVE_LOGPROBS_H

#include "base/buf.h"
#include "base/json.h"
#include "tok/tok.h"

/* Appends a list element {"token", "logprob", "bytes", "top_logprobs"}. Log probabilities are
 * natural logarithms of the softmax of the model's n raw logits. top: number of alternatives, at
 * most LOGITS_BEST. logits NULL: unknown, so logprob is null. */
void logprobs_add(struct buf *out, const struct tok *t, const float *logits, int64_t n, int32_t id,
                  int top);
/* Writes list elements in the format of text completions: "logprobs": {"tokens", "token_logprobs",
 * "top_logprobs", "text_offset"}; null if the list is empty. *n: the characters before the first
 * token, then those up to the end of the last. */
void logprobs_as_text(struct jw *w, const char *elements, int64_t *n);

#endif
