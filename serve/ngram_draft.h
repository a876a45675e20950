// SPDX-License-Identifier: MIT
/* serve/ngram_draft.h - n-gram drafts, for speculative decoding of repetitive text. */
#ifndef HONE_SERVE_NGRAM_DRAFT_H
#define HONE_SERVE_NGRAM_DRAFT_H

#include <stdint.h>

enum { LOOKUP_LEAST = 3, LOOKUP_BACK = 16384 };
/* Guesses the tokens after ids[0..n): finds the longest suffix that also occurs earlier within the
 * last LOOKUP_BACK tokens, preferring the latest occurrence, and copies the tokens that followed it
 * there. Writes up to `most` tokens to out and returns their number; 0: no match of at least
 * LOOKUP_LEAST tokens. */
int ngram_draft_guess(const int32_t *ids, int64_t n, int32_t *out, int most);

#endif
