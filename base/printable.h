// SPDX-License-Identifier: MIT
/* base/printable.h - names from strangers' files, made fit for a message: control and non-ASCII
 * bytes become
 * '?', long ones are cut. */
#ifndef HONE_BASE_PRINTABLE_H
#define HONE_BASE_PRINTABLE_H

#include <stddef.h>

struct show {
    char s[100];
};

/* Copies the first bytes of s, at most 95, then "..." when it is cut. It is used as show_n(s,
 * n).s in one expression. */
static inline struct show show_n(const char *s, size_t n) {
    struct show o;
    size_t len = n < 96 ? n : 92, i;
    for (i = 0; i < len; i++) {
        char c = s[i];
        o.s[i] = c >= 0x20 && c < 0x7f ? c : '?';
    }
    if (n >= 96)
        for (; i < len + 3; i++) o.s[i] = '.';
    o.s[i] = 0;
    return o;
}

#endif
