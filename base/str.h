// SPDX-License-Identifier: MIT
/* base/str.h - string helpers. */
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

/* Returns the plural ending for n: "1 file", "2 files". */
static inline const char *str_s(int64_t n) {
    return n == 1 ? "" : "s";
}

/* Returns ERR_DATA if the n bytes at s, called `what` in the message, contain a NUL. Such bytes are
 * not text, and C string functions would see only the part before the NUL. */
static inline int str_no_nul(const char *s, size_t n, const char *what, struct err *e) {
    const char *at = n ? memchr(s, 0, n) : NULL;
    size_t line = 1;
    if (!at) return 0;
    for (const char *p = s; p < at; p++) line += *p == '\n';
    return err_set(e, ERR_DATA, "%s: a NUL at byte %zu, in line %zu: this is not text", what,
                   (size_t)(at - s), line);
}

#endif
