// SPDX-License-Identifier: MIT
/* text/utf8.c - strict UTF-8 decoding and Unicode normal forms. The only file that includes
 * utf8proc.
 *
 * NFC works on runs: a character below U+0300 never combines with the one before it, so the text
 * can be split before each such character. A run without characters at or above U+0300 is in NFC
 * already, so plain English costs a single scan. */
#include "text/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t utf8_decode(const char *s, size_t n, uint32_t *cp) {
    const unsigned char *u = (const unsigned char *)s;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0) return 0;
    if (u[0] < 0x80) {
        *cp = u[0];
        return 1;
    }
    size_t len = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || len > n) return 0;
    uint32_t c = u[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((u[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (u[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *cp = c;
    return len;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) cp = 0xfffd;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00u >> len & 0xf0u) | cp);
    return len;
}

size_t utf8_valid_prefix(const char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        if (len == 0) break;
        i += len;
    }
    return i;
}

static utf8proc_category_t category_of(uint32_t cp) {
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool utf8_is_digit(uint32_t cp) {
    return cp < 0x80 ? cp >= '0' && cp <= '9' : category_of(cp) == UTF8PROC_CATEGORY_ND;
}

bool utf8_is_number(uint32_t cp) {
    utf8proc_category_t c = category_of(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool utf8_is_word(uint32_t cp) {
    utf8proc_category_t c = category_of(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC;
}

bool utf8_is_white(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
           cp == 0x205f || cp == 0x3000;
}

size_t utf8_white_span(const char *s, size_t n) {
    size_t i = 0, len;
    uint32_t cp;
    while ((len = utf8_decode(s + i, n - i, &cp)) && utf8_is_white(cp)) i += len;
    return i;
}

size_t utf8_white_before(const char *s, size_t n) {
    size_t i = n;
    uint32_t cp;
    while (i > 0) {
        size_t at = i - 1;
        while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80) at--;
        if (utf8_decode(s + at, i - at, &cp) != i - at || !utf8_is_white(cp)) break;
        i = at;
    }
    return n - i;
}

/* Appends the normalized text; copies text that cannot be normalized unchanged. */
static void map_run(struct buf *out, const char *s, size_t n, int how) {
    utf8proc_uint8_t *r = NULL;
    utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &r,
                                        (utf8proc_option_t)(UTF8PROC_STABLE | how));
    if (len >= 0)
        buf_add(out, r, (size_t)len);
    else /* out of memory or not UTF-8: copy unchanged */
        buf_add(out, s, n);
    free(r);
}

void utf8_nfc(struct buf *out, const char *s, size_t n) {
    size_t done = 0; /* end of the text already in `out` */
    size_t low = 0;  /* position of the last character below U+0300 */
    size_t i = 0;
    buf_reserve(out, n);
    while (i < n) {
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        if (len == 0 || cp < 0x300) {
            low = i;
            i += len ? len : 1;
            continue;
        }
        buf_add(out, s + done, low - done);
        size_t end = i + len;
        for (; end < n; end += len) {
            len = utf8_decode(s + end, n - end, &cp);
            if (len == 0 || cp < 0x300) break;
        }
        map_run(out, s + low, end - low, UTF8PROC_COMPOSE);
        done = low = i = end;
    }
    buf_add(out, s + done, n - done);
}

static const char *const forms[] = {[UTF8_AS_IS] = "none",
                                    [UTF8_NFC] = "NFC",
                                    [UTF8_NFD] = "NFD",
                                    [UTF8_NFKC] = "NFKC",
                                    [UTF8_NFKD] = "NFKD"};

enum utf8_form utf8_form_of(const char *name) {
    for (int i = UTF8_NFC; name && i <= UTF8_NFKD; i++)
        if (strcmp(name, forms[i]) == 0) return (enum utf8_form)i;
    return UTF8_AS_IS;
}

const char *utf8_form_name(enum utf8_form form) {
    return forms[form];
}

void utf8_normalize(struct buf *out, const char *s, size_t n, enum utf8_form form) {
    static const int how[] = {[UTF8_NFD] = UTF8PROC_DECOMPOSE,
                              [UTF8_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                              [UTF8_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    if (form == UTF8_AS_IS)
        buf_add(out, s, n);
    else if (form == UTF8_NFC)
        utf8_nfc(out, s, n);
    else if (n)
        map_run(out, s, n, how[form]);
}
