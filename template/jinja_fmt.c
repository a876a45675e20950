// SPDX-License-Identifier: MIT
/* template/jinja_fmt.c - formatting of values: '%' on strings, and str.format. */
#include "template/jinja_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One conversion in either of Python's format languages. */
struct spec {
    struct jval fill; /* one code point, or JT_MISSING */
    char align;       /* one of < > ^ =, or 0 */
    char sign;        /* + or space, or 0 */
    bool alt, zero;
    char group;      /* , or _, or 0 */
    int width, prec; /* -1: not given */
    char type;
};

enum { MAX_WIDTH = 1000000 };

/* Prints the fill character (JT_MISSING: a space) n times. */
static void put_fill(struct jctx *c, struct jval fill, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        jx_add(c, fill.tag == JT_STR ? fill.u.s : " ", fill.tag == JT_STR ? fill.len : 1);
}

/* Appends the body with its sign, padded to the width; `otherwise` is the default alignment. */
static void pad(struct jctx *c, const struct spec *s, const char *sign, struct jval body,
                char otherwise) {
    int64_t n = s->width - (int64_t)ju_count(body) - (int64_t)strlen(sign);
    char align = s->align ? s->align : otherwise;
    struct jval fill = s->fill;
    if (s->zero && !s->align) {
        align = '=';
        if (fill.tag != JT_STR) fill = jv_str("0");
    }
    if (n < 0) n = 0;
    int64_t left = align == '>' ? n : align == '^' ? n / 2 : 0;
    put_fill(c, fill, left);
    jx_add(c, sign, strlen(sign));
    if (align == '=') put_fill(c, fill, n);
    jx_add(c, body.u.s, body.len);
    if (align != '=') put_fill(c, fill, n - left);
}

/* Returns a number's digits with `sep` between groups of `every`; sep 0: unchanged. */
static struct jval group_digits(struct jctx *c, struct jval digits, char sep, int every) {
    size_t m = jx_mark(c), whole = 0;
    if (!sep) return digits;
    while (whole < digits.len && digits.u.s[whole] != '.' && digits.u.s[whole] != 'e') whole++;
    for (size_t i = 0; i < whole; i++) {
        if (i && (whole - i) % (size_t)every == 0) jx_add(c, &sep, 1);
        jx_add(c, digits.u.s + i, 1);
    }
    jx_add(c, digits.u.s + whole, digits.len - whole);
    return jx_take(c, m);
}

/* Returns the digits of |v| in a base. */
static struct jval int_in_base(struct jctx *c, struct jval v, int base, bool upper) {
    char text[80];
    size_t n = sizeof text;
    if (v.tag == JT_BIG) return jbig_radix(c, v, base, upper);
    uint64_t u = v.u.i < 0 ? 0 - (uint64_t)v.u.i : (uint64_t)v.u.i;
    do {
        text[--n] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % (unsigned)base];
        u /= (unsigned)base;
    } while (u);
    return jv_copy(c, text + n, sizeof text - n);
}

/* Prints an integer according to a format specification. */
static void put_int(struct jctx *c, const struct spec *s, struct jval v) {
    char sign[8] = "", type = s->type ? s->type : 'd';
    bool neg = v.tag == JT_BIG ? jbig_double(v) < 0 : v.u.i < 0;
    struct jval body;
    if (neg) {
        sign[0] = '-';
    } else if (s->sign) {
        sign[0] = s->sign;
    }
    if (type == 'x' || type == 'X' || type == 'o' || type == 'b') {
        body = int_in_base(c, v, type == 'o' ? 8 : type == 'b' ? 2 : 16, type == 'X');
        if (s->alt) {
            size_t k = strlen(sign);
            sign[k++] = '0';
            sign[k++] = type;
            sign[k] = 0;
        }
        body = group_digits(c, body, s->group, 4);
    } else {
        body = jv_to_str(c, v.tag == JT_BOOL ? jv_int(v.u.i) : v);
        if (neg) {
            body.u.s++;
            body.len--;
        }
        body = group_digits(c, body, s->group, 3);
    }
    /* For integers, the precision (as in %.5d) is the minimum number of digits. */
    if (s->prec > (int)body.len && s->prec < 500) {
        size_t m = jx_mark(c);
        put_fill(c, jv_str("0"), s->prec - (int)body.len);
        jx_add(c, body.u.s, body.len);
        body = jx_take(c, m);
    }
    pad(c, s, sign, body, '>');
}

/* Prints a float according to a format specification; percent_lang: by the rules of the %
 * operator. */
