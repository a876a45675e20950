// SPDX-License-Identifier: MIT
/* core/str.h - questions about strings. */
#ifndef HONE_CORE_STR_H
#define HONE_CORE_STR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool str_ends(const char *s, const char *tail) {
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && memcmp(s + n - k, tail, k) == 0;
}

/* Returns the ending of a word that is counted: "1 file", "2 files". */
static inline const char *str_s(int64_t n) {
    return n == 1 ? "" : "s";
}

#endif
