// SPDX-License-Identifier: MIT
/* template/jinja_text.c - strings as sequences of code points: counting, stripping, case,
 * categories. Case mappings from one character to several come from jinja_case.def (Unicode
 * SpecialCasing), all others from utf8proc. */
#include "template/jinja_int.h"

#include <string.h>

#include <utf8proc.h>

uint32_t ju_next(const char *s, size_t n, size_t *i) {
    const unsigned char *p = (const unsigned char *)s + *i;
    size_t left = n - *i;
    if (p[0] < 0x80) {
        *i += 1;
        return p[0];
    }
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    uint32_t cp = len == 4 ? p[0] & 7u : len == 3 ? p[0] & 15u : p[0] & 31u;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < len) {
        *i += 1;
        return 0xfffd;
    }
    for (size_t k = 1; k < len; k++) {
        if ((p[k] & 0xc0) != 0x80) {
            *i += 1;
            return 0xfffd;
        }
        cp = cp << 6 | (p[k] & 63u);
    }
    *i += len;
    return cp;
}

void ju_put(struct jctx *c, uint32_t cp) {
    char b[4];
    if (cp < 0x80) {
        b[0] = (char)cp;
        jx_add(c, b, 1);
    } else if (cp < 0x800) {
        b[0] = (char)(0xc0 | cp >> 6);
        b[1] = (char)(0x80 | (cp & 63));
        jx_add(c, b, 2);
    } else if (cp < 0x10000) {
        b[0] = (char)(0xe0 | cp >> 12);
        b[1] = (char)(0x80 | (cp >> 6 & 63));
        b[2] = (char)(0x80 | (cp & 63));
        jx_add(c, b, 3);
    } else {
        b[0] = (char)(0xf0 | cp >> 18);
        b[1] = (char)(0x80 | (cp >> 12 & 63));
        b[2] = (char)(0x80 | (cp >> 6 & 63));
        b[3] = (char)(0x80 | (cp & 63));
        jx_add(c, b, 4);
    }
}

size_t ju_count(struct jval s) {
    size_t n = 0;
    for (size_t i = 0; i < s.len; n++) ju_next(s.u.s, s.len, &i);
    return n;
}

size_t ju_offset(struct jval s, size_t i_cp) {
    size_t i = 0;
    while (i_cp && i < s.len) {
        ju_next(s.u.s, s.len, &i);
        i_cp--;
    }
    return i;
}

bool ju_is_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

/* Returns whether strip() removes cp; chars JT_MISSING: whitespace. */
static bool is_stripped(struct jctx *c, struct jval chars, uint32_t cp) {
    if (chars.tag == JT_MISSING) return ju_is_space(cp);
    if (c) jx_bytes(c, 4 * (size_t)chars.len);
    for (size_t i = 0; i < chars.len;)
        if (ju_next(chars.u.s, chars.len, &i) == cp) return true;
    return false;
}

struct jval ju_strip(struct jctx *c, struct jval s, struct jval chars, int sides) {
    size_t a = 0, b = s.len;
    while ((sides & 1) && a < b) {
        size_t i = a;
        if (!is_stripped(c, chars, ju_next(s.u.s, s.len, &i))) break;
        a = i;
    }
    while ((sides & 2) && a < b) {
        size_t i = b - 1;
        while (i > a && ((unsigned char)s.u.s[i] & 0xc0) == 0x80) i--;
        size_t k = i;
        if (!is_stripped(c, chars, ju_next(s.u.s, s.len, &k))) break;
        b = k > b ? b : i;
    }
    s.u.s += a;
    s.len = (uint32_t)(b - a);
    return s;
}

/* ---- case ------------------------------------------------------------------------------------ */

static const struct {
    uint32_t from;
    uint32_t upper[3], title[3];
} special_case[] = {
#include "template/jinja_case.def"
};

/* Appends up to three code points; 0 ends the sequence. */
static void put_seq(struct jctx *c, const uint32_t seq[3]) {
    for (int i = 0; i < 3 && seq[i]; i++) ju_put(c, seq[i]);
}

/* Prints cp in upper case or, with `title`, in title case; the result may be several characters. */
static void put_upper(struct jctx *c, uint32_t cp, bool title) {
    for (size_t i = 0; cp >= 0xdf && i < COUNT_OF(special_case); i++) {
        if (special_case[i].from != cp) continue;
        put_seq(c, title ? special_case[i].title : special_case[i].upper);
        return;
    }
    ju_put(c, (uint32_t)(title ? utf8proc_totitle((int32_t)cp) : utf8proc_toupper((int32_t)cp)));
}

static utf8proc_category_t category_of(uint32_t cp) {
    return utf8proc_category((int32_t)cp);
}

/* Upper- and lower-case characters outside the letter categories (Other_Uppercase,
 * Other_Lowercase). */
static const struct {
    uint32_t from, to;
    bool upper;
} other_case[] = {
    {0xaa, 0xaa, false},      {0xba, 0xba, false},      {0x2b0, 0x2b8, false},
    {0x2c0, 0x2c1, false},    {0x2e0, 0x2e4, false},    {0x345, 0x345, false},
    {0x37a, 0x37a, false},    {0x1d2c, 0x1d6a, false},  {0x1d78, 0x1d78, false},
    {0x1d9b, 0x1dbf, false},  {0x2071, 0x2071, false},  {0x207f, 0x207f, false},
    {0x2090, 0x209c, false},  {0x2160, 0x216f, true},   {0x2170, 0x217f, false},
    {0x24b6, 0x24cf, true},   {0x24d0, 0x24e9, false},  {0x2c7c, 0x2c7d, false},
    {0xa69c, 0xa69d, false},  {0xa770, 0xa770, false},  {0xa7f8, 0xa7f9, false},
    {0xab5c, 0xab5f, false},  {0x1f130, 0x1f149, true}, {0x1f150, 0x1f169, true},
    {0x1f170, 0x1f189, true},
};