static void put_float(struct jctx *c, const struct spec *s, double f, bool percent_lang) {
    char text[400 + 520], fmt[16], sign[2] = "", type = s->type;
    int prec = s->prec > 500 ? 500 : s->prec;
    if (signbit(f) && !isnan(f)) {
        sign[0] = '-';
        f = -f;
    } else if (s->sign) {
        sign[0] = s->sign;
    }
    if (isnan(f) || isinf(f)) {
        bool up = type == 'F' || type == 'E' || type == 'G';
        snprintf(text, sizeof text, "%s%s", isnan(f) ? (up ? "NAN" : "nan") : (up ? "INF" : "inf"),
                 type == '%' ? "%" : "");
    } else if (!type && prec < 0) {
        char repr[64];
        jv_float_text(f, repr);
        snprintf(text, sizeof text, "%s", repr);
    } else if (type == '%' && !percent_lang) {
        snprintf(text, sizeof text, "%.*f%%", prec < 0 ? 6 : prec, f * 100);
    } else {
        char t = !type || type == 'n' ? 'g' : type;
        if (prec == 0 && t == 'g') prec = 1;
        snprintf(fmt, sizeof fmt, "%%%s.*%c", s->alt ? "#" : "", t);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, fmt, prec < 0 ? 6 : prec, f);
#pragma GCC diagnostic pop
        size_t n = strlen(text);
        if (!type && !strpbrk(text, ".e") && n + 3 <= sizeof text) memcpy(text + n, ".0", 3);
    }
    pad(c, s, sign, group_digits(c, jv_copy(c, text, strlen(text)), s->group, 3), '>');
}

/* Prints a string according to a format specification; align: default alignment. */
static void put_str(struct jctx *c, const struct spec *s, struct jval v, char align) {
    if (s->prec >= 0) v.len = (uint32_t)ju_offset(v, (size_t)s->prec);
    struct spec t = *s;
    t.zero = t.zero && t.fill.tag == JT_STR;
    pad(c, &t, "", v, align);
}

/* Returns Python's ascii(v): the repr with everything beyond ASCII escaped. */
static struct jval ascii_of(struct jctx *c, struct jval v) {
    size_t m = jx_mark(c);
    jv_repr(c, v);
    struct jval r = jx_take(c, m);
    for (size_t i = 0; i < r.len;) {
        size_t from = i;
        char text[16];
        uint32_t cp = ju_next(r.u.s, r.len, &i);
        snprintf(text, sizeof text,
                 cp < 0x100     ? "\\x%02x"
                 : cp < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                 (unsigned)cp);
        jx_as(c, r.u.s + from);
        jx_add(c, cp < 0x80 ? r.u.s + from : text, cp < 0x80 ? 1 : strlen(text));
    }
    jx_as(c, NULL);
    return jx_take(c, m);
}

/* Returns Python's repr() of v as a string. */
static struct jval repr_of(struct jctx *c, struct jval v) {
    size_t m = jx_mark(c);
    jv_repr(c, v);
    return jx_take(c, m);
}

/* ---- '%' ------------------------------------------------------------------------------------- */

struct pct {
    struct jctx *c;
    struct jval fmt, args;
    size_t i;
    uint32_t used;
    bool markup;
};

/* Returns the next argument of a % format. */
static struct jval pct_next(struct pct *p) {
    if (p->args.tag == JT_TUPLE) {
        if (p->used >= p->args.u.list->n)
            jx_fail(p->c, "TypeError", "not enough arguments for format string");
        return p->args.u.list->v[p->used++];
    }
    if (p->used++) jx_fail(p->c, "TypeError", "not enough arguments for format string");
    return p->args;
}

/* Reads a width or precision; "*" takes it from the arguments. */
static int pct_number(struct pct *p) {
    int n = 0;
    if (p->i < p->fmt.len && p->fmt.u.s[p->i] == '*') {
        p->i++;
        int64_t v = jv_index(p->c, pct_next(p), "*");
        if (v < -MAX_WIDTH || v > MAX_WIDTH) jx_fail(p->c, "limit", "a format width is too large");
        return (int)v;
    }
    for (; p->i < p->fmt.len && p->fmt.u.s[p->i] >= '0' && p->fmt.u.s[p->i] <= '9'; p->i++) {
        n = n * 10 + (p->fmt.u.s[p->i] - '0');
        if (n > MAX_WIDTH) jx_fail(p->c, "limit", "a format width is too large");
    }
    return n;
}

