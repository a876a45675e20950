// SPDX-License-Identifier: MIT
/* base/printable.h - formatting of values for messages: names from untrusted files (control and
 * non-ASCII bytes become '?', long names are truncated), and sizes in readable units. */
#ifndef HONE_BASE_PRINTABLE_H
#define HONE_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct show {
    char s[100];
};

/* Copies s; if it is longer than 95 bytes, its first 92 and "...". Use as show_n(s, n).s within one
 * expression. */
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

/* Formats a size as "900 bytes", "6.7 MiB" or "24.0 GiB". Use as show_bytes(n).s within one
 * expression. */
static inline struct show show_bytes(uint64_t n) {
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct show o;
    double v = (double)n;
    int i = -1;
    for (; v >= 1024 && i < 5; i++) v /= 1024;
    if (i < 0)
        snprintf(o.s, sizeof o.s, "%d bytes", (int)n);
    else
        snprintf(o.s, sizeof o.s, "%.1f %s", v, unit[i]);
    return o;
}

#endif
