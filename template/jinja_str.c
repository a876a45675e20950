// SPDX-License-Identifier: MIT
/* template/jinja_str.c - methods of strings, with Python's argument rules. v[0] is the string. */
#include "template/jinja_lib.h"

#include <string.h>

#include <utf8proc.h>

static bool is_given(struct jval v) {
    return v.tag != JT_MISSING;
}

/* Returns v; fails unless it is a string. what: the method's name for the message. */
static struct jval want_str(struct jctx *c, struct jval v, const char *what) {
    if (v.tag == JT_UNDEF) jx_undef_fail(c, v);
    if (v.tag != JT_STR) jx_fail(c, "TypeError", "%s: must be str, not %s", what, jv_type(v));
    return v;
}

/* Returns bytes [from, to) of s without copying them. */
static struct jval sub_string(struct jval s, size_t from, size_t to) {
    struct jval r = jv_strn(s.u.s + from, to - from);
    r.flag = s.flag;
    return r;
}

/* Returns the position of the last x in the first `end` bytes of s; -1: none. */
static int64_t find_last(struct jctx *c, struct jval s, struct jval x, size_t end) {
    if (x.len > end) return -1;
    for (size_t i = end - x.len + 1; i-- > 0;) {
        if (x.len && s.u.s[i] != x.u.s[0]) continue;
        jx_bytes(c, x.len); /* e.g. "aaaa" in "aaaa...": each comparison may read all of x */
        if (memcmp(s.u.s + i, x.u.s, x.len) == 0) return (int64_t)i;
    }
    return -1;
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* Splits at runs of whitespace, at most `max` times; no limit if negative. */
static struct jval split_space(struct jctx *c, struct jval s, int64_t max) {
    struct jval l = jv_list(c, 0);
    size_t i = 0;
    for (;;) {
        while (i < s.len) { /* Skip white space before a word. */
            size_t k = i;
            if (!ju_is_space(ju_next(s.u.s, s.len, &k))) break;
            i = k;
        }
        if (i >= s.len) return l;
        if (max >= 0 && (int64_t)l.u.list->n == max) {
            jlist_add(c, l.u.list, ju_strip(c, sub_string(s, i, s.len), jv_missing(), 2));
            return l;
        }
        size_t start = i;
        while (i < s.len) {
            size_t k = i;
            if (ju_is_space(ju_next(s.u.s, s.len, &k))) break;
            i = k;
        }
        jlist_add(c, l.u.list, sub_string(s, start, i));
    }
}

/* Returns the optional argument maxsplit; -1 if it was not passed. */
static int64_t max_split(struct jctx *c, struct jval v) {
    return is_given(v) ? jv_index(c, v, "maxsplit") : -1;
}

/* Implements str.split(sep=None, maxsplit=-1). */
static struct jval m_split(struct jctx *c, struct jval *v) {
    int64_t max = max_split(c, v[2]);
    if (!is_given(v[1]) || v[1].tag == JT_NONE) return split_space(c, v[0], max);
    struct jval sep = want_str(c, v[1], "split"), l = jv_list(c, 0);
    if (!sep.len) jx_fail(c, "ValueError", "empty separator");
    size_t i = 0;
    while (max < 0 || (int64_t)l.u.list->n < max) {
        int64_t at = ju_find(v[0], sep, i);
        if (at < 0) break;
        jlist_add(c, l.u.list, sub_string(v[0], i, (size_t)at));
        i = (size_t)at + sep.len;
    }
    jlist_add(c, l.u.list, sub_string(v[0], i, v[0].len));
    return l;
}

/* Reverses l in place and returns it. */
static struct jval reverse_list(struct jctx *c, struct jval l) {
    UNUSED(c);
    struct jlist *k = l.u.list;
    for (uint32_t i = 0; i < k->n / 2; i++) {
        struct jval t = k->v[i];
        k->v[i] = k->v[k->n - 1 - i];
        k->v[k->n - 1 - i] = t;
    }
    return l;
}

/* Splits like split_space(), from the right. */
static struct jval rsplit_space(struct jctx *c, struct jval s, int64_t max) {
    struct jval l = jv_list(c, 0);
    size_t end = s.len;
    for (;;) {
        struct jval rest = ju_strip(c, sub_string(s, 0, end), jv_missing(), 2);
        end = rest.len;
        if (!end) break;
        if (max >= 0 && (int64_t)l.u.list->n == max) {
            jlist_add(c, l.u.list, ju_strip(c, rest, jv_missing(), 1));
            break;
        }
        size_t i = end;
        while (i > 0) {
            size_t k = i - 1;
            while (k > 0 && ((unsigned char)s.u.s[k] & 0xc0) == 0x80) k--;
            size_t e = k;
            if (ju_is_space(ju_next(s.u.s, end, &e))) break;
            i = k;
        }
        jlist_add(c, l.u.list, sub_string(s, i, end));
        end = i;
    }
    return reverse_list(c, l);
}

/* Implements str.rsplit(sep=None, maxsplit=-1). */
static struct jval m_rsplit(struct jctx *c, struct jval *v) {
    int64_t max = max_split(c, v[2]);
    if (!is_given(v[1]) || v[1].tag == JT_NONE) return rsplit_space(c, v[0], max);
    struct jval sep = want_str(c, v[1], "rsplit"), l = jv_list(c, 0);
    if (!sep.len) jx_fail(c, "ValueError", "empty separator");
    size_t end = v[0].len;
    while (max < 0 || (int64_t)l.u.list->n < max) {
        int64_t at = find_last(c, v[0], sep, end);
        if (at < 0) break;
        jlist_add(c, l.u.list, sub_string(v[0], (size_t)at + sep.len, end));
        end = (size_t)at;
    }
    jlist_add(c, l.u.list, sub_string(v[0], 0, end));
    return reverse_list(c, l);
}

/* Returns whether a code point ends a line for str.splitlines(). */
static bool line_end(uint32_t cp) {
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

/* Implements str.splitlines(keepends=False). */
static struct jval m_splitlines(struct jctx *c, struct jval *v) {
    struct jval s = v[0], l = jv_list(c, 0);
    bool keep = is_given(v[1]) && jv_truth(c, v[1]);
    for (size_t start = 0, i = 0; i < s.len;) {
        size_t from = i;
        uint32_t cp = ju_next(s.u.s, s.len, &i);
        if (!line_end(cp)) {
            if (i >= s.len) jlist_add(c, l.u.list, sub_string(s, start, s.len));
            continue;
        }
        if (cp == '\r' && i < s.len && s.u.s[i] == '\n') i++;
        jlist_add(c, l.u.list, sub_string(s, start, keep ? i : from));
        start = i;
    }
    return l;
}

/* Returns (before, sep, after). `at` -1: returns s and two empty strings, with s last if `right` is
 * set. */
static struct jval split_at(struct jctx *c, struct jval s, struct jval sep, int64_t at,
                            bool right) {
    struct jval empty = sub_string(s, 0, 0), t[3] = {s, empty, empty};
    sep.flag = s.flag;
    if (at >= 0) {
        t[0] = sub_string(s, 0, (size_t)at);
        t[1] = sep;
        t[2] = sub_string(s, (size_t)at + sep.len, s.len);
    } else if (right) {
        t[0] = empty;
        t[2] = s;
    }
    return jv_tuple(c, t, 3);
}

/* Implements str.partition(sep). */
static struct jval m_partition(struct jctx *c, struct jval *v) {
    struct jval sep = want_str(c, v[1], "partition");
    if (!sep.len) jx_fail(c, "ValueError", "empty separator");
    return split_at(c, v[0], sep, ju_find(v[0], sep, 0), false);
}

/* Implements str.rpartition(sep). */
static struct jval m_rpartition(struct jctx *c, struct jval *v) {
    struct jval sep = want_str(c, v[1], "rpartition");
    if (!sep.len) jx_fail(c, "ValueError", "empty separator");
    return split_at(c, v[0], sep, find_last(c, v[0], sep, v[0].len), true);
}

/* ---- stripping, searching -------------------------------------------------------------------- */

/* Implements str.strip(chars=None) for the sides: 1 left, 2 right, 3 both. */
static struct jval strip(struct jctx *c, struct jval *v, int sides) {
    struct jval chars = v[1];
    if (chars.tag == JT_NONE) chars = jv_missing();
    if (is_given(chars)) want_str(c, chars, "strip arg");
    return ju_strip(c, v[0], chars, sides);
}
static struct jval m_strip(struct jctx *c, struct jval *v) {
    return strip(c, v, 3);
}
static struct jval m_lstrip(struct jctx *c, struct jval *v) {
    return strip(c, v, 1);
}
static struct jval m_rstrip(struct jctx *c, struct jval *v) {
    return strip(c, v, 2);
}

/* Finds the part of s between the optional code point bounds v[2] and v[3]; *from is its byte
 * offset. Returns false if its start is past the end. */
static bool window(struct jctx *c, struct jval *v, struct jval *out, size_t *from) {
    struct jval s = v[0];
    *from = 0;
    *out = s;
    if (!is_given(v[2]) && !is_given(v[3])) return true;
    int64_t n = (int64_t)ju_count(s), a = 0, b = n;
    if (is_given(v[2]) && v[2].tag != JT_NONE) a = jv_index(c, v[2], "start");
    if (is_given(v[3]) && v[3].tag != JT_NONE) b = jv_index(c, v[3], "end");
    if (a < 0) a = a + n < 0 ? 0 : a + n;
    if (b < 0) b = b + n < 0 ? 0 : b + n;
    if (b > n) b = n;
    if (a > b) return false;
    *from = ju_offset(s, (size_t)a);
    *out = sub_string(s, *from, ju_offset(s, (size_t)b));
    return true;
}

/* Returns whether s begins (or, with `end`, ends) with x; fails unless x is a string. */
static bool affix_one(struct jctx *c, struct jval s, struct jval x, bool end, const char *what) {
    if (x.tag == JT_UNDEF) jx_undef_fail(c, x);
    if (x.tag != JT_STR)
        jx_fail(c, "TypeError", "%s first arg must be str or a tuple of str, not %s", what,
                jv_type(x));
    jx_bytes(c, x.len);
    return x.len <= s.len && memcmp(end ? s.u.s + s.len - x.len : s.u.s, x.u.s, x.len) == 0;
}

/* Implements str.startswith() and, with `end`, str.endswith(). */
static struct jval test_affix(struct jctx *c, struct jval *v, bool end, const char *what) {
    struct jval s;
    size_t from;
    bool ok = window(c, v, &s, &from), hit = false;
    if (v[1].tag == JT_TUPLE) {
        for (uint32_t i = 0; !hit && i < v[1].u.list->n; i++) {
            jx_step(c);
            hit = affix_one(c, s, v[1].u.list->v[i], end, what);
        }
    } else {
        hit = affix_one(c, s, v[1], end, what);
    }
    return jv_bool(ok && hit);
}
static struct jval m_startswith(struct jctx *c, struct jval *v) {
    return test_affix(c, v, false, "startswith");
}
static struct jval m_endswith(struct jctx *c, struct jval *v) {
    return test_affix(c, v, true, "endswith");
}

/* Returns the index, in characters, of v[1] in v[0] as str.find() does; -1: not found. */
static int64_t find_text(struct jctx *c, struct jval *v, bool last) {
    struct jval s, x = want_str(c, v[1], "find");
    size_t from;
    if (!window(c, v, &s, &from)) return -1;
    int64_t at = last ? find_last(c, s, x, s.len) : ju_find(s, x, 0);
    return at < 0 ? -1 : (int64_t)ju_count(sub_string(v[0], 0, from + (size_t)at));
}
static struct jval m_find(struct jctx *c, struct jval *v) {
    return jv_int(find_text(c, v, false));
}
static struct jval m_rfind(struct jctx *c, struct jval *v) {
    return jv_int(find_text(c, v, true));
}
/* Returns the index as a value; fails if it is negative. */
static struct jval must_find(struct jctx *c, int64_t at) {
    if (at < 0) jx_fail(c, "ValueError", "substring not found");
    return jv_int(at);
}
static struct jval m_index(struct jctx *c, struct jval *v) {
    return must_find(c, find_text(c, v, false));
}
static struct jval m_rindex(struct jctx *c, struct jval *v) {
    return must_find(c, find_text(c, v, true));
}
/* Implements str.count(sub, start, end). */
static struct jval m_count(struct jctx *c, struct jval *v) {
    struct jval s, x = want_str(c, v[1], "count");
    size_t from;
    int64_t n = 0;
    if (!window(c, v, &s, &from)) return jv_int(0);
    if (!x.len) return jv_int((int64_t)ju_count(s) + 1);
    for (int64_t at = ju_find(s, x, 0); at >= 0; at = ju_find(s, x, (size_t)at + x.len)) n++;
    return jv_int(n);
}

/* Replaces up to max occurrences of `old` by `new` (-1: all). */
static struct jval replace(struct jctx *c, struct jval s, struct jval old, struct jval new,
                           int64_t max) {
    size_t m = jx_mark(c), i = 0;
    for (int64_t n = 0; max < 0 || n < max; n++) {
        int64_t at = ju_find(s, old, i);
        if (at < 0) break;
        jx_step(c);
        jx_add(c, s.u.s + i, (size_t)at - i);
        jx_add(c, new.u.s, new.len);
        i = (size_t)at + old.len;
        if (!old.len) { /* inserted between all characters */
            size_t e = i;
            if (i >= s.len) break;
            ju_next(s.u.s, s.len, &e);
            jx_add(c, s.u.s + i, e - i);
            i = e;
        }
    }
    if (i < s.len) jx_add(c, s.u.s + i, s.len - i);
    struct jval r = jx_take(c, m);
    r.flag = s.flag;
    return r;
}

/* Implements str.replace(old, new, count=-1). */
static struct jval m_replace(struct jctx *c, struct jval *v) {
    return replace(c, v[0], want_str(c, v[1], "replace"), want_str(c, v[2], "replace"),
                   max_split(c, v[3]));
}

/* Implements replace as a filter: all operands are converted to strings first. */
struct jval jstr_replace(struct jctx *c, struct jval *v) {
    int64_t max = v[3].tag == JT_NONE ? -1 : max_split(c, v[3]);
    return replace(c, jv_to_str(c, v[0]), jv_to_str(c, v[1]), jv_to_str(c, v[2]), max);
}

/* Implements str.removeprefix(prefix). */
static struct jval m_removeprefix(struct jctx *c, struct jval *v) {
    struct jval x = want_str(c, v[1], "removeprefix");
    return affix_one(c, v[0], x, false, "") ? sub_string(v[0], x.len, v[0].len) : v[0];
}
/* Implements str.removesuffix(suffix). */
static struct jval m_removesuffix(struct jctx *c, struct jval *v) {
    struct jval x = want_str(c, v[1], "removesuffix");
    return x.len && affix_one(c, v[0], x, true, "") ? sub_string(v[0], 0, v[0].len - x.len) : v[0];
}

/* ---- joining, padding ------------------------------------------------------------------------ */

/* Implements str.join(iterable). */
static struct jval m_join(struct jctx *c, struct jval *v) {
    struct jiter it;
    struct jval x;
    struct jlist *l = NULL;
    jiter_init(c, &it, v[1]);
    l = jv_to_list(c, v[1]);
    for (uint32_t i = 0; i < l->n; i++) {
        x = l->v[i];
        if (x.tag != JT_STR)
            jx_fail(c, "TypeError", "sequence item %u: expected str instance, %s found",
                    (unsigned)i, jv_type(x));
        if (v[0].flag & JF_MARKUP) l->v[i] = ju_escape(c, x);
    }
    size_t m = jx_mark(c);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) jx_add(c, v[0].u.s, v[0].len);
        jx_add(c, l->v[i].u.s, l->v[i].len);
    }
    struct jval r = jx_take(c, m);
    r.flag = v[0].flag;
    return r;
}

