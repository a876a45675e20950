// SPDX-License-Identifier: MIT
/* text/visible.c - escaping of untrusted text for a terminal, and decoding of UTF-8 that arrives in
 * pieces. */
#include "text/visible.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "text/utf8.h"

static const char replacement[] = "\xef\xbf\xbd";

/* Returns whether the character is invisible or changes how others are displayed. */
static bool is_override(uint32_t cp) {
    return (cp >= 0x80 && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 ||
           (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) ||
           (cp >= 0xe0000 && cp <= 0xe007f);
}

void text_visible(struct buf *out, const char *s, size_t n) {
    for (size_t i = 0, k; i < n; i += k) {
        uint32_t cp;
        k = utf8_decode(s + i, n - i, &cp);
        if (!k) {
            buf_str(out, replacement);
            k = 1;
        } else if (cp == '\r' && i + 1 < n && s[i + 1] == '\n') {
            continue; /* the CR of a CRLF line end */
        } else if ((cp < 32 && cp != '\n' && cp != '\t') || cp == 127) {
            buf_fmt(out, "^%c", (char)(cp ^ 64));
        } else if (is_override(cp)) {
            buf_fmt(out, "<U+%04X>", (unsigned)cp);
        } else {
            buf_add(out, s + i, k);
        }
    }
}

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
