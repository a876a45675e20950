// SPDX-License-Identifier: MIT
/* base/win/posix.c - functions of POSIX that the C library of Windows lacks. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>

void *memmem(const void *where, size_t m, const void *what, size_t n) {
    const char *s = where, *first = what;
    if (!n) return (void *)(uintptr_t)where;
    for (const char *p = s; (size_t)(p - s) + n <= m; p++) {
        p = memchr(p, *first, m - n + 1 - (size_t)(p - s));
        if (!p) return NULL;
        if (memcmp(p, what, n) == 0) return (void *)(uintptr_t)p;
    }
    return NULL;
}
char *strcasestr(const char *where, const char *what) {
    const size_t n = strlen(what);
    for (; strncasecmp(where, what, n) != 0; where++)
        if (!*where) return NULL;
    return (char *)(uintptr_t)where;
}
time_t timegm(struct tm *t) {
    return _mkgmtime(t);
}

/* Returns whether c is in the set after a `[`, and sets *end to the character after the `]`; NULL:
 * no set. */
static bool in_set(const char *p, int c, const char **end) {
    const bool not = *p == '!' || *p == '^';
    bool found = false;
    p += not ;
    for (const char *first = p; *p && (*p != ']' || p == first); p++) {
        int a = (unsigned char)*p, b = a;
        if (p[1] == '-' && p[2] && p[2] != ']') b = (unsigned char)p[2], p += 2;
        found |= a <= c && c <= b;
    }
    *end = *p ? p + 1 : NULL;
    return found != not ;
}
int fnmatch(const char *pattern, const char *text, int flags) {
    const bool fold = flags & FNM_CASEFOLD;
    for (; *pattern; pattern++, text++) {
        if (*pattern == '*') {
            for (pattern++;; text++) {
                if (fnmatch(pattern, text, flags) == 0) return 0;
                if (!*text) return FNM_NOMATCH;
            }
        }
        if (!*text) return FNM_NOMATCH;
        const char *end;
        const int c = (unsigned char)*text;
        if (*pattern == '?') continue;
        if (*pattern == '[') {
            const bool yes =
                in_set(pattern + 1, c, &end) || (fold && in_set(pattern + 1, tolower(c), &end));
            if (end) {
                if (!yes) return FNM_NOMATCH;
                pattern = end - 1;
                continue;
            }
        }
        if (*pattern == '\\' && pattern[1]) pattern++;
        const int p = (unsigned char)*pattern;
        if (fold ? tolower(p) != tolower(c) : p != c) return FNM_NOMATCH;
    }
    return *text ? FNM_NOMATCH : 0;
}
