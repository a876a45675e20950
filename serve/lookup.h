// SPDX-License-Identifier: MIT
/* serve/lookup.h - guesses of what comes next in a text that repeats itself. */
#ifndef HONE_SERVE_LOOKUP_H
#define HONE_SERVE_LOOKUP_H

#include <stdint.h>

/* What followed the last tokens of ids[0..n) where they stood before: at the longest such place,
 * the last one of several, writes up to `most` tokens to out and returns their number. 0: the last
 * LOOKUP_LEAST tokens did not stand within the last LOOKUP_BACK before. */
enum { LOOKUP_LEAST = 3, LOOKUP_BACK = 16384 };
int lookup_guess(const int32_t *ids, int64_t n, int32_t *out, int most);

#endif
