// SPDX-License-Identifier: MIT
/* template/jinja_filter.c - filters that return text or numbers. v[0] is the filtered value.
 * Filters on sequences are in jinja_seq.c. */
#include "template/jinja_lib.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether an optional argument was passed. */
static bool is_given(struct jval v) {
    return v.tag != JT_MISSING;
}
/* Returns an optional argument as a truth value, or `otherwise` if it was not passed. */
static bool flag_or(struct jctx *c, struct jval v, bool otherwise) {
    return is_given(v) ? jv_truth(c, v) : otherwise;
}

static struct jval f_upper(struct jctx *c, struct jval *v) {
    return ju_case(c, jv_soft_str(c, v[0]), JU_UPPER);
}
static struct jval f_lower(struct jctx *c, struct jval *v) {
    return ju_case(c, jv_soft_str(c, v[0]), JU_LOWER);
}
static struct jval f_capitalize(struct jctx *c, struct jval *v) {
    return ju_case(c, jv_soft_str(c, v[0]), JU_CAPITAL);
}

/* Capitalizes words. Words begin after white space and after any of - ( { [ < but, unlike in
 * str.title, not after an apostrophe. */
static struct jval f_title(struct jctx *c, struct jval *v) {
    struct jval s = jv_soft_str(c, v[0]);
    size_t m = jx_mark(c);
    bool first = true;
    for (size_t i = 0; i < s.len;) {
        size_t from = i;
        uint32_t cp = ju_next(s.u.s, s.len, &i);
        bool sep = ju_is_space(cp) || cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<';
        struct jval ch = ju_case(c, jv_strn(s.u.s + from, i - from), first ? JU_UPPER : JU_LOWER);
        jx_add(c, ch.u.s, ch.len);
        first = sep;
    }
    struct jval r = jx_take(c, m);
    r.flag = s.flag;
    return r;
}

