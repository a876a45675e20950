// SPDX-License-Identifier: MIT
/* text/complete.c - decoding of UTF-8 that arrives in pieces. */
#include "text/complete.h"

#include <stdbool.h>
#include <string.h>

#include "text/utf8.h"

static const char replacement[] = "\xef\xbf\xbd";

/* Returns the length of a character with this lead byte; 0: not a lead byte. */
static size_t length_of(unsigned char lead) {
    return lead < 0x80   ? 1
           : lead < 0xc2 ? 0
           : lead < 0xe0 ? 2
           : lead < 0xf0 ? 3
           : lead < 0xf5 ? 4
                         : 0;
}

/* Returns whether these bytes, too few for a character so far, may still become one. */
static bool may_become(const char *s, size_t n) {
    if (n >= length_of((unsigned char)s[0])) return false;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80) return false;
    return true;
}

void text_complete(struct buf *out, struct buf *part, const char *s, size_t n) {
    if (s) buf_add(part, s, n);
    size_t i = 0;
    while (i < part->len) {
        size_t k = utf8_valid_prefix(part->data + i, part->len - i);
        const char *nul = memchr(part->data + i, 0, k);
        if (nul) k = (size_t)(nul - (part->data + i));
        buf_add(out, part->data + i, k);
        i += k;
        if (i == part->len) break;
        if (s && !nul && may_become(part->data + i, part->len - i)) break;
        buf_str(out, replacement);
        i++;
    }
    if (i && part->len) memmove(part->data, part->data + i, part->len - i);
    part->len -= i;
}