/* Returns s with `left` fill characters before and `right` after it. */
static struct jval pad_both(struct jctx *c, struct jval s, int64_t left, int64_t right,
                            struct jval fill) {
    size_t m = jx_mark(c);
    for (int64_t i = 0; i < left; i++) jx_add(c, fill.u.s, fill.len);
    jx_add(c, s.u.s, s.len);
    for (int64_t i = 0; i < right; i++) jx_add(c, fill.u.s, fill.len);
    struct jval r = jx_take(c, m);
    r.flag = s.flag;
    return r;
}

/* Returns how many characters s needs to reach the width v[1]; *fill: the fill character. */
static int64_t missing_width(struct jctx *c, struct jval *v, struct jval *fill) {
    *fill = is_given(v[2]) ? want_str(c, v[2], "fill character") : jv_str(" ");
    if (ju_count(*fill) != 1)
        jx_fail(c, "TypeError", "The fill character must be exactly one character long");
    int64_t width = jv_index(c, v[1], "width"), n = (int64_t)ju_count(v[0]);
    if (width > (int64_t)c->max_out) jx_fail(c, "limit", "a width is too large");
    return width > n ? width - n : 0;
}
/* Implements str.ljust(width, fillchar=" "). */
static struct jval m_ljust(struct jctx *c, struct jval *v) {
    struct jval fill;
    int64_t n = missing_width(c, v, &fill);
    return pad_both(c, v[0], 0, n, fill);
}
/* Implements str.rjust(width, fillchar=" "). */
static struct jval m_rjust(struct jctx *c, struct jval *v) {
    struct jval fill;
    int64_t n = missing_width(c, v, &fill);
    return pad_both(c, v[0], n, 0, fill);
}
struct jval jstr_center(struct jctx *c, struct jval *v) {
    struct jval fill;
    int64_t n = missing_width(c, v, &fill), left = n / 2 + (n & jv_index(c, v[1], "width") & 1);
    return pad_both(c, v[0], left, n - left, fill);
}
/* Implements str.zfill(width), which inserts the zeros after a sign. */
static struct jval m_zfill(struct jctx *c, struct jval *v) {
    struct jval fill = jv_missing(), w[3] = {v[0], v[1], jv_missing()}, s = v[0];
    int64_t n = missing_width(c, w, &fill);
    size_t sign = s.len && (s.u.s[0] == '-' || s.u.s[0] == '+');
    struct jval body = pad_both(c, sub_string(s, sign, s.len), n, 0, jv_str("0"));
    return sign ? jop_bin(c, JO_ADD, sub_string(s, 0, 1), body) : body;
}
/* Implements str.expandtabs(tabsize=8). */
static struct jval m_expandtabs(struct jctx *c, struct jval *v) {
    int64_t tab = is_given(v[1]) ? jv_index(c, v[1], "tabsize") : 8, col = 0;
    size_t m = jx_mark(c);
    if (tab > 10000) jx_fail(c, "limit", "a tab size is too large");
    for (size_t i = 0; i < v[0].len;) {
        size_t from = i;
        uint32_t cp = ju_next(v[0].u.s, v[0].len, &i);
        if (cp == '\t') {
            jx_as(c, v[0].u.s + from);
            for (int64_t k = tab > 0 ? tab - col % tab : 0; k > 0; k--, col++) jx_add(c, " ", 1);
            jx_as(c, NULL);
            continue;
        }
        jx_add(c, v[0].u.s + from, i - from);
        col = cp == '\n' || cp == '\r' ? 0 : col + 1;
    }
    struct jval r = jx_take(c, m);
    r.flag = v[0].flag;
    return r;
}

