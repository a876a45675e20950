// SPDX-License-Identifier: MIT
/* template/repair_edit.c - edits of expressions in a template's body, found in its syntax tree.
 *
 * A site is an expression and its replacement. Effects on renderings are judged in repair_proof.c.
 */
#include "template/repair_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_NAMES = 64 };
struct finder {
    const struct jinja *t;
    struct repair_site *out;
    int n;
    struct jval value[MAX_NAMES]; /* variables that hold values of objects with unknown keys */
    int n_value;
    struct jval args[MAX_NAMES]; /* variables that hold arguments of calls */
    int n_args;
};

/* Returns the source text of node n; sets *len to its length, as it does not end in NUL. */
static const char *text_of(const struct finder *f, const struct jnode *n, int *len) {
    *len = (int)(n->end - n->start);
    return f->t->src + n->start;
}

/* Adds a place where `piece` may replace node n by text; takes ownership of text. */
static void site(struct finder *f, enum repair_piece piece, const struct jnode *n,
                 struct buf *text) {
    if (f->n < REPAIR_SITES && n->end > n->start)
        f->out[f->n++] = (struct repair_site){piece, n->start, n->end, buf_take(text), NULL};
    buf_release(text);
}

static bool in_list(const struct jval *v, int n, struct jval name) {
    for (int i = 0; i < n; i++)
        if (jv_eqs(v[i], name)) return true;
    return false;
}
/* Adds the variable `name` to the list unless it is already there or the list is full. */
static void add_name(struct jval *v, int *n, const struct jnode *name) {
    if (name && name->kind == JN_NAME && *n < MAX_NAMES && !in_list(v, *n, name->val))
        v[(*n)++] = name->val;
}
/* Returns whether n reads an argument's value. */
static bool is_value(const struct finder *f, const struct jnode *n) {
    if (n->kind == JN_NAME) return in_list(f->value, f->n_value, n->val);
    return n->kind == JN_ITEM && n->b && n->b->kind == JN_NAME;
}
/* Returns whether n reads a call's arguments. */
static bool is_args(const struct finder *f, const struct jnode *n) {
    if (n->kind == JN_ATTR) return jv_is(n->val, "arguments");
    if (n->kind == JN_ITEM) return n->b && n->b->kind == JN_CONST && jv_is(n->b->val, "arguments");
    return n->kind == JN_NAME && in_list(f->args, f->n_args, n->val);
}
/* Returns whether n calls this method of a value. */
static bool calls_method(const struct jnode *n, const char *method) {
    return n->kind == JN_CALL && n->a && n->a->kind == JN_ATTR && jv_is(n->a->val, method);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Records the variables that hold values or arguments. */
static void note(struct finder *f, const struct jnode *n) {
    if (n->kind == JN_FOR && n->a && n->a->kind == JN_TUPLE && n->a->n == 2)
        add_name(f->value, &f->n_value, n->a->list->next);
    if (n->kind == JN_SET && n->b && n->b->kind == JN_ITEM && n->b->b && n->b->b->kind == JN_NAME)
        add_name(f->value, &f->n_value, n->a);
    if (n->kind == JN_SET && n->b && is_args(f, n->b)) add_name(f->args, &f->n_args, n->a);
    for (const struct jnode *k = n->kind == JN_MACRO ? n->list : NULL; k; k = k->next) {
        if (jv_is(k->val, "value") || jv_is(k->val, "argument") || jv_is(k->val, "val"))
            add_name(f->value, &f->n_value, k);
        if (jv_is(k->val, "arguments") || jv_is(k->val, "args")) add_name(f->args, &f->n_args, k);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Adds a site that prints a value as JSON unless it is text. */
static void value_site(struct finder *f, const struct jnode *value, const struct jnode *whole) {
    struct buf b = {0};
    int n;
    const char *s = text_of(f, value, &n);
    if (value->kind == JN_DICT)
        buf_fmt(&b, "(%.*s | tojson)", n, s);
    else
        buf_fmt(&b, "(%.*s if %.*s is string else %.*s | tojson)", n, s, n, s, n, s);
    site(f, P_E_VALUE, whole, &b);
}

/* Returns whether an expression is a whole object: a literal, x.function or x.tool_calls. */
static bool is_object(const struct jnode *n) {
    if (n->kind == JN_DICT) return true;
    const bool item = n->kind == JN_ITEM && n->b && n->b->kind == JN_CONST;
    if (!item && n->kind != JN_ATTR) return false;
    const struct jval name = item ? n->b->val : n->val;
    return jv_is(name, "function") || jv_is(name, "tool_calls");
}

/* Looks for values among the operands of an output. */
static void printed(struct finder *f, const struct jnode *n) {
    if (is_value(f, n) || is_object(n)) {
        value_site(f, n, n);
    } else if (n->kind == JN_CONCAT) {
        for (const struct jnode *k = n->list; k; k = k->next) printed(f, k);
    } else if (n->kind == JN_BIN && n->op == JO_ADD) {
        printed(f, n->a);
        printed(f, n->b);
    } else if (n->kind == JN_COND) {
        printed(f, n->b);
        if (n->c) printed(f, n->c);
    }
}

/* Finds places that print argument values, which may have to be converted to a string or JSON. */
static void values(struct finder *f, const struct jnode *n) {
    if (n->kind == JN_PRINT && n->a) printed(f, n->a);
    if (n->kind == JN_FILTER && (jv_is(n->val, "string") || jv_is(n->val, "tojson")) &&
        is_value(f, n->a))
        value_site(f, n->a, n);
    for (const struct jnode *k = n->kind == JN_FILTER && jv_is(n->val, "format") ? n->list : NULL;
         k; k = k->next)
        printed(f, k);
    if (n->kind == JN_FILTER && jv_is(n->val, "tojson") && is_args(f, n->a)) {
        struct buf b = {0};
        int n_arg, n_all;
        const char *arg = text_of(f, n->a, &n_arg), *all = text_of(f, n, &n_all);
        buf_fmt(&b, "(%.*s if %.*s is string else %.*s)", n_arg, arg, n_arg, arg, n_all, all);
        site(f, P_E_DUMP, n, &b);
    }
    if (n->kind == JN_PRINT && n->a && is_args(f, n->a)) {
        struct buf b = {0};
        int k;
        const char *s = text_of(f, n->a, &k);
        buf_fmt(&b, "(%.*s if %.*s is string else %.*s | tojson)", k, s, k, s, k, s);
        site(f, P_E_DUMP, n->a, &b);
    }
}

/* ---- thinking -------------------------------------------------------------------------------- */

/* Returns whether a constant is the closing marker of a block: "</think>". */
static bool closing(const struct jnode *n) {
    return n && n->kind == JN_CONST && n->val.tag == JT_STR && n->val.len > 3 && n->val.len < 40 &&
           n->val.u.s[0] == '<' && n->val.u.s[1] == '/' && n->val.u.s[n->val.len - 1] == '>' &&
           !memchr(n->val.u.s, '\'', n->val.len);
}

/* Writes the condition that text c contains a real block closed by the marker. */
static void real_block(struct buf *b, const char *c, int n, struct jval mark) {
    const int k = (int)mark.len - 2;
    buf_fmt(b, "('</%.*s' in %.*s and ((%.*s | trim).startswith('<%.*s') or '\\n</%.*s' in %.*s))",
            k, mark.u.s + 2, n, c, n, c, k, mark.u.s + 2, k, mark.u.s + 2, n, c);
}

/* Adds a site that keeps the thinking inserted by the prelude. c: the text; k: length of that
 * thinking; real: the condition of real_block; test: the test n itself, or NULL if n is the split
 * `all`. */
static void keep_site(struct finder *f, const struct jnode *n, const struct jnode *test,
                      const char *c, int k, const struct buf *real, const char *all) {
    struct buf a = {0}, b = {0};
    const int len = (int)(n->end - n->start);
    if (test) {
        buf_fmt(&a, "(%.*s and %.*s not in hone.keep)", len, f->t->src + n->start, k, c);
        buf_fmt(&b, "(%s and %.*s not in hone.keep)", real->data, k, c);
    } else {
        buf_fmt(&a, "(%.*s if %.*s not in hone.keep else %.*s)", len, all, k, c, k, c);
        buf_fmt(&b, "(%.*s if %s and %.*s not in hone.keep else %.*s)", len, all, real->data, k, c,
                k, c);
    }
    const int at = f->n;
    site(f, P_E_KEEP, n, &a);
    if (f->n > at) f->out[at].other = buf_take(&b);
    buf_release(&b);
}

/* Finds expressions that search an answer for the end of reasoning. */
static void thinking(struct finder *f, const struct jnode *n) {
    struct buf b = {0};
    int k, all;
    if (n->kind == JN_COMPARE && n->n == 1 && n->list->op == JO_IN && closing(n->a)) {
        const char *c = text_of(f, n->list->a, &k);
        real_block(&b, c, k, n->a->val);
        keep_site(f, n, n, c, k, &b, NULL);
        site(f, P_E_THINK, n, &b);
    } else if (n->kind == JN_ITEM && n->a && calls_method(n->a, "split") && n->a->list &&
               closing(n->a->list)) {
        const char *c = text_of(f, n->a->a->a, &k), *s = text_of(f, n, &all);
        struct buf real = {0};
        real_block(&real, c, k, n->a->list->val);
        keep_site(f, n, NULL, c, k, &real, s);
        buf_fmt(&b, "(%.*s if %s else %.*s)", all, s, real.data, k, c);
        site(f, P_E_THINK, n, &b);
        buf_release(&real);
    }
}

/* Finds `loop.index0 > x` in a condition, which limits thinking to the current turn. */
static void preserve(struct finder *f, const struct jnode *n) {
    struct buf b = {0};
    int k;
    if (n->kind != JN_COMPARE || n->n != 1 || n->list->op != JO_GT || n->a->kind != JN_ATTR ||
        !jv_is(n->a->val, "index0"))
        return;
    const char *s = text_of(f, n, &k);
    buf_fmt(&b, "((preserve_thinking is defined and preserve_thinking) or %.*s)", k, s);
    site(f, P_E_PRESERVE, n, &b);
}

/* Finds calls of raise_exception(). */
static void raises(struct finder *f, const struct jnode *n) {
    struct buf b = {0};
    if (n->kind != JN_CALL || !n->a || n->a->kind != JN_NAME ||
        !jv_is(n->a->val, "raise_exception"))
        return;
    buf_str(&b, "''");
    site(f, P_E_RAISE, n, &b);
}

/* ---- text next to calls ---------------------------------------------------------------------- */

/* Returns the message whose tool_calls an expression reads; NULL: none. */
static const struct jnode *caller(const struct jnode *n) {
    for (; n; n = n->next) {
        const bool attr = n->kind == JN_ATTR && jv_is(n->val, "tool_calls"),
                   item = n->kind == JN_ITEM && n->b && n->b->kind == JN_CONST &&
                          jv_is(n->b->val, "tool_calls"),
                   get = calls_method(n, "get") && n->list && n->list->kind == JN_CONST &&
                         jv_is(n->list->val, "tool_calls");
        if (attr || item) return n->a;
        if (get) return n->a->a;
        const struct jnode *one[] = {n->a, n->b, n->c, n->list};
        for (size_t i = 0; i < COUNT_OF(one); i++) {
            const struct jnode *m = caller(one[i]);
            if (m) return m;
        }
    }
    return NULL;
}

/* Finds the first output of a loop over calls, and the output before it in its branch. */
static void first_print(struct finder *f, const struct jnode *n, const struct jnode *m,
                        bool in_loop) {
    struct buf b = {0};
    int k, j;
    for (; n; n = n->next) {
        if (n->kind == JN_TEXT) return;
        if (n->kind == JN_FOR && !in_loop && caller(n->b)) {
            first_print(f, n->list, m, true);
            return;
        }
        if (n->kind != JN_PRINT || !n->a) continue;
        const char *s = text_of(f, n->a, &k), *msg = text_of(f, m, &j);
        if (memmem(s, (size_t)k, "assistant", 9)) return;
        buf_fmt(&b, "((%.*s.content if %s%.*s.content is string else '') ~ (%.*s))", j, msg,
                in_loop ? "loop.first and " : "", j, msg, k, s);
        site(f, P_E_TEXT, n->a, &b);
        buf_fmt(&b, "((%.*s.hone_text if %s%.*s.hone_text is string else '') ~ (%.*s))", j, msg,
                in_loop ? "loop.first and " : "", j, msg, k, s);
        site(f, P_E_AHEAD, n->a, &b);
        return;
    }
}

static void text_first(struct finder *f, const struct jnode *n) {
    const struct jnode *m = n->kind == JN_IF ? caller(n->a) : NULL;
    if (m) first_print(f, n->list, m, false);
}

/* ---- JSON and markup ------------------------------------------------------------------------- */

/* Finds uses of filters that escape characters. */
static void escapes(struct finder *f, const struct jnode *n) {
    struct buf b = {0};
    int k;
    if (n->kind != JN_FILTER) return;
    if (jv_is(n->val, "tojson")) {
        for (const struct jnode *kw = n->list2; kw; kw = kw->next) {
            const bool ascii = kw->kind == JN_KW && jv_is(kw->val, "ensure_ascii") && kw->a &&
                               kw->a->kind == JN_CONST && kw->a->val.tag == JT_BOOL;
            if (!ascii || !kw->a->val.u.i) continue;
            buf_str(&b, "false");
            site(f, P_E_ASCII, kw->a, &b);
        }
    } else if (jv_is(n->val, "safe") && n->a->kind == JN_CONST) {
        const char *s = text_of(f, n->a, &k);
        buf_add(&b, s, (size_t)k);
        site(f, P_E_SAFE, n, &b);
    } else if (jv_is(n->val, "e") || jv_is(n->val, "escape") || jv_is(n->val, "forceescape")) {
        /* The site covers only the filter, so that its operand can also be edited. */
        const char *s = f->t->src + n->a->end, *bar = memchr(s, '|', n->end - n->a->end);
        if (!bar) return;
        const struct jnode filter = {.start = (uint32_t)(bar - f->t->src), .end = n->end};
        buf_str(&b, " ");
        site(f, P_E_ESCAPE, &filter, &b);
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Finds `set _ = x.append(v)` and `set y = x.pop(0)`, which the sandbox refuses. */
static void mutations(struct finder *f, const struct jnode *n) {
    struct buf b = {0};
    int k, m, j;
    if (n->kind != JN_SET || !n->b || n->b->kind != JN_CALL || !n->b->a || n->b->a->kind != JN_ATTR)
        return;
    const struct jnode *list = n->b->a->a, *arg = n->b->list;
    const char *x = text_of(f, list, &k), *y = text_of(f, n->a, &m);
    if (calls_method(n->b, "append") && arg) {
        const char *v = text_of(f, arg, &j);
        buf_fmt(&b, "%.*s = %.*s + [%.*s]", k, x, k, x, j, v);
    } else if (calls_method(n->b, "pop") && arg && arg->kind == JN_CONST) {
        buf_fmt(&b, "%.*s = %.*s[0] %%}{%%- set %.*s = %.*s[1:]", m, y, k, x, k, x, k, x);
    } else if (calls_method(n->b, "pop") && !arg) {
        buf_fmt(&b, "%.*s = %.*s | last %%}{%%- set %.*s = %.*s[:-1]", m, y, k, x, k, x, k, x);
    } else {
        return;
    }
    struct jnode whole = {.start = n->a->start, .end = n->b->end};
    site(f, P_E_MUTATE, &whole, &b);
}

/* Finds tojson applied to the result of a lazy filter. */
static void lazy(struct finder *f, const struct jnode *n) {
    static const char *const names[] = {"map",        "select",     "reject",
                                        "selectattr", "rejectattr", "unique"};
    struct buf b = {0};
    int k;
    bool fits = false;
    if (n->kind != JN_FILTER || !jv_is(n->val, "tojson") || n->a->kind != JN_FILTER) return;
    for (size_t i = 0; i < COUNT_OF(names); i++) fits |= jv_is(n->a->val, names[i]);
    if (!fits) return;
    const char *s = text_of(f, n->a, &k);
    buf_fmt(&b, "%.*s | list", k, s);
    site(f, P_E_LIST, n->a, &b);
}

/* Returns whether an expression contains loop.index0. */
static bool holds_index(const struct jnode *n) {
    if (!n) return false;
    if (n->kind == JN_ATTR && jv_is(n->val, "index0")) return true;
    return holds_index(n->a) || holds_index(n->b);
}

/* Returns whether n is the variable `messages`; n may be NULL. */
static bool is_messages(const struct jnode *n) {
    return n && n->kind == JN_NAME && jv_is(n->val, "messages");
}

/* Finds messages[loop.index0 - 1] below n, in a loop over `over`, a different list. */
static void neighbours_below(struct finder *f, const struct jnode *n, const struct jnode *over) {
    struct buf b = {0};
    int k;
    for (; n; n = n->next) {
        if (n->kind == JN_ITEM && is_messages(n->a) && holds_index(n->b)) {
            const char *s = text_of(f, over, &k);
            buf_fmt(&b, "(%.*s)", k, s);
            site(f, P_E_INDEX, n->a, &b);
        }
        const struct jnode *one[] = {n->a, n->b, n->c, n->list, n->list2};
        for (size_t i = 0; i < COUNT_OF(one); i++) neighbours_below(f, one[i], over);
    }
}

static void neighbours(struct finder *f, const struct jnode *n) {
    const bool other = n->kind == JN_FOR && n->b && !is_messages(n->b) &&
                       ((n->b->kind == JN_ITEM && is_messages(n->b->a)) || n->b->kind == JN_NAME);
    if (other) neighbours_below(f, n->list, n->b);
}

/* Finds uses of a description that may be undefined. */
static void descriptions(struct finder *f, const struct jnode *n) {
    struct buf b = {0};
    int k;
    const bool attr = n->kind == JN_ATTR && jv_is(n->val, "description"),
               item = n->kind == JN_ITEM && n->b && n->b->kind == JN_CONST &&
                      jv_is(n->b->val, "description");
    if (!attr && !item) return;
    const char *s = text_of(f, n, &k);
    buf_fmt(&b, "(%.*s if %.*s is defined else '')", k, s, k, s);
    site(f, P_E_DEFAULT, n, &b);
}

/* Calls visit for every node below and after n. */
static void walk(struct finder *f, const struct jnode *n,
                 void (*visit)(struct finder *f, const struct jnode *n)) {
    for (; n; n = n->next) {
        visit(f, n);
        const struct jnode *one[] = {n->a, n->b, n->c, n->list, n->list2};
        for (size_t i = 0; i < COUNT_OF(one); i++) walk(f, one[i], visit);
    }
}

/* Compares sites by start, outer ones first, then by piece, for qsort(). */
static int by_start(const void *a, const void *b) {
    const struct repair_site *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? 1 : -1;
    return (int)x->piece - (int)y->piece;
}

int edit_sites(const struct jinja *t, struct repair_site out[REPAIR_SITES]) {
    struct finder f = {.t = t, .out = out};
    walk(&f, t->body, note);
    walk(&f, t->body, note); /* names set from other names */
    walk(&f, t->body, values);
    walk(&f, t->body, thinking);
    walk(&f, t->body, raises);
    walk(&f, t->body, preserve);
    walk(&f, t->body, mutations);
    walk(&f, t->body, lazy);
    walk(&f, t->body, descriptions);
    walk(&f, t->body, escapes);
    walk(&f, t->body, neighbours);
    walk(&f, t->body, text_first);
    qsort(out, (size_t)f.n, sizeof *out, by_start);
    int n = 0; /* The walk may reach an expression twice. */
    for (int i = 0; i < f.n; i++) {
        const bool again = n && out[i].start == out[n - 1].start && out[i].end == out[n - 1].end &&
                           out[i].piece == out[n - 1].piece;
        if (again) {
            free(out[i].text);
            free(out[i].other);
        } else {
            out[n++] = out[i];
        }
    }
    return n;
}

void edit_apply(struct buf *out, const struct jinja *t, const struct repair_site *v, int n,
                const struct repair_plan *p) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (!p->site[i] || v[i].start < at) continue;
        const char *text = v[i].text;
        for (int k = i + 1; k < n && v[k].start == v[i].start && v[k].end == v[i].end; k++)
            if (p->site[k] && (v[k].other || v[i].other))
                text = v[k].other ? v[k].other : v[i].other;
        buf_add(out, t->src + at, v[i].start - at);
        buf_str(out, text);
        at = v[i].end;
    }
    buf_add(out, t->src + at, t->src_len - at);
}
