// SPDX-License-Identifier: MIT
/* serve/ngram_draft.h - guesses of what comes next in a text that repeats itself. */
#ifndef HONE_SERVE_NGRAM_DRAFT_H
#define HONE_SERVE_NGRAM_DRAFT_H

#include <stdint.h>

enum { LOOKUP_LEAST = 3, LOOKUP_BACK = 16384 };
/* Guesses what follows ids[0..n): what followed its last tokens where they stood before, at the
 * place where most of them are the same, the last one of several. Writes up to `most` tokens to out
 * and returns their number; 0: the last LOOKUP_LEAST tokens are not among the LOOKUP_BACK before.
 */
int ngram_draft_guess(const int32_t *ids, int64_t n, int32_t *out, int most);

#endif
