// SPDX-License-Identifier: MIT
/* template/jinja_tojson.c - the tojson filter: json.dumps as transformers calls it (no HTML
 * escaping, no ASCII escapes, insertion order). */
#include "template/jinja_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dump {
    struct jctx *c;
    bool ascii, pretty, sort;
    struct jval indent, item_sep, key_sep;
    int depth;
};

static void put_text(struct dump *d, const char *s) {
    jx_add(d->c, s, strlen(s));
}

/* Prints "\uXXXX". */
static void put_utf16_unit(struct dump *d, uint32_t u) {
    char text[16];
    snprintf(text, sizeof text, "\\u%04x", (unsigned)u);
    put_text(d, text);
}

/* Prints a JSON string; with d->ascii, escapes everything but ASCII. */
static void put_quoted(struct dump *d, struct jval v) {
    static const char short_names[] = "\"\"\\\\\nn\rr\tt\bb\ff";
    size_t run = 0;
    put_text(d, "\"");
    for (size_t i = 0; i < v.len;) {
        unsigned char ch = (unsigned char)v.u.s[i];
        if (ch >= 0x20 && ch != '"' && ch != '\\' && (ch < 0x7f || !d->ascii)) {
            i++;
            continue;
        }
        jx_add(d->c, v.u.s + run, i - run);
        jx_as(d->c, v.u.s + i);
        uint32_t cp = ju_next(v.u.s, v.len, &i);
        run = i;
        const char *p = cp < 0x80 ? memchr(short_names, (int)cp, sizeof short_names - 1) : NULL;
        if (p && (p - short_names) % 2) p = NULL;
        if (p) {
            char esc[2] = {'\\', p[1]};
            jx_add(d->c, esc, 2);
        } else if (cp >= 0x10000) {
            put_utf16_unit(d, 0xd800 + ((cp - 0x10000) >> 10));
            put_utf16_unit(d, 0xdc00 + ((cp - 0x10000) & 0x3ff));
        } else {
            put_utf16_unit(d, cp);
        }
        jx_as(d->c, NULL);
    }
    jx_add(d->c, v.u.s + run, v.len - run);
    put_text(d, "\"");
}

/* Begins an indented line; prints nothing unless the output is indented. */
static void new_line(struct dump *d) {
    if (!d->pretty) return;
    put_text(d, "\n");
    for (int i = 0; i < d->depth; i++) jx_add(d->c, d->indent.u.s, d->indent.len);
}

/* Writes a number as Python's json does, with NaN and Infinity. */
static void dump_number(struct dump *d, struct jval v) {
    jx_as_value(d->c, v);
    if (v.tag == JT_FLOAT && (isnan(v.u.f) || isinf(v.u.f))) {
        put_text(d, isnan(v.u.f) ? "NaN" : v.u.f < 0 ? "-Infinity" : "Infinity");
    } else {
        jv_repr(d->c, v);
    }
    jx_as(d->c, NULL);
}

/* Prints `text` with the origin of v. */
static void put_word(struct dump *d, struct jval v, const char *text) {
    jx_as_value(d->c, v);
    put_text(d, text);
    jx_as(d->c, NULL);
}

/* Prints a key as a string; fails for types that JSON does not allow as keys. */
static void put_key(struct dump *d, struct jval k) {
    if (k.tag == JT_STR) {
        put_quoted(d, k);
        return;
    }
    put_text(d, "\"");
    if (k.tag == JT_NONE) {
        put_text(d, "null");
    } else if (k.tag == JT_BOOL) {
        put_text(d, k.u.i ? "true" : "false");
    } else if (jv_is_num(k)) {
        dump_number(d, k);
    } else {
        jx_fail(d->c, "TypeError", "keys must be str, int, float, bool or None, not %s",
                jv_type(k));
    }
    put_text(d, "\"");
}

static void put_value(struct dump *d, struct jval v);

