// SPDX-License-Identifier: MIT
/* base/visible.c - escaping of untrusted text for a terminal. */
#include "base/visible.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

/* Returns whether the character is invisible or changes how others are displayed. */
static bool is_override(uint32_t cp) {
    return (cp >= 0x80 && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 ||
           (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) ||
           (cp >= 0xe0000 && cp <= 0xe007f);
}

/* Returns the character that n bytes of valid UTF-8 encode. */
static uint32_t character(const char *s, int n) {
    uint32_t cp = (unsigned char)s[0];
    if (n > 1) cp &= 0x7fu >> n;
    for (int i = 1; i < n; i++) cp = cp << 6 | ((unsigned char)s[i] & 0x3fu);
    return cp;
}

void text_visible(struct buf *out, const char *s, size_t n) {
    for (size_t i = 0, k; i < n; i += k) {
        const int len = json_utf8((const unsigned char *)s + i, n - i);
        const uint32_t cp = len > 0 ? character(s + i, len) : 0;
        k = len > 0 ? (size_t)len : 1;
        if (len < 0) {
            buf_str(out, "\xef\xbf\xbd");
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
