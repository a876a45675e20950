// SPDX-License-Identifier: MIT
/* serve/ngram_draft.h - n-gram drafts for speculative decoding of repetitive text. */
#ifndef HONE_SERVE_NGRAM_DRAFT_H
#define HONE_SERVE_NGRAM_DRAFT_H

#include <stdint.h>

enum { LOOKUP_LEAST = 3, LOOKUP_BACK = 16384 };
/* Guesses the tokens after ids[0..n): searches the last LOOKUP_BACK tokens for the longest earlier
 * occurrence of the suffix, preferring the latest, and copies what followed it. Writes up to `most`
 * tokens to out and returns their number; 0: no match of LOOKUP_LEAST tokens or more. */
int ngram_draft_guess(const int32_t *ids, int64_t n, int32_t *out, int most);

#endif