/* Implements the filter trim(chars=None). */
static struct jval f_trim(struct jctx *c, struct jval *v) {
    struct jval chars = v[1].tag == JT_NONE ? jv_missing() : v[1];
    if (is_given(chars) && chars.tag != JT_STR)
        jx_fail(c, "TypeError", "strip arg must be None or str");
    return ju_strip(c, jv_soft_str(c, v[0]), chars, 3);
}
static struct jval f_string(struct jctx *c, struct jval *v) {
    return jv_soft_str(c, v[0]);
}
/* Implements the filter safe, whose result is not escaped again. */
static struct jval f_safe(struct jctx *c, struct jval *v) {
    struct jval s = jv_to_str(c, v[0]);
    s.flag = JF_MARKUP;
    return s;
}
static struct jval f_escape(struct jctx *c, struct jval *v) {
    return ju_escape(c, v[0]);
}
/* Implements the filter forceescape, which escapes safe strings again. */
static struct jval f_forceescape(struct jctx *c, struct jval *v) {
    return ju_escape(c, jv_to_str(c, v[0]));
}
/* Implements the filter center(width=80). */
static struct jval f_center(struct jctx *c, struct jval *v) {
    struct jval w[3] = {jv_soft_str(c, v[0]), is_given(v[1]) ? v[1] : jv_int(80), jv_missing()};
    return jstr_center(c, w);
}
/* Implements the filter default(default_value="", boolean=false). */
static struct jval f_default(struct jctx *c, struct jval *v) {
    if (v[0].tag == JT_UNDEF || (flag_or(c, v[2], false) && !jv_truth(c, v[0])))
        return is_given(v[1]) ? v[1] : jv_str("");
    return v[0];
}
/* Implements the filter tojson(ensure_ascii, indent, separators, sort_keys) of transformers. */
static struct jval f_tojson(struct jctx *c, struct jval *v) {
    size_t m = jx_mark(c);
    jfmt_json(c, v[0], flag_or(c, v[1], false), v[2], v[3], flag_or(c, v[4], false));
    return jx_take(c, m);
}
/* Implements the filter from_json: parses a string. */
static struct jval f_from_json(struct jctx *c, struct jval *v) {
    if (v[0].tag != JT_STR) jx_fail(c, "TypeError", "from_json takes a string");
    return jjson_parse(c, v[0].u.s, v[0].len, "from_json");
}
/* Implements the filter format, which works like printf with the call's arguments. */
static struct jval f_format(struct jctx *c, struct jargs *a) {
    if (a->n > 1 && a->n_kw)
        jx_fail(c, "runtime", "can't handle positional and keyword arguments at the same time");
    struct jval args = jv_tuple(c, a->v + 1, (uint32_t)a->n - 1);
    if (a->n_kw) {
        args = jv_dict(c, 0);
        for (int i = 0; i < a->n_kw; i++) jdict_set(c, args.u.dict, a->kw[i].name, a->kw[i].v);
    }
    return jfmt_percent(c, jv_soft_str(c, a->v[0]), args);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Parses a number as Python's int(text, base) does; false: not a number. */
static bool parse_int(struct jctx *c, struct jval s, int base, struct jval *out) {
    char t[4400];
    size_t n = 0, i = 0;
    bool neg = false;
    s = ju_strip(c, s, jv_missing(), 3);
    if (s.len && (s.u.s[0] == '-' || s.u.s[0] == '+')) neg = s.u.s[i++] == '-';
    if (i + 1 < s.len && s.u.s[i] == '0') {
        char k = (char)(s.u.s[i + 1] | 32);
        int b = k == 'x' ? 16 : k == 'o' ? 8 : k == 'b' ? 2 : 0;
        if (b && (base == b || base == 0)) {
            base = b;
            i += 2;
            if (i < s.len && s.u.s[i] == '_') i++;
        }
    }
    if (base == 0) base = 10;
    if (i >= s.len) return false;
    for (bool digit = false; i < s.len; i++) {
        char ch = s.u.s[i], low = (char)(ch | 32);
        int d = ch >= '0' && ch <= '9' ? ch - '0' : low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
        if (ch == '_' && digit && i + 1 < s.len) {
            digit = false;
            continue;
        }
        if (d >= base || n >= sizeof t - 1) return false;
        digit = true;
        t[n++] = ch;
    }
    if (base > 16) { /* bases with digits beyond f */
        int64_t x = 0;
        for (size_t k = 0; k < n; k++) {
            int d = t[k] <= '9' ? t[k] - '0' : (t[k] | 32) - 'a' + 10;
            if (__builtin_mul_overflow(x, base, &x) || __builtin_add_overflow(x, d, &x))
                return false;
        }
        *out = jv_int(neg ? -x : x);
        return true;
    }
    *out = jbig_parse(c, t, n, base, neg);
    return true;
}

/* Parses a number as Python's float(text) does; false: not a number. */
static bool parse_float(struct jctx *c, struct jval s, double *out) {
    char t[512];
    size_t n = 0;
    s = ju_strip(c, s, jv_missing(), 3);
    if (!s.len || s.len >= sizeof t) return false;
    for (size_t i = 0; i < s.len; i++) {
        char ch = s.u.s[i];
        bool in_digits = i && i + 1 < s.len && s.u.s[i - 1] >= '0' && s.u.s[i - 1] <= '9' &&
                         s.u.s[i + 1] >= '0' && s.u.s[i + 1] <= '9';
        if (ch == '_' && in_digits) continue;
        if (!ch || !strchr("0123456789+-.eEinfatyINFATY", ch)) return false;
        t[n++] = ch;
    }
    t[n] = 0;
    char *end;
    *out = strtod(t, &end);
    return *end == 0 && !strchr(t, '(');
}

/* Implements the filter int(default=0, base=10). */
static struct jval f_int(struct jctx *c, struct jval *v) {
    struct jval r, otherwise = is_given(v[1]) ? v[1] : jv_int(0);
    double f;
    if (v[0].tag == JT_UNDEF) jx_undef_fail(c, v[0]);
    if (v[0].tag == JT_FLOAT) {
        if (isinf(v[0].u.f)) return otherwise;
        if (isnan(v[0].u.f)) return otherwise;
        return jbig_from_double(c, trunc(v[0].u.f));
    }
    if (v[0].tag == JT_BOOL) return jv_int(v[0].u.i);
    if (v[0].tag == JT_INT || v[0].tag == JT_BIG) return v[0];
    if (v[0].tag != JT_STR) return otherwise;
    int64_t base = is_given(v[2]) ? jv_index(c, v[2], "base") : 10;
    if (base >= 0 && base <= 36 && base != 1 && parse_int(c, v[0], (int)base, &r)) return r;
    if (!parse_float(c, v[0], &f) || isinf(f) || isnan(f)) return otherwise;
    return jbig_from_double(c, trunc(f));
}
/* Implements the filter float(default=0.0). */
static struct jval f_float(struct jctx *c, struct jval *v) {
    double f;
    if (v[0].tag == JT_UNDEF) jx_undef_fail(c, v[0]);
    if (jv_is_num(v[0])) return jv_float(jv_num(c, v[0]));
    if (v[0].tag == JT_STR && parse_float(c, v[0], &f)) return jv_float(f);
    return is_given(v[1]) ? v[1] : jv_float(0);
}
static struct jval f_abs(struct jctx *c, struct jval *v) {
    if (v[0].tag == JT_FLOAT) return jv_float(fabs(v[0].u.f));
    if (v[0].tag != JT_UNDEF && !jv_is_num(v[0]))
        jx_fail(c, "TypeError", "bad operand type for abs(): '%s'", jv_type(v[0]));
    bool neg = v[0].tag == JT_BIG ? jbig_double(v[0]) < 0 : v[0].u.i < 0;
    return jop_neg(c, v[0], v[0].tag != JT_UNDEF && neg);
}

/* Rounds to a decimal place as Python does: half to even, on the exact binary value. */
static struct jval round_float(struct jctx *c, double f, int64_t places) {
    char text[700];
    if (isnan(f) || isinf(f)) return jv_float(f);
    if (places > 300) return jv_float(f);
    if (places >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)places, f);
        return jv_float(strtod(text, NULL));
    }
    if (places < -310) return jv_float(copysign(0.0, f));
    double p = pow(10, (double)-places), q = f / p, r = rint(q);
    UNUSED(c);
    return jv_float(r * p);
}
/* Rounds an integer to a multiple of 10^-places, ties to even; unchanged if places >= 0. */
static struct jval round_int(struct jctx *c, struct jval v, int64_t places) {
    if (v.tag == JT_BOOL) v = jv_int(v.u.i);
    if (places >= 0) return v;
    if (places < -1000) return jv_int(0);
    struct jval p = jop_bin(c, JO_POW, jv_int(10), jv_int(-places));
    struct jval q = jop_bin(c, JO_FLOORDIV, v, p), r = jop_bin(c, JO_MOD, v, p);
    int half = jv_order(c, jop_bin(c, JO_MUL, r, jv_int(2)), p, "<");
    bool odd = jv_equal(c, jop_bin(c, JO_MOD, q, jv_int(2)), jv_int(1));
    if (half > 0 || (half == 0 && odd)) q = jop_bin(c, JO_ADD, q, jv_int(1));
    return jop_bin(c, JO_MUL, q, p);
}
/* Implements the filter round(precision=0, method="common"). */
static struct jval f_round(struct jctx *c, struct jval *v) {
    int64_t places = is_given(v[1]) ? jv_index(c, v[1], "precision") : 0;
    struct jval method = is_given(v[2]) ? v[2] : jv_str("common");
    bool ceil_it = jv_is(method, "ceil"), floor_it = jv_is(method, "floor");
    if (!ceil_it && !floor_it && !jv_is(method, "common"))
        jx_fail(c, "runtime", "method must be common, ceil or floor");
    if (v[0].tag == JT_UNDEF) jx_undef_fail(c, v[0]);
    if (!jv_is_num(v[0]))
        jx_fail(c, "TypeError", "type %s doesn't define __round__ method", jv_type(v[0]));
    if (!ceil_it && !floor_it)
        return v[0].tag == JT_FLOAT ? round_float(c, v[0].u.f, places) : round_int(c, v[0], places);
    struct jval p = jop_bin(c, JO_POW, jv_int(10), jv_int(places)), x = jop_bin(c, JO_MUL, v[0], p);
    if (x.tag == JT_FLOAT) {
        if (isinf(x.u.f)) jx_fail(c, "OverflowError", "cannot convert float infinity to integer");
        if (isnan(x.u.f)) jx_fail(c, "ValueError", "cannot convert float NaN to integer");
        x = jbig_from_double(c, ceil_it ? ceil(x.u.f) : floor(x.u.f));
    }
    return jop_bin(c, JO_DIV, x, p);
}
/* Implements the filter filesizeformat(binary=false). */
static struct jval f_filesizeformat(struct jctx *c, struct jval *v) {
    static const char *const dec[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const bin[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool binary = flag_or(c, v[1], false);
    struct jval w[2] = {v[0], jv_missing()};
    double base = binary ? 1024 : 1000, bytes = 0;
    char text[400];
    if (v[0].tag == JT_STR && !parse_float(c, v[0], &bytes))
        jx_fail(c, "ValueError", "could not convert string to float");
    if (v[0].tag != JT_STR && v[0].tag != JT_UNDEF && !jv_is_num(v[0]))
        jx_fail(c, "TypeError", "float() argument must be a string or a real number");
    if (v[0].tag != JT_STR) bytes = f_float(c, w).u.f;
    if (bytes == 1) return jv_str("1 Byte");
    if (bytes < base) {
        snprintf(text, sizeof text, "%lld Bytes", (long long)bytes);
        return jv_copy(c, text, strlen(text));
    }
    double unit = base;
    size_t i = 0;
    for (;; i++) {
        unit *= base;
        if (bytes < unit || i == 7) break;
    }
    snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, (binary ? bin : dec)[i]);
    return jv_copy(c, text, strlen(text));
}

/* ---- longer texts ---------------------------------------------------------------------------- */

/* Returns the lines of s as str.splitlines() does. */
static struct jlist *lines_of(struct jctx *c, struct jval s) {
    struct jargs a = {.v = &s, .n = 1};
    return jeval_row(c, jlib_method(JT_STR, jv_str("splitlines")), "method", &a).u.list;
}

/* Implements the filter indent(width=4, first=false, blank=false). */
static struct jval f_indent(struct jctx *c, struct jval *v) {
    struct jval s = v[0], pad = v[1];
    bool first = flag_or(c, v[2], false), blank = flag_or(c, v[3], false);
    if (s.tag != JT_STR)
        jx_fail(c, "TypeError", "unsupported operand type(s) for +=: '%s' and 'str'", jv_type(s));
    if (pad.tag != JT_STR) pad = jop_bin(c, JO_MUL, jv_str(" "), is_given(pad) ? pad : jv_int(4));
    struct jlist *l = lines_of(c, jop_bin(c, JO_ADD, s, jv_str("\n")));
    size_t m = jx_mark(c);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) jx_add(c, "\n", 1);
        if (i == 0 ? first : blank || l->v[i].len) jx_add(c, pad.u.s, pad.len);
        jx_add(c, l->v[i].u.s, l->v[i].len);
    }
    struct jval r = jx_take(c, m);
    r.flag = s.flag;
    return r;
}

