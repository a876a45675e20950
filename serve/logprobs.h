// SPDX-License-Identifier: MIT
/* serve/logprobs.h - probabilities of tokens as OpenAI's chat shows them. */
#ifndef HONE_SERVE_LOGPROBS_H
#define HONE_SERVE_LOGPROBS_H

#include "base/buf.h"
#include "base/json.h"
#include "tok/tok.h"

/* Appends an element {"token", "logprob", "bytes", "top_logprobs"} of a list: natural logarithms of
 * the softmax of the n logits as the model gave them. top: alternatives, at most LOGITS_BEST.
 * logits NULL: nothing is known, logprob is null. */
void logprobs_add(struct buf *out, const struct tok *t, const float *logits, int64_t n, int32_t id,
                  int top);
/* Writes the elements as text completions show them: "logprobs": {"tokens", "token_logprobs",
 * "top_logprobs", "text_offset"}. offset is that of the first token's text. It is null when there
 * are none. */
void logprobs_as_text(struct jw *w, const char *elements, int64_t offset);

#endif