static void dump_list(struct dump *d, const struct jlist *l) {
    if (!l->n) {
        put_text(d, "[]");
        return;
    }
    put_text(d, "[");
    d->depth++;
    for (uint32_t i = 0; i < l->n; i++) {
        if (i) jx_add(d->c, d->item_sep.u.s, d->item_sep.len);
        new_line(d);
        put_value(d, l->v[i]);
    }
    d->depth--;
    new_line(d);
    put_text(d, "]");
}

/* Compares dict entries by key; fails if the keys have no order. */
static int by_key(struct jctx *c, const struct jent *a, const struct jent *b) {
    return jv_order(c, a->k, b->k, "<");
}

/* Sorts the members by key with insertion sort: there are few keys, and a failing comparison
 * longjmps, which must not cross qsort. */
static struct jent *sorted(struct jctx *c, const struct jdict *m) {
    struct jent *e = jx_alloc(c, (size_t)m->n + 1, sizeof *e);
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t k = i;
        jx_step(c);
        for (; k && by_key(c, &m->e[i], &e[k - 1]) < 0; k--) {
            jx_step(c);
            e[k] = e[k - 1];
        }
        e[k] = m->e[i];
    }
    return e;
}

static void dump_dict(struct dump *d, const struct jdict *m) {
    if (!m->n) {
        put_text(d, "{}");
        return;
    }
    const struct jent *e = d->sort ? sorted(d->c, m) : m->e;
    put_text(d, "{");
    d->depth++;
    for (uint32_t i = 0; i < m->n; i++) {
        if (i) jx_add(d->c, d->item_sep.u.s, d->item_sep.len);
        new_line(d);
        put_key(d, e[i].k);
        jx_add(d->c, d->key_sep.u.s, d->key_sep.len);
        put_value(d, e[i].v);
    }
    d->depth--;
    new_line(d);
    put_text(d, "}");
}

/* Prints any value as JSON; fails for types that JSON cannot represent. */
static void put_value(struct dump *d, struct jval v) {
    jx_step(d->c);
    jx_deeper(d->c);
    if (v.tag == JT_NONE) {
        put_word(d, v, "null");
    } else if (v.tag == JT_BOOL) {
        put_word(d, v, v.u.i ? "true" : "false");
    } else if (jv_is_num(v)) {
        dump_number(d, v);
    } else if (v.tag == JT_STR) {
        put_quoted(d, v);
    } else if (v.tag == JT_LIST || v.tag == JT_TUPLE) {
        dump_list(d, v.u.list);
    } else if (v.tag == JT_DICT) {
        dump_dict(d, v.u.dict);
    } else {
        jx_fail(d->c, "TypeError", "Object of type %s is not JSON serializable", jv_type(v));
    }
    d->c->nest--;
}

void jfmt_json(struct jctx *c, struct jval v, bool ascii, struct jval indent, struct jval seps,
               bool sort) {
    struct dump d = {
        .c = c, .ascii = ascii, .sort = sort, .item_sep = jv_str(", "), .key_sep = jv_str(": ")};
    if (indent.tag != JT_NONE && indent.tag != JT_MISSING) {
        d.pretty = true;
        d.item_sep = jv_str(",");
        if (indent.tag == JT_STR) {
            d.indent = indent;
        } else {
            int64_t n = jv_index(c, indent, "indent");
            if (n > 1000) jx_fail(c, "limit", "the indent is too large");
            d.indent = jop_bin(c, JO_MUL, jv_str(" "), jv_int(n));
        }
    }
    if (seps.tag == JT_TUPLE || seps.tag == JT_LIST) {
        const struct jlist *l = seps.u.list;
        if (l->n != 2) jx_fail(c, "ValueError", "separators must be two strings");
        if (l->v[0].tag != JT_STR || l->v[1].tag != JT_STR)
            jx_fail(c, "TypeError", "separators must be two strings");
        d.item_sep = l->v[0];
        d.key_sep = l->v[1];
    } else if (seps.tag != JT_NONE && seps.tag != JT_MISSING) {
        jx_fail(c, "TypeError", "separators must be two strings");
    }
    put_value(&d, v);
}