/* Implements the filter truncate(length=255, killwords=false, end="...", leeway). */
static struct jval f_truncate(struct jctx *c, struct jval *v) {
    struct jval s = v[0], end = is_given(v[3]) ? jv_soft_str(c, v[3]) : jv_str("...");
    int64_t length = is_given(v[1]) ? jv_index(c, v[1], "length") : 255;
    int64_t leeway = is_given(v[4]) && v[4].tag != JT_NONE ? jv_index(c, v[4], "leeway") : 5,
            n_end = (int64_t)ju_count(end);
    if (length < n_end || leeway < 0)
        jx_fail(c, "AssertionError", "expected length >= %lld", (long long)n_end);
    if (jv_length(c, s) < 0)
        jx_fail(c, "TypeError", "object of type '%s' has no len()", jv_type(s));
    if (jv_length(c, s) <= length + leeway) return s;
    if (s.tag != JT_STR) jx_fail(c, "TypeError", "only texts can be truncated, not %s", jv_type(s));
    struct jval r = s;
    r.len = (uint32_t)ju_offset(s, (size_t)(length - n_end));
    if (!flag_or(c, v[2], false)) {
        uint32_t sp = r.len; /* memrchr is not portable. */
        while (sp > 0 && r.u.s[sp - 1] != ' ') sp--;
        if (sp > 0) r.len = sp - 1;
    }
    return jop_bin(c, JO_ADD, r, end);
}