/* ---- case and categories --------------------------------------------------------------------- */

static struct jval m_upper(struct jctx *c, struct jval *v) {
    return ju_case(c, v[0], JU_UPPER);
}
static struct jval m_lower(struct jctx *c, struct jval *v) {
    return ju_case(c, v[0], JU_LOWER);
}
static struct jval m_title(struct jctx *c, struct jval *v) {
    return ju_case(c, v[0], JU_TITLE);
}
static struct jval m_capitalize(struct jctx *c, struct jval *v) {
    return ju_case(c, v[0], JU_CAPITAL);
}
static struct jval m_swapcase(struct jctx *c, struct jval *v) {
    return ju_case(c, v[0], JU_SWAP);
}
static struct jval m_casefold(struct jctx *c, struct jval *v) {
    struct jval s = v[0];
    size_t m = jx_mark(c);
    for (size_t i = 0; i < s.len;) {
        jx_as(c, s.u.s + i);
        uint32_t cp = ju_next(s.u.s, s.len, &i);
        utf8proc_int32_t out[8];
        int cls = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((int32_t)cp, out, 8, UTF8PROC_CASEFOLD, &cls);
        for (utf8proc_ssize_t k = 0; k < n && k < 8; k++) ju_put(c, (uint32_t)out[k]);
    }
    jx_as(c, NULL);
    struct jval r = jx_take(c, m);
    r.flag = s.flag;
    return r;
}

