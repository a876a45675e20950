// SPDX-License-Identifier: MIT
/* template/jinja_print.c - str() and repr() of values in Python's style, appended to the output. */
#include "template/jinja_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_text(struct jctx *c, const char *s) {
    jx_add(c, s, strlen(s));
}

/* Writes the shortest decimal that reads back as f, in exponent form for exponents below -4 or
 * above 15. */
void jv_float_text(double f, char out[64]) {
    if (isnan(f) || isinf(f)) {
        snprintf(out, 64, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    for (int prec = 14; prec <= 16; prec++) { /* digits after the first one */
        snprintf(text, sizeof text, "%.*e", prec, f);
        if (strtod(text, NULL) == f) break;
    }
    char *e = strchr(text, 'e');
    int exp = (int)strtol(e + 1, NULL, 10);
    *e = 0;
    char digits[24];
    size_t n = 0;
    for (const char *p = text; *p; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    const char *sign = text[0] == '-' ? "-" : "";
    if (exp < -4 || exp >= 16) {
        snprintf(out, 64, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                 exp < 0 ? '-' : '+', abs(exp));
    } else if (exp < 0) {
        snprintf(out, 64, "%s0.%.*s%s", sign, -exp - 1, "0000", digits);
    } else if ((size_t)exp + 1 >= n) {
        snprintf(out, 64, "%s%s%.*s.0", sign, digits, exp + 1 - (int)n, "0000000000000000");
    } else {
        snprintf(out, 64, "%s%.*s.%s", sign, exp + 1, digits, digits + exp + 1);
    }
}

/* Prints a string with quotation marks and escapes, as repr() does in Python. */
static void repr_str(struct jctx *c, struct jval v) {
    bool single = memchr(v.u.s, '\'', v.len) != NULL, dbl = memchr(v.u.s, '"', v.len) != NULL;
    char q = single && !dbl ? '"' : '\'';
    jx_add(c, &q, 1);
    for (size_t i = 0; i < v.len;) {
        size_t from = i;
        uint32_t cp = ju_next(v.u.s, v.len, &i);
        char text[16];
        jx_as(c, v.u.s + from);
        if (cp == (unsigned char)q || cp == '\\') {
            snprintf(text, sizeof text, "\\%c", (char)cp);
        } else if (cp == '\n' || cp == '\r' || cp == '\t') {
            snprintf(text, sizeof text, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        } else if (ju_printable(cp)) {
            jx_add(c, v.u.s + from, i - from);
            continue;
        } else {
            snprintf(text, sizeof text,
                     cp < 0x100     ? "\\x%02x"
                     : cp < 0x10000 ? "\\u%04x"
                                    : "\\U%08x",
                     (unsigned)cp);
        }
        put_text(c, text);
    }
    jx_as(c, NULL);
    jx_add(c, &q, 1);
}

/* Prints bytes as b'...', as repr() does in Python. */
static void repr_bytes(struct jctx *c, struct jval v) {
    bool single = memchr(v.u.s, '\'', v.len) != NULL, dbl = memchr(v.u.s, '"', v.len) != NULL;
    char q = single && !dbl ? '"' : '\'', text[8];
    jx_add(c, "b", 1);
    jx_add(c, &q, 1);
    for (size_t i = 0; i < v.len; i++) {
        unsigned char ch = (unsigned char)v.u.s[i];
        jx_as(c, v.u.s + i);
        if (ch == '\n' || ch == '\r' || ch == '\t') {
            snprintf(text, sizeof text, "\\%c", ch == '\n' ? 'n' : ch == '\r' ? 'r' : 't');
        } else if (ch == (unsigned char)q || ch == '\\') {
            snprintf(text, sizeof text, "\\%c", ch);
        } else {
            snprintf(text, sizeof text, ch < 32 || ch > 126 ? "\\x%02x" : "%c", ch);
        }
        put_text(c, text);
    }
    jx_as(c, NULL);
    jx_add(c, &q, 1);
}

/* Appends Python's repr() of the items, separated by commas. */
static void repr_items(struct jctx *c, const struct jlist *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) put_text(c, ", ");
        jv_repr(c, l->v[i]);
    }
}

/* Appends Python's repr() of a dict. */
static void repr_dict(struct jctx *c, const struct jdict *d) {
    put_text(c, "{");
    for (uint32_t i = 0; i < d->n; i++) {
        if (i) put_text(c, ", ");
        jv_repr(c, d->e[i].k);
        put_text(c, ": ");
        jv_repr(c, d->e[i].v);
    }
    put_text(c, "}");
}

/* Appends Python's repr() of a dict view, e.g. dict_keys([...]). */
static void repr_view(struct jctx *c, struct jval v) {
    put_text(c, jv_type(v));
    put_text(c, "(");
    jv_repr(c, jv_list_val(jv_to_list(c, v)));
    put_text(c, ")");
}

/* Appends Python's repr() of a range. */
static void repr_range(struct jctx *c, const struct jrange *r) {
    char text[96];
    if (r->step == 1) {
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    } else {
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                 (long long)r->stop, (long long)r->step);
    }
    put_text(c, text);
}

/* Appends Jinja's repr() of the loop variable. */
static void repr_loop(struct jctx *c, struct jloop *l) {
    char text[64];
    struct jval n = jeval_loop_attr(c, l, jv_str("length"));
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)l->index0 + 1,
             (long long)n.u.i);
    put_text(c, text);
}