static struct jval f_wordcount(struct jctx *c, struct jval *v) {
    struct jval s = jv_soft_str(c, v[0]);
    int64_t n = 0;
    bool in = false;
    const struct jrow *alnum = jlib_method(JT_STR, jv_str("isalnum"));
    for (size_t i = 0; i < s.len;) {
        size_t from = i;
        uint32_t cp = ju_next(s.u.s, s.len, &i);
        struct jval ch = jv_strn(s.u.s + from, i - from);
        bool word = cp == '_' || alnum->fn(c, &ch).u.i;
        n += word && !in;
        in = word;
    }
    return jv_int(n);
}

/* Wraps one line to a width; spaces between words are kept, except around a break. */
static void wrap_line(struct jctx *c, struct jval s, int64_t width, bool long_words, bool hyphens,
                      struct jlist *out) {
    size_t i = 0, line = 0, end = 0; /* current line: s[line, end) */
    int64_t n = 0;
    while (i < s.len) {
        size_t from = i;
        bool space = ju_is_space((unsigned char)s.u.s[i]);
        while (i < s.len && ju_is_space((unsigned char)s.u.s[i]) == space) {
            i++;
            if (hyphens && !space && s.u.s[i - 1] == '-' && i - from > 1 && i < s.len &&
                s.u.s[i] != '-')
                break;
        }
        int64_t k = (int64_t)ju_count(jv_strn(s.u.s + from, i - from));
        if (space && end == line && out->n) { /* start of a line other than the first */
            line = end = i;
            continue;
        }
        while (n + k > width && (end > line || (k > width && long_words))) {
            if (k > width && long_words && n < width &&
                !space) { /* Fill up the line with part of the word. */
                size_t cut = from + ju_offset(jv_strn(s.u.s + from, i - from), (size_t)(width - n));
                jlist_add(c, out, jv_strn(s.u.s + line, cut - line));
                k -= width - n;
                from = cut;
            } else {
                /* In this case, the space before the word is kept. */
                bool full = k > width && long_words && n == width;
                struct jval t = jv_strn(s.u.s + line, end - line);
                if (!full) t = ju_strip(c, t, jv_missing(), 2);
                if (t.len) jlist_add(c, out, t);
            }
            n = 0;
            line = end = from;
            if (space) break;
        }
        if (space && end == line && out->n) {
            line = end = i;
            continue;
        }
        end = i;
        n += k;
    }
    struct jval t = ju_strip(c, jv_strn(s.u.s + line, end - line), jv_missing(), 2);
    if (t.len) jlist_add(c, out, t);
}

