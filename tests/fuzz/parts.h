// SPDX-License-Identifier: MIT
/* tests/fuzz/parts.h - inputs of several parts between separators, for targets that repeat a part.
 */
#ifndef HONE_TESTS_FUZZ_PARTS_H
#define HONE_TESTS_FUZZ_PARTS_H

#include <string.h>

#include "base/buf.h"

struct part {
    const char *s;
    size_t n;
};

/* Returns the part at *s, of at most `most` bytes, and moves *s past its separator. */
static inline struct part next_part(const char **s, const char *end, char separator, size_t most) {
    const char *from = *s, *at = from < end ? memchr(from, separator, (size_t)(end - from)) : NULL;
    const size_t n = (size_t)((at ? at : end) - from);
    *s = at ? at + 1 : end;
    return (struct part){from, n < most ? n : most};
}

/* Appends a part with each '#' replaced by a number. */
static inline void put_part(struct buf *b, struct part p, int number) {
    for (size_t i = 0; i < p.n; i++)
        if (p.s[i] == '#')
            buf_fmt(b, "%d", number);
        else
            buf_chr(b, p.s[i]);
}

#endif