bool ju_is_case(uint32_t cp, bool upper) {
    utf8proc_category_t k = category_of(cp);
    if (k == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL)) return true;
    for (size_t i = 0; cp >= 0xaa && i < COUNT_OF(other_case); i++)
        if (cp >= other_case[i].from && cp <= other_case[i].to) return other_case[i].upper == upper;
    return false;
}

bool ju_is_title(uint32_t cp) {
    return category_of(cp) == UTF8PROC_CATEGORY_LT;
}

static bool is_cased(uint32_t cp) {
    return ju_is_case(cp, true) || ju_is_case(cp, false) || ju_is_title(cp);
}

/* Returns whether Unicode's case algorithm ignores cp, as it does combining marks. */
static bool case_ignorable(uint32_t cp) {
    utf8proc_category_t k = category_of(cp);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || cp == '\'' || cp == '.' ||
           cp == ':' || cp == 0xb7 || cp == 0x2019;
}

/* Returns the character that ends at byte `end` (> 0) of s, and sets *from to its start. */
static uint32_t previous(struct jval s, size_t end, size_t *from) {
    size_t i = end - 1, e;
    while (i > 0 && end - i < 4 && ((unsigned char)s.u.s[i] & 0xc0) == 0x80) i--;
    e = i;
    const uint32_t cp = ju_next(s.u.s, s.len, &e);
    *from = e == end ? i : end - 1;
    return e == end ? cp : 0xfffd;
}

/* Returns whether a sigma ends a word: of the nearest characters that are not case-ignorable, the
 * one before it is cased and the one after it is not. */
static bool final_sigma(struct jval s, size_t from, size_t to) {
    uint32_t cp = '.';
    while (from > 0 && case_ignorable(cp)) cp = previous(s, from, &from);
    if (case_ignorable(cp) || !is_cased(cp)) return false;
    cp = '.';
    while (to < s.len && case_ignorable(cp)) cp = ju_next(s.u.s, s.len, &to);
    return case_ignorable(cp) || !is_cased(cp);
}

/* Prints cp, which is at [from, to) of s, in lower case; a final sigma has its own form. */
static void put_lower(struct jctx *c, struct jval s, size_t from, size_t to, uint32_t cp) {
    if (cp == 0x130) {
        ju_put(c, 'i');
        ju_put(c, 0x307);
    } else if (cp == 0x3a3) {
        ju_put(c, final_sigma(s, from, to) ? 0x3c2 : 0x3c3);
    } else {
        ju_put(c, (uint32_t)utf8proc_tolower((int32_t)cp));
    }
}

struct jval ju_case(struct jctx *c, struct jval s, enum ju_case how) {
    size_t m = jx_mark(c);
    bool in_word = false;
    for (size_t i = 0; i < s.len;) {
        size_t from = i;
        uint32_t cp = ju_next(s.u.s, s.len, &i);
        jx_as(c, s.u.s + from);
        if (how == JU_UPPER) {
            put_upper(c, cp, false);
        } else if (how == JU_LOWER) {
            put_lower(c, s, from, i, cp);
        } else if (how == JU_SWAP) {
            if (ju_is_case(cp, true)) {
                put_lower(c, s, from, i, cp);
            } else if (ju_is_case(cp, false)) {
                put_upper(c, cp, false);
            } else {
                jx_add(c, s.u.s + from, i - from);
            }
        } else {
            bool first = how == JU_TITLE ? !in_word : from == 0;
            if (first) {
                put_upper(c, cp, true);
            } else {
                put_lower(c, s, from, i, cp);
            }
            in_word = is_cased(cp);
        }
    }
    jx_as(c, NULL);
    struct jval v = jx_take(c, m);
    v.flag = s.flag;
    return v;
}

bool ju_printable(uint32_t cp) {
    if (cp < 0x7f) return cp >= 0x20;
    switch ((int)category_of(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return false;
    default:
        return true;
    }
}

struct jval ju_escape(struct jctx *c, struct jval v) {
    static const char *const names[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"};
    if (v.tag == JT_STR && (v.flag & JF_MARKUP)) return v;
    v = jv_to_str(c, v);
    size_t m = jx_mark(c);
    for (size_t i = 0; i < v.len; i++) {
        unsigned char ch = (unsigned char)v.u.s[i];
        const char *name = ch < 128 ? names[ch] : NULL;
        if (name) {
            jx_as(c, v.u.s + i);
            jx_add(c, name, strlen(name));
            jx_as(c, NULL);
        } else {
            jx_add(c, v.u.s + i, 1);
        }
    }
    v = jx_take(c, m);
    v.flag = JF_MARKUP;
    return v;
}

int64_t ju_find(struct jval s, struct jval sub, size_t from) {
    if (from > s.len) return -1;
    if (sub.len == 0) return (int64_t)from;
    const char *p = memmem(s.u.s + from, s.len - from, sub.u.s, sub.len);
    return p ? p - s.u.s : -1;
}