/* Implements the filter wordwrap(width=79, break_long_words, wrapstring, break_on_hyphens). */
static struct jval f_wordwrap(struct jctx *c, struct jval *v) {
    struct jval sep = is_given(v[3]) && v[3].tag == JT_STR ? v[3] : jv_str("\n");
    int64_t width = is_given(v[1]) ? jv_index(c, v[1], "width") : 79;
    if (v[0].tag != JT_STR)
        jx_fail(c, "AttributeError", "'%s' object has no attribute 'splitlines'", jv_type(v[0]));
    if (width <= 0) jx_fail(c, "ValueError", "invalid width %lld (must be > 0)", (long long)width);
    struct jlist *l = lines_of(c, v[0]), all = {0};
    for (uint32_t i = 0; i < l->n; i++) {
        struct jlist one = {0};
        wrap_line(c, l->v[i], width, flag_or(c, v[2], true), flag_or(c, v[4], true), &one);
        for (uint32_t k = 0; k < one.n; k++) jlist_add(c, &all, one.v[k]);
        if (!one.n) jlist_add(c, &all, jv_str(""));
    }
    size_t m = jx_mark(c);
    for (uint32_t i = 0; i < all.n; i++) {
        if (i) jx_add(c, sep.u.s, sep.len);
        jx_add(c, all.v[i].u.s, all.v[i].len);
    }
    return jx_take(c, m);
}