/* Prints values that have no literal form, such as "<Macro 'name'>". */
static void repr_object(struct jctx *c, struct jval v) {
    if (v.tag == JT_MACRO) {
        if (v.u.macro->name.tag == JT_STR) {
            put_text(c, "<Macro ");
            jv_repr(c, v.u.macro->name);
            put_text(c, ">");
        } else {
            put_text(c, "<Macro anonymous>");
        }
    } else if (v.tag == JT_FUNC) {
        /* Python prints an address here, which would differ from run to run. */
        put_text(c, v.u.func->self.tag == JT_MISSING ? "<function " : "<built-in method ");
        put_text(c, v.u.func->row->name);
        put_text(c, ">");
    } else if (v.tag == JT_GEN) {
        put_text(c, "<generator object ");
        put_text(c, v.u.gen->name);
        put_text(c, ">");
    } else {
        put_text(c, "<");
        put_text(c, jv_type(v));
        put_text(c, " object>");
    }
}

void jv_repr(struct jctx *c, struct jval v) {
    char text[64];
    jx_deeper(c);
    if (v.tag == JT_NONE || jv_is_num(v)) jx_as_value(c, v);
    switch ((enum jtag)v.tag) {
    case JT_UNDEF:
        put_text(c, "Undefined");
        break;
    case JT_NONE:
        put_text(c, "None");
        break;
    case JT_BOOL:
        put_text(c, v.u.i ? "True" : "False");
        break;
    case JT_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.u.i);
        put_text(c, text);
        break;
    case JT_BIG:
        jbig_print(c, v);
        break;
    case JT_FLOAT:
        jv_float_text(v.u.f, text);
        put_text(c, text);
        break;
    case JT_STR:
        if (v.flag & JF_MARKUP) put_text(c, "Markup(");
        repr_str(c, v);
        if (v.flag & JF_MARKUP) put_text(c, ")");
        break;
    case JT_BYTES:
        repr_bytes(c, v);
        break;
    case JT_LIST:
        put_text(c, "[");
        repr_items(c, v.u.list);
        put_text(c, "]");
        break;
    case JT_TUPLE:
        put_text(c, "(");
        repr_items(c, v.u.list);
        put_text(c, v.u.list->n == 1 ? ",)" : ")");
        break;
    case JT_DICT:
        repr_dict(c, v.u.dict);
        break;
    case JT_VIEW:
        repr_view(c, v);
        break;
    case JT_RANGE:
        repr_range(c, v.u.range);
        break;
    case JT_NS:
        put_text(c, "<Namespace ");
        repr_dict(c, &v.u.ns->d);
        put_text(c, ">");
        break;
    case JT_LOOP:
        repr_loop(c, v.u.loop);
        break;
    case JT_MISSING:
    case JT_GEN:
    case JT_MACRO:
    case JT_FUNC:
    case JT_CYCLER:
    case JT_JOINER:
    case JT_SLICE:
    case JT_COUNT:
        repr_object(c, v);
        break;
    }
    jx_as(c, NULL);
    c->nest--;
}

void jv_print(struct jctx *c, struct jval v) {
    if (v.tag == JT_STR) {
        jx_add(c, v.u.s, v.len);
    } else if (v.tag != JT_UNDEF) {
        jv_repr(c, v);
    }
}

struct jval jv_soft_str(struct jctx *c, struct jval v) {
    if (v.tag == JT_STR) return v;
    size_t m = jx_mark(c);
    jv_print(c, v);
    return jx_take(c, m);
}

struct jval jv_to_str(struct jctx *c, struct jval v) {
    struct jval s = jv_soft_str(c, v);
    s.flag = 0;
    return s;
}