/* Prints one argument of the % operator. */
static void pct_put(struct pct *p, struct spec *s, struct jval v) {
    struct jctx *c = p->c;
    char t = s->type;
    if (strchr("diuxXo", t)) {
        if (v.tag == JT_FLOAT && strchr("diu", t)) v = jbig_from_double(c, trunc(v.u.f));
        if (v.tag != JT_INT && v.tag != JT_BOOL && v.tag != JT_BIG)
            jx_fail(c, "TypeError", "%%%c format: a real number is required, not %s", t,
                    jv_type(v));
        if (strchr("diu", t)) s->type = 'd';
        put_int(c, s, v);
    } else if (strchr("eEfFgG", t)) {
        if (!jv_is_num(v)) jx_fail(c, "TypeError", "must be real number, not %s", jv_type(v));
        put_float(c, s, jv_num(c, v), true);
    } else if (t == 'c') {
        if (v.tag == JT_INT || v.tag == JT_BOOL) {
            size_t m = jx_mark(c);
            if (v.u.i < 0 || v.u.i > 0x10ffff)
                jx_fail(c, "OverflowError", "%%c arg not in range(0x110000)");
            ju_put(c, (uint32_t)v.u.i);
            v = jx_take(c, m);
        }
        if (v.tag != JT_STR || ju_count(v) != 1)
            jx_fail(c, "TypeError", "%%c requires int or char");
        put_str(c, s, v, '>');
    } else {
        v = t == 's' ? jv_soft_str(c, v) : t == 'r' ? repr_of(c, v) : ascii_of(c, v);
        if (p->markup) v = ju_escape(c, v);
        put_str(c, s, v, '>');
    }
}

/* Formats the conversion at p->i, after its percent sign. */
static void pct_one(struct pct *p) {
    struct jctx *c = p->c;
    struct spec s = {.fill = jv_missing(), .prec = -1};
    bool named = false;
    struct jval v = jv_missing();
    if (p->i < p->fmt.len && p->fmt.u.s[p->i] == '(') {
        size_t start = ++p->i;
        while (p->i < p->fmt.len && p->fmt.u.s[p->i] != ')') p->i++;
        if (p->i >= p->fmt.len) jx_fail(c, "ValueError", "incomplete format key");
        if (p->args.tag != JT_DICT) jx_fail(c, "TypeError", "format requires a mapping");
        struct jval *found = jdict_find(p->args.u.dict, p->fmt.u.s + start, p->i - start);
        if (found)
            v = *found;
        else
            jx_fail(c, "KeyError", "a format key is missing in the mapping");
        named = true;
        p->used = 1;
        p->i++;
    }
    for (; p->i < p->fmt.len && strchr("-+ 0#", p->fmt.u.s[p->i]); p->i++) {
        char f = p->fmt.u.s[p->i];
        if (f == '-') s.align = '<';
        if (f == '0') s.zero = true;
        if (f == '#') s.alt = true;
        if (f == '+' || (f == ' ' && !s.sign)) s.sign = f;
    }
    s.width = pct_number(p);
    if (s.width < 0) {
        s.align = '<';
        s.width = -s.width;
    }
    if (p->i < p->fmt.len && p->fmt.u.s[p->i] == '.') {
        p->i++;
        s.prec = pct_number(p);
    }
    while (p->i < p->fmt.len && strchr("hlL", p->fmt.u.s[p->i])) p->i++;
    if (p->i >= p->fmt.len) jx_fail(c, "ValueError", "incomplete format");
    s.type = p->fmt.u.s[p->i++];
    if (s.type == '%') {
        jx_add(c, "%", 1);
        return;
    }
    if (!s.type || !strchr("diuxXoeEfFgGcrsa", s.type))
        jx_fail(c, "ValueError", "unsupported format character '%c'", s.type);
    pct_put(p, &s, named ? v : pct_next(p));
}

struct jval jfmt_percent(struct jctx *c, struct jval fmt, struct jval args) {
    struct pct p = {.c = c, .fmt = fmt, .args = args, .markup = fmt.flag & JF_MARKUP};
    size_t m = jx_mark(c);
    while (p.i < fmt.len) {
        const char *pc = memchr(fmt.u.s + p.i, '%', fmt.len - p.i);
        size_t run = pc ? (size_t)(pc - fmt.u.s) - p.i : fmt.len - p.i;
        jx_add(c, fmt.u.s + p.i, run);
        p.i += run;
        if (!pc) break;
        p.i++;
        pct_one(&p);
    }
    bool subscript = args.tag == JT_DICT || args.tag == JT_LIST || args.tag == JT_RANGE ||
                     args.tag == JT_UNDEF || args.tag == JT_BYTES;
    bool left = args.tag == JT_TUPLE ? p.used < args.u.list->n : !p.used && !subscript;
    if (left) jx_fail(c, "TypeError", "not all arguments converted during string formatting");
    struct jval r = jx_take(c, m);
    r.flag = fmt.flag;
    return r;
}