/* Prints s with its HTML entities decoded. */
static void unescape_into(struct jctx *c, struct jval s) {
    static const struct {
        const char *name;
        uint32_t cp;
    } ents[] = {{"amp;", '&'},  {"lt;", '<'},    {"gt;", '>'},
                {"quot;", '"'}, {"apos;", '\''}, {"nbsp;", 0xa0}};
    for (size_t i = 0; i < s.len; i++) {
        size_t k = 0;
        jx_as(c, s.u.s + i);
        if (s.u.s[i] == '&') {
            for (k = 0; k < COUNT_OF(ents); k++) {
                size_t n = strlen(ents[k].name);
                if (i + n < s.len && memcmp(s.u.s + i + 1, ents[k].name, n) == 0) {
                    ju_put(c, ents[k].cp);
                    i += n;
                    break;
                }
            }
            if (k < COUNT_OF(ents)) continue;
            if (i + 3 < s.len && s.u.s[i + 1] == '#') {
                bool hex = (s.u.s[i + 2] | 32) == 'x';
                char num[12] = "", *e;
                size_t n = s.len - i - 2 < 11 ? s.len - i - 2 : 11;
                memcpy(num, s.u.s + i + 2, n);
                unsigned long cp = strtoul(num + hex, &e, hex ? 16 : 10);
                if (*e == ';' && cp && cp < 0x110000) {
                    ju_put(c, (uint32_t)cp);
                    i += 2 + (size_t)(e - num);
                    continue;
                }
            }
        }
        jx_add(c, s.u.s + i, 1);
    }
    jx_as(c, NULL);
}

static struct jval f_striptags(struct jctx *c, struct jval *v) {
    struct jval s = jv_to_str(c, v[0]);
    size_t m = jx_mark(c);
    bool none[2] = {false}; /* no further closing mark of a tag, of a comment */
    for (size_t i = 0; i < s.len; i++) {
        if (s.u.s[i] == '<') {
            bool comment = s.len - i >= 4 && memcmp(s.u.s + i, "<!--", 4) == 0;
            int64_t e = none[comment] ? -1 : ju_find(s, jv_str(comment ? "-->" : ">"), i);
            none[comment] = e < 0;
            if (e >= 0) {
                i = (size_t)e + (comment ? 2 : 0);
                continue;
            }
        }
        jx_add(c, s.u.s + i, 1);
    }
    struct jval w[3] = {jx_take(c, m), jv_missing(), jv_missing()};
    struct jlist *l = jlib_method(JT_STR, jv_str("split"))->fn(c, w).u.list;
    m = jx_mark(c);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) jx_add(c, " ", 1);
        unescape_into(c, l->v[i]);
    }
    return jx_take(c, m);
}