enum is_what {
    IS_ALPHA,
    IS_DECIMAL,
    IS_DIGIT,
    IS_NUMERIC,
    IS_ALNUM,
    IS_SPACE,
    IS_PRINTABLE,
    IS_ASCII,
    IS_IDENT
};

/* Returns whether a code point belongs to the class; first: it is the string's first. */
static bool is_one(uint32_t cp, enum is_what what, bool first) {
    utf8proc_category_t k = utf8proc_category((int32_t)cp);
    bool letter = k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL ||
                  k == UTF8PROC_CATEGORY_LT || k == UTF8PROC_CATEGORY_LM ||
                  k == UTF8PROC_CATEGORY_LO;
    bool decimal = k == UTF8PROC_CATEGORY_ND;
    bool super = cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || (cp >= 0x2070 && cp <= 0x2089) ||
                 (cp >= 0x2460 && cp <= 0x2468);
    bool numeric = decimal || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
    switch (what) {
    case IS_ALPHA:
        return letter;
    case IS_DECIMAL:
        return decimal;
    case IS_DIGIT:
        return decimal || super;
    case IS_NUMERIC:
        return numeric;
    case IS_ALNUM:
        return letter || numeric;
    case IS_SPACE:
        return ju_is_space(cp);
    case IS_PRINTABLE:
        return ju_printable(cp);
    case IS_ASCII:
        return cp < 0x80;
    case IS_IDENT:
        return letter || cp == '_' || k == UTF8PROC_CATEGORY_NL ||
               (!first && (decimal || k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
                           k == UTF8PROC_CATEGORY_PC));
    }
    return false;
}

