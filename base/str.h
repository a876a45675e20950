// SPDX-License-Identifier: MIT
/* base/str.h - questions about strings. */
#ifndef HONE_BASE_STR_H
#define HONE_BASE_STR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

static inline bool str_ends(const char *s, const char *tail) {
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && memcmp(s + n - k, tail, k) == 0;
}

/* Returns the ending of a word that is counted: "1 file", "2 files". */
static inline const char *str_s(int64_t n) {
    return n == 1 ? "" : "s";
}

/* Fails with ERR_DATA when the n bytes s, which are called `what`, hold a NUL: they are no text,
 * and readers of C would see only what precedes it. */
static inline int str_no_nul(const char *s, size_t n, const char *what, struct err *e) {
    const char *at = n ? memchr(s, 0, n) : NULL;
    size_t line = 1;
    if (!at) return 0;
    for (const char *p = s; p < at; p++) line += *p == '\n';
    return err_set(e, ERR_DATA, "%s: a NUL at byte %zu, in line %zu: this is no text", what,
                   (size_t)(at - s), line);
}

#endif