/* Prints v percent-encoded; query: a space becomes '+'. */
static void url_quote(struct jctx *c, struct jval v, bool query) {
    struct jval s = v.tag == JT_BYTES ? v : jv_to_str(c, v);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char ch = (unsigned char)s.u.s[i];
        char text[4];
        bool plain = (ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') ||
                     (ch && strchr("_.-~", ch)) || (ch == '/' && !query);
        snprintf(text, sizeof text, plain ? "%c" : ch == ' ' && query ? "+" : "%%%02X", ch);
        jx_as(c, s.u.s + i);
        jx_add(c, text, strlen(text));
    }
    jx_as(c, NULL);
}
/* Implements the filter urlencode for a string, a dict or a list of pairs. */
static struct jval f_urlencode(struct jctx *c, struct jval *v) {
    bool seq = v[0].tag != JT_STR && v[0].tag != JT_UNDEF &&
               (jv_length(c, v[0]) >= 0 || v[0].tag == JT_GEN) && v[0].tag != JT_BYTES;
    struct jlist *pairs = NULL;
    if (seq) {
        struct jval d = v[0];
        pairs = d.tag == JT_DICT ? jv_to_list(c, jlib_method(JT_DICT, jv_str("items"))->fn(c, &d))
                                 : jv_to_list(c, d);
    }
    size_t m = jx_mark(c);
    if (!seq) url_quote(c, v[0], false);
    for (uint32_t i = 0; pairs && i < pairs->n; i++) {
        if (i) jx_add(c, "&", 1);
        if ((pairs->v[i].tag != JT_TUPLE && pairs->v[i].tag != JT_LIST) ||
            pairs->v[i].u.list->n != 2)
            jx_fail(c, "ValueError", "urlencode takes pairs");
        url_quote(c, pairs->v[i].u.list->v[0], true);
        jx_add(c, "=", 1);
        url_quote(c, pairs->v[i].u.list->v[1], true);
    }
    return jx_take(c, m);
}
/* Implements the filter xmlattr(autospace=true). */
static struct jval f_xmlattr(struct jctx *c, struct jval *v) {
    if (v[0].tag == JT_UNDEF) jx_undef_fail(c, v[0]);
    if (v[0].tag != JT_DICT)
        jx_fail(c, "AttributeError", "'%s' object has no attribute 'items'", jv_type(v[0]));
    const struct jdict *d = v[0].u.dict;
    size_t m = jx_mark(c);
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->e[i].v.tag == JT_NONE || d->e[i].v.tag == JT_UNDEF) continue;
        struct jval k = jv_to_str(c, d->e[i].k);
        for (size_t j = 0; j < k.len; j++)
            if (strchr(" \t\n\f\r/>=", k.u.s[j]))
                jx_fail(c, "ValueError", "Invalid character in attribute name");
        k = ju_escape(c, k);
        struct jval x = ju_escape(c, d->e[i].v);
        if (c->out.len > m || flag_or(c, v[1], true)) jx_add(c, " ", 1);
        jx_add(c, k.u.s, k.len);
        jx_add(c, "=\"", 2);
        jx_add(c, x.u.s, x.len);
        jx_add(c, "\"", 1);
    }
    return jx_take(c, m);
}
/* Returns the repr with dict keys sorted, not broken into lines. */
static struct jval sorted_keys(struct jctx *c, struct jval v) {
    struct jval r = v;
    jx_deeper(c);
    if (v.tag == JT_LIST || v.tag == JT_TUPLE) {
        r = jv_list(c, v.u.list->n);
        r.tag = v.tag;
        for (uint32_t i = 0; i < v.u.list->n; i++)
            jlist_add(c, r.u.list, sorted_keys(c, v.u.list->v[i]));
    } else if (v.tag == JT_DICT) {
        struct jval w[4] = {v, jv_bool(true), jv_missing(), jv_missing()};
        struct jlist *l = jlib_filter(jv_str("dictsort"))->fn(c, w).u.list;
        r = jv_dict(c, l->n);
        for (uint32_t i = 0; i < l->n; i++)
            jdict_set(c, r.u.dict, l->v[i].u.list->v[0], sorted_keys(c, l->v[i].u.list->v[1]));
    }
    c->nest--;
    return r;
}
/* Implements the filter pprint: the repr on one line with sorted keys. */
static struct jval f_pprint(struct jctx *c, struct jval *v) {
    size_t m = jx_mark(c);
    jv_repr(c, sorted_keys(c, v[0]));
    return jx_take(c, m);
}
/* Implements the filter urlize, but only escapes the text and creates no links. */
static struct jval f_urlize(struct jctx *c, struct jval *v) {
    return ju_escape(c, v[0]);
}

const struct jrow jlib_filters_text[] = {
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", f_tojson, NULL},
    {"trim", "chars?", f_trim, NULL},
    {"string", "", f_string, NULL},
    {"default", "default_value? boolean?", f_default, NULL},
    {"d", "default_value? boolean?", f_default, NULL},
    {"safe", "", f_safe, NULL},
    {"upper", "", f_upper, NULL},
    {"lower", "", f_lower, NULL},
    {"capitalize", "", f_capitalize, NULL},
    {"title", "", f_title, NULL},
    {"replace", "old new count?", jstr_replace, NULL},
    {"indent", "width? first? blank?", f_indent, NULL},
    {"int", "default? base?", f_int, NULL},
    {"float", "default?", f_float, NULL},
    {"abs", "", f_abs, NULL},
    {"round", "precision? method?", f_round, NULL},
    {"format", "*", NULL, f_format},
    {"escape", "", f_escape, NULL},
    {"e", "", f_escape, NULL},
    {"forceescape", "", f_forceescape, NULL},
    {"center", "width?", f_center, NULL},
    {"truncate", "length? killwords? end? leeway?", f_truncate, NULL},
    {"wordcount", "", f_wordcount, NULL},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", f_wordwrap, NULL},
    {"striptags", "", f_striptags, NULL},
    {"urlencode", "", f_urlencode, NULL},
    {"urlize", "trim_url_limit? nofollow? target? rel? extra_schemes?", f_urlize, NULL},
    {"xmlattr", "autospace?", f_xmlattr, NULL},
    {"filesizeformat", "binary?", f_filesizeformat, NULL},
    {"pprint", "", f_pprint, NULL},
    {"from_json", "!", f_from_json, NULL},
    {"fromjson", "!", f_from_json, NULL},
    {NULL, NULL, NULL, NULL},
};
