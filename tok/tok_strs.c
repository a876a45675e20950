// SPDX-License-Identifier: MIT
/* tok/tok_strs.c - parser for a JSON list of strings that may contain U+0000 and invalid UTF-8. */
#include "tok/tok_strs.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "text/utf8.h"

struct in {
    const char *s;
    size_t n, at;
};

/* Returns the next byte; -1 at the end. */
static int peek_byte(const struct in *p) {
    return p->at < p->n ? (unsigned char)p->s[p->at] : -1;
}

static void skip_blank(struct in *p) {
    while (p->at < p->n && strchr(" \t\r\n", p->s[p->at]) && p->s[p->at]) p->at++;
}

/* Skips blanks and the character c. False: a different character follows. */
static bool skip_char(struct in *p, char c) {
    skip_blank(p);
    if (peek_byte(p) != c) return false;
    p->at++;
    return true;
}

/* Parses four hex digits; -1: not four hex digits. */
static int32_t hex4(struct in *p) {
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek_byte(p);
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
        p->at++;
    }
    return v;
}

/* Parses the code point after "\u". False: not four hex digits. */
static bool code_point(struct in *p, struct buf *b) {
    int32_t hi = hex4(p);
    if (hi < 0) return false;
    uint32_t cp = (uint32_t)hi;
    if (hi >= 0xd800 && hi < 0xdc00 && p->n - p->at >= 6 && p->s[p->at] == '\\' &&
        p->s[p->at + 1] == 'u') {
        struct in ahead = {p->s, p->n, p->at + 2};
        int32_t lo = hex4(&ahead);
        if (lo >= 0xdc00 && lo < 0xe000) {
            cp = 0x10000 + ((uint32_t)(hi - 0xd800) << 10) + (uint32_t)(lo - 0xdc00);
            p->at = ahead.at;
        }
    }
    char c[4];
    buf_add(b, c, utf8_encode(cp, c));
    return true;
}

/* Parses a string after its opening quote. False: invalid or unclosed. */
static bool parse_string(struct in *p, struct buf *b) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    for (;;) {
        int c = peek_byte(p);
        if (c < 0x20) return false; /* end of the text, or a control character */
        p->at++;
        if (c == '"') return true;
        if (c != '\\') {
            buf_chr(b, (char)c);
            continue;
        }
        c = peek_byte(p);
        p->at++;
        const char *k = c > 0 ? strchr(from, c) : NULL;
        if (c == 'u') {
            if (!code_point(p, b)) return false;
        } else if (k)
            buf_chr(b, to[k - from]);
        else
            return false;
    }
}

/* Appends the buffer's text, taking ownership of it. */
static void add_string(struct strs *a, struct buf *b) {
    if ((a->n & (a->n - 1)) == 0) {
        size_t cap = a->n ? a->n * 2 : 1;
        a->v = xreallocarray(a->v, cap, sizeof *a->v);
        a->len = xreallocarray(a->len, cap, sizeof *a->len);
    }
    a->len[a->n] = b->len;
    a->v[a->n++] = buf_take(b);
}

int strs_parse(struct strs *out, const char *json, size_t len, size_t *used, const char *what,
               struct err *e) {
    struct in p = {json, len, 0};
    struct strs a = {0};
    struct buf b = {0};
    bool ok = skip_char(&p, '['), more = ok && !skip_char(&p, ']');
    while (ok && more) {
        ok = skip_char(&p, '"') && parse_string(&p, &b);
        if (ok) add_string(&a, &b);
        if (ok && !skip_char(&p, ',')) {
            ok = skip_char(&p, ']');
            more = false;
        }
    }
    buf_release(&b);
    *used = p.at;
    if (ok) {
        *out = a;
        return 0;
    }
    err_set(e, ERR_DATA, "%s: not a JSON list of strings (text %zu, byte %zu)", what, a.n, p.at);
    strs_release(&a);
    return ERR_DATA;
}

void strs_release(struct strs *a) {
    for (size_t i = 0; i < a->n; i++) free(a->v[i]);
    free(a->v);
    free(a->len);
    memset(a, 0, sizeof *a);
}
