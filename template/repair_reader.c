// SPDX-License-Identifier: MIT
/* template/repair_reader.c - a JSON parser in Jinja, which converts arguments given as text into an
 * object.
 *
 * Its source, repair_reader.jinja, uses only what all chat template engines have. It splits the
 * text at quotes; the pieces are alternately structure and strings. Two private-use characters
 * replace escaped backslashes and quotes. hone.f is the stack of open objects and lists; hone.t is
 * the bracket, hone.k the keys and hone.v the values of the innermost one. hone.n is the key that
 * waits for its value hone.b, and hone.ok is whether that value is present. hone.bad: not JSON, or
 * an object with more than MOST keys. hone.raw: a \u escape without a row in `ranges`, which stays
 * an escape. */
#include "template/repair_int.h"

#include <string.h>

#include "base/incbin.h"
#include "text/utf8.h"

INCBIN(hone_tmpl_reader, "template/repair_reader.jinja")

/* Jinja cannot build an object key by key, so a literal has FEW or MOST keys; the first key fills
 * the unused ones. */
enum { FEW = 8, MOST = 64 };

/* Characters whose \u escapes are decoded. No engine has a function for that. */
static const struct {
    uint32_t first, last;
} ranges[] = {
    {0x21, 0x7e},                                         /* ASCII */
    {0xa0, 0xa0},     {0xa1, 0x17f},                      /* Latin */
    {0x386, 0x38a},   {0x38c, 0x38c},   {0x38e, 0x3a1},   /* Greek */
    {0x3a3, 0x3ce},   {0x400, 0x45f},   {0x490, 0x491},   /* Cyrillic */
    {0x2010, 0x2015}, {0x2018, 0x201e}, {0x2020, 0x2022}, /* punctuation */
    {0x2026, 0x2026}, {0x2030, 0x2030}, {0x20ac, 0x20ac}, /* ... %o euro */
    {0x2116, 0x2116}, {0x2122, 0x2122}, {0x2190, 0x2193}, /* number, trade mark, arrows */
    {0x2212, 0x2212}, {0x2260, 0x2260}, {0x2264, 0x2265}, /* minus, comparisons */
    {0x3001, 0x3002}, {0xff01, 0xff01}, {0xff08, 0xff09}, /* CJK punctuation */
    {0xff0c, 0xff0c}, {0xff1a, 0xff1b}, {0xff1f, 0xff1f},
};

/* Appends the table of `ranges`: rows of the first code and a list of characters. */
static void put_characters(struct buf *out) {
    for (size_t i = 0; i < COUNT_OF(ranges); i++) {
        buf_fmt(out, ", [%u, '", ranges[i].first);
        for (uint32_t c = ranges[i].first; c <= ranges[i].last; c++) {
            char s[4];
            if (c > ranges[i].first) buf_chr(out, ' ');
            if (c == '\'' || c == '\\') buf_chr(out, '\\');
            buf_add(out, s, utf8_encode(c, s));
        }
        buf_str(out, "'.split(' ')]");
    }
}

/* Appends the pairs of a literal with n keys. */
static void put_pairs(struct buf *out, int n) {
    for (int i = 0; i < n; i++) buf_fmt(out, "%sk[%d]: v[%d]", i ? ", " : "", i, i);
}

void reader_write(struct buf *out, bool as_is) {
    for (const char *s = hone_tmpl_reader; *s; s++) {
        if (*s != '@') {
            buf_chr(out, *s);
            continue;
        }
        switch (*++s) {
        case '0':
            buf_str(out, "\xee\x80\x80");
            break;
        case '1':
            buf_str(out, "\xee\x80\x81");
            break;
        case 'S':
            buf_fmt(out, "%d", FEW);
            break;
        case 'N':
            buf_fmt(out, "%d", MOST);
            break;
        case 'A':
            put_pairs(out, FEW);
            break;
        case 'B':
            put_pairs(out, MOST);
            break;
        case 'C':
            put_characters(out);
            break;
        case 'R':
            buf_str(out, as_is ? " and not hone.raw" : "");
            break;
        default:
            break;
        }
    }
}