/* ---- str.format ------------------------------------------------------------------------------ */

/* Parses the format specification t; fails if it is invalid. */
static void parse_spec(struct jctx *c, struct jval t, struct spec *s) {
    size_t i = 0, k = 0;
    *s = (struct spec){.fill = jv_missing(), .prec = -1};
    if (t.len) ju_next(t.u.s, t.len, &k);
    if (t.len > k && strchr("<>^=", t.u.s[k])) {
        s->fill = jv_strn(t.u.s, k);
        s->align = t.u.s[k];
        i = k + 1;
    } else if (t.len && strchr("<>^=", t.u.s[0])) {
        s->align = t.u.s[0];
        i = 1;
    }
    if (i < t.len && strchr("+- ", t.u.s[i])) {
        s->sign = t.u.s[i] == '-' ? 0 : t.u.s[i];
        i++;
    }
    if (i < t.len && t.u.s[i] == '#') {
        s->alt = true;
        i++;
    }
    if (i < t.len && t.u.s[i] == '0') {
        s->zero = true;
        i++;
    }
    for (; i < t.len && t.u.s[i] >= '0' && t.u.s[i] <= '9'; i++)
        if ((s->width = s->width * 10 + (t.u.s[i] - '0')) > MAX_WIDTH)
            jx_fail(c, "limit", "a format width is too large");
    if (i < t.len && (t.u.s[i] == ',' || t.u.s[i] == '_')) s->group = t.u.s[i++];
    if (i < t.len && t.u.s[i] == '.') {
        s->prec = 0;
        for (i++; i < t.len && t.u.s[i] >= '0' && t.u.s[i] <= '9'; i++)
            if ((s->prec = s->prec * 10 + (t.u.s[i] - '0')) > MAX_WIDTH)
                jx_fail(c, "limit", "a format precision is too large");
    }
    if (i < t.len) s->type = t.u.s[i++];
    if (i < t.len) jx_fail(c, "ValueError", "Invalid format specifier");
}

/* Prints v as format(v, spec) does in Python. */
static void put_format(struct jctx *c, struct jval v, struct jval spec) {
    struct spec s;
    if (spec.len == 0) {
        jv_print(c, v);
        return;
    }
    parse_spec(c, spec, &s);
    if (v.tag == JT_STR || (v.tag == JT_BOOL && !s.type)) {
        if (s.type && s.type != 's')
            jx_fail(c, "ValueError", "Unknown format code '%c' for object of type 'str'", s.type);
        put_str(c, &s, jv_soft_str(c, v), '<');
    } else if (v.tag == JT_FLOAT || (jv_is_num(v) && s.type && strchr("eEfFgG%", s.type))) {
        if (s.type && !strchr("eEfFgGn%", s.type))
            jx_fail(c, "ValueError", "Unknown format code '%c' for object of type 'float'", s.type);
        put_float(c, &s, jv_num(c, v), false);
    } else if (jv_is_num(v)) {
        if (s.type && !strchr("dxXobnc", s.type))
            jx_fail(c, "ValueError", "Unknown format code '%c' for object of type 'int'", s.type);
        if (s.prec >= 0)
            jx_fail(c, "ValueError", "Precision not allowed in integer format specifier");
        put_int(c, &s, v);
    } else {
        jx_fail(c, "TypeError", "unsupported format string passed to %s.__format__", jv_type(v));
    }
}

struct fmt {
    struct jctx *c;
    struct jargs *a; /* v[0] is the format itself */
    int next;        /* next automatic field number; -1: the format numbers its fields */
    int depth;
};