/* Returns whether all characters belong to the class, by Python's rules for empty strings. */
static struct jval is_all(struct jval s, enum is_what what) {
    if (!s.len) return jv_bool(what == IS_PRINTABLE || what == IS_ASCII);
    for (size_t i = 0; i < s.len;) {
        bool first = i == 0;
        if (!is_one(ju_next(s.u.s, s.len, &i), what, first)) return jv_bool(false);
    }
    return jv_bool(true);
}
#define IS_METHOD(name, what)                                                                      \
    static struct jval name(struct jctx *c, struct jval *v) {                                      \
        UNUSED(c);                                                                                 \
        return is_all(v[0], what);                                                                 \
    }
IS_METHOD(m_isalpha, IS_ALPHA)
IS_METHOD(m_isdecimal, IS_DECIMAL)
IS_METHOD(m_isdigit, IS_DIGIT)
IS_METHOD(m_isnumeric, IS_NUMERIC)
IS_METHOD(m_isalnum, IS_ALNUM)
IS_METHOD(m_isspace, IS_SPACE)
IS_METHOD(m_isprintable, IS_PRINTABLE)
IS_METHOD(m_isascii, IS_ASCII)
IS_METHOD(m_isidentifier, IS_IDENT)

/* Returns whether s has cased characters and all of them are of this case. */
bool jstr_is_case(struct jval s, bool upper) {
    bool any = false;
    for (size_t i = 0; i < s.len;) {
        uint32_t cp = ju_next(s.u.s, s.len, &i);
        if (ju_is_title(cp) || ju_is_case(cp, !upper)) return false;
        any = any || ju_is_case(cp, upper);
    }
    return any;
}
static struct jval m_isupper(struct jctx *c, struct jval *v) {
    UNUSED(c);
    return jv_bool(jstr_is_case(v[0], true));
}
static struct jval m_islower(struct jctx *c, struct jval *v) {
    UNUSED(c);
    return jv_bool(jstr_is_case(v[0], false));
}
static struct jval m_istitle(struct jctx *c, struct jval *v) {
    UNUSED(c);
    bool any = false, in_word = false;
    for (size_t i = 0; i < v[0].len;) {
        uint32_t cp = ju_next(v[0].u.s, v[0].len, &i);
        if (ju_is_case(cp, true) || ju_is_title(cp)) {
            if (in_word) return jv_bool(false);
            any = in_word = true;
        } else if (ju_is_case(cp, false)) {
            if (!in_word) return jv_bool(false);
        } else {
            in_word = false;
        }
    }
    return jv_bool(any);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Implements str.format(...). */
static struct jval m_format(struct jctx *c, struct jargs *a) {
    return jfmt_format(c, a->v[0], a);
}
/* Implements str.format_map(mapping). */
static struct jval m_format_map(struct jctx *c, struct jval *v) {
    if (v[1].tag != JT_DICT) jx_fail(c, "TypeError", "format_map() takes a mapping");
    struct jdict *d = v[1].u.dict;
    struct jkw *kw = jx_alloc(c, (size_t)d->n + 1, sizeof *kw);
    struct jargs a = {.v = v, .n = 1, .kw = kw};
    for (uint32_t i = 0; i < d->n; i++)
        if (d->e[i].k.tag == JT_STR) kw[a.n_kw++] = (struct jkw){d->e[i].k, d->e[i].v};
    return jfmt_format(c, v[0], &a);
}
/* Implements str.encode(): returns the string's UTF-8 bytes without copying them. */
static struct jval m_encode(struct jctx *c, struct jval *v) {
    UNUSED(c);
    struct jval r = v[0];
    r.tag = JT_BYTES;
    r.flag = 0;
    return r;
}

const struct jrow jlib_str_methods[] = {
    {"split", "sep? maxsplit?", m_split, NULL},
    {"strip", "chars?", m_strip, NULL},
    {"lstrip", "chars?", m_lstrip, NULL},
    {"rstrip", "chars?", m_rstrip, NULL},
    {"startswith", "prefix start? end?", m_startswith, NULL},
    {"endswith", "suffix start? end?", m_endswith, NULL},
    {"replace", "old new count?", m_replace, NULL},
    {"join", "iterable", m_join, NULL},
    {"upper", "", m_upper, NULL},
    {"lower", "", m_lower, NULL},
    {"title", "", m_title, NULL},
    {"capitalize", "", m_capitalize, NULL},
    {"swapcase", "", m_swapcase, NULL},
    {"casefold", "", m_casefold, NULL},
    {"find", "sub start? end?", m_find, NULL},
    {"rfind", "sub start? end?", m_rfind, NULL},
    {"index", "sub start? end?", m_index, NULL},
    {"rindex", "sub start? end?", m_rindex, NULL},
    {"count", "sub start? end?", m_count, NULL},
    {"rsplit", "sep? maxsplit?", m_rsplit, NULL},
    {"splitlines", "keepends?", m_splitlines, NULL},
    {"partition", "sep", m_partition, NULL},
    {"rpartition", "sep", m_rpartition, NULL},
    {"removeprefix", "prefix", m_removeprefix, NULL},
    {"removesuffix", "suffix", m_removesuffix, NULL},
    {"ljust", "width fillchar?", m_ljust, NULL},
    {"rjust", "width fillchar?", m_rjust, NULL},
    {"center", "width fillchar?", jstr_center, NULL},
    {"zfill", "width", m_zfill, NULL},
    {"expandtabs", "tabsize?", m_expandtabs, NULL},
    {"format", "*", NULL, m_format},
    {"format_map", "mapping", m_format_map, NULL},
    {"encode", "encoding? errors?", m_encode, NULL},
    {"isalpha", "", m_isalpha, NULL},
    {"isdecimal", "", m_isdecimal, NULL},
    {"isdigit", "", m_isdigit, NULL},
    {"isnumeric", "", m_isnumeric, NULL},
    {"isalnum", "", m_isalnum, NULL},
    {"isspace", "", m_isspace, NULL},
    {"isupper", "", m_isupper, NULL},
    {"islower", "", m_islower, NULL},
    {"istitle", "", m_istitle, NULL},
    {"isprintable", "", m_isprintable, NULL},
    {"isascii", "", m_isascii, NULL},
    {"isidentifier", "", m_isidentifier, NULL},
    {NULL, NULL, NULL, NULL},
};