/* Returns the argument that a replacement field such as "0.a[b]" names. */
static struct jval field_value(struct fmt *f, struct jval name) {
    struct jctx *c = f->c;
    size_t e = 0;
    struct jval v = jv_missing();
    while (e < name.len && name.u.s[e] != '.' && name.u.s[e] != '[') e++;
    bool digits = e > 0;
    int64_t idx = 0;
    for (size_t i = 0; i < e; i++) {
        digits = digits && name.u.s[i] >= '0' && name.u.s[i] <= '9' && idx < 100000;
        idx = digits ? idx * 10 + (name.u.s[i] - '0') : 0;
    }
    if (e == 0 || digits) {
        if (e == 0 ? f->next < 0 : f->next > 0)
            jx_fail(
                c, "ValueError",
                "cannot switch between automatic field numbering and manual field specification");
        if (e == 0) {
            idx = f->next++;
        } else {
            f->next = -1;
        }
        if (idx + 1 >= f->a->n)
            jx_fail(c, "IndexError", "Replacement index %d out of range for positional args tuple",
                    (int)idx);
        v = f->a->v[idx + 1];
    } else {
        jx_loop(c, (size_t)f->a->n_kw);
        for (int i = 0; i < f->a->n_kw; i++)
            if (jv_eqs(f->a->kw[i].name, jv_strn(name.u.s, e))) v = f->a->kw[i].v;
        if (v.tag == JT_MISSING) jx_fail(c, "KeyError", "a format field has no argument");
    }
    while (e < name.len) {
        size_t from = ++e;
        if (name.u.s[from - 1] == '.') {
            while (e < name.len && name.u.s[e] != '.' && name.u.s[e] != '[') e++;
            v = jop_attr(c, v, jv_strn(name.u.s + from, e - from), NULL);
            continue;
        }
        while (e < name.len && name.u.s[e] != ']') e++;
        if (e >= name.len) jx_fail(c, "ValueError", "Missing ']' in format string");
        struct jval key = jv_strn(name.u.s + from, e - from);
        bool num = key.len > 0 && key.len < 10;
        int64_t i = 0;
        for (size_t k = 0; k < key.len; k++) {
            num = num && key.u.s[k] >= '0' && key.u.s[k] <= '9';
            i = num ? i * 10 + (key.u.s[k] - '0') : 0;
        }
        v = jop_item(c, v, num ? jv_int(i) : key);
        e++;
    }
    return v;
}

static void format_into(struct fmt *f, struct jval t);

/* Returns the offset of the '}' that closes a field whose content begins at i. */
static size_t field_end(struct fmt *f, struct jval t, size_t i) {
    for (int depth = 1; i < t.len; i++) {
        depth += t.u.s[i] == '{' ? 1 : t.u.s[i] == '}' ? -1 : 0;
        if (!depth) return i;
    }
    jx_fail(f->c, "ValueError", "expected '}' before end of string");
}

/* Prints a replacement field; t: its content, without braces. */
static void format_field(struct fmt *f, struct jval t) {
    struct jctx *c = f->c;
    size_t e = 0;
    while (e < t.len && t.u.s[e] != ':' && t.u.s[e] != '!') {
        if (t.u.s[e] == '[')
            while (e < t.len && t.u.s[e] != ']') e++;
        if (e < t.len) e++;
    }
    struct jval v = field_value(f, jv_strn(t.u.s, e)), spec = jv_str("");
    if (e + 1 < t.len && t.u.s[e] == '!') {
        char conv = t.u.s[e + 1];
        if (!strchr("rsa", conv)) jx_fail(c, "ValueError", "Unknown conversion specifier");
        v = conv == 'r' ? repr_of(c, v) : conv == 's' ? jv_to_str(c, v) : ascii_of(c, v);
        e += 2;
    }
    if (e < t.len && t.u.s[e] == ':') {
        size_t m = jx_mark(c);
        if (f->depth >= 2) jx_fail(c, "ValueError", "Max string recursion exceeded");
        f->depth++;
        format_into(f, jv_strn(t.u.s + e + 1, t.len - e - 1));
        f->depth--;
        spec = jx_take(c, m);
    } else if (e < t.len) {
        jx_fail(c, "ValueError", "expected ':' after conversion specifier");
    }
    if (f->a->v[0].flag & JF_MARKUP) v = ju_escape(c, v);
    put_format(c, v, spec);
}

/* Prints the format string t with its fields replaced. */
static void format_into(struct fmt *f, struct jval t) {
    for (size_t i = 0; i < t.len; i++) {
        char ch = t.u.s[i];
        if ((ch == '{' || ch == '}') && i + 1 < t.len && t.u.s[i + 1] == ch) {
            jx_add(f->c, t.u.s + i, 1);
            i++;
        } else if (ch == '{') {
            size_t e = field_end(f, t, i + 1);
            format_field(f, jv_strn(t.u.s + i + 1, e - i - 1));
            i = e;
        } else if (ch == '}') {
            jx_fail(f->c, "ValueError", "Single '}' encountered in format string");
        } else {
            jx_add(f->c, t.u.s + i, 1);
        }
    }
}

struct jval jfmt_format(struct jctx *c, struct jval fmt, struct jargs *a) {
    struct fmt f = {.c = c, .a = a};
    size_t m = jx_mark(c);
    a->v[0] = fmt;
    format_into(&f, fmt);
    struct jval r = jx_take(c, m);
    r.flag = fmt.flag;
    return r;
}
