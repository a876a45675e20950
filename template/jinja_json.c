// SPDX-License-Identifier: MIT
/* template/jinja_json.c - conversion of JSON values (base/json.h) to template values. Text is read
 * as Python reads it: integers of any size, strings with NUL and lone surrogates, the last of
 * several members of the same name. */
#include "template/jinja_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const struct json_opts as_python = {.any_text = true, .last_wins = true, .max_depth = 500};

/* Creates a string from the n decoded bytes s. If origins are tracked, decodes the source again, so
 * that each byte keeps its origin (jinja_span.c). */
static struct jval text_of(struct jctx *c, const char *s, size_t n, const char *raw, size_t n_raw) {
    if (!c->span) return jv_strn(s, n); /* already in the arena */
    const size_t m = jx_mark(c);
    for (const char *p = raw, *end = raw + n_raw; p < end;) {
        const char *esc = memchr(p, '\\', (size_t)(end - p));
        uint32_t cp;
        jx_add(c, p, (size_t)((esc ? esc : end) - p));
        if (!esc) break;
        jx_as(c, esc);
        p = esc + json_escape(esc, end, &cp);
        ju_put(c, cp);
        jx_as(c, NULL);
    }
    return jx_take(c, m);
}

/* Returns a JSON number as an integer of any size or a float. */
static struct jval number_of(struct jctx *c, const struct json *j) {
    const char *s = json_num_text(j);
    const bool neg = *s == '-';
    if (!json_is_int(j)) return jv_float(json_num(j, 0));
    return jbig_parse(c, s + neg, strlen(s) - neg, 10, neg);
}

/* Returns a JSON value as a template value. */
static struct jval value_of(struct jctx *c, const struct json *j) {
    struct jval v;
    size_t n, n_raw;
    const char *s, *r;
    switch (json_type(j)) {
    case JSON_NULL:
        return jv_none();
    case JSON_BOOL:
        return jv_bool(json_bool(j, false));
    case JSON_NUM:
        return number_of(c, j);
    case JSON_STR:
        s = json_strn(j, &n);
        r = json_raw(j, &n_raw);
        return text_of(c, s, n, r, n_raw);
    case JSON_ARR:
        v = jv_list(c, 0);
        for (const struct json *k = json_first(j); k; k = json_next(k))
            jlist_add(c, v.u.list, value_of(c, k));
        return v;
    case JSON_OBJ:
        v = jv_dict(c, 0);
        for (const struct json *k = json_first(j); k; k = json_next(k)) {
            s = json_namen(k, &n);
            r = json_raw_name(k, &n_raw);
            const struct jval name = text_of(c, s, n, r, n_raw);
            jdict_set(c, v.u.dict, name, value_of(c, k));
        }
        return v;
    }
    return jv_none();
}

struct jval jjson_parse(struct jctx *c, const char *s, size_t n, const char *what) {
    const struct json *j;
    struct err e;
    if (json_parse_in(&j, c->a, s, n, &as_python, what, NULL, &e))
        jx_fail(c, "ValueError", "%s", e.msg);
    return value_of(c, j);
}

bool jjson_object(struct jctx *c, struct jval text, struct jval *out) {
    const struct json *j;
    struct err ignored;
    if (json_parse_in(&j, c->a, text.u.s, text.len, &as_python, "text", NULL, &ignored) ||
        json_type(j) != JSON_OBJ)
        return false;
    *out = value_of(c, j);
    return true;
}

struct doc_text {
    struct jdoc *d;
    const char *s, *what;
    size_t n;
};

static void read_doc(struct jctx *c, void *arg) {
    const struct doc_text *t = arg;
    t->d->root = jjson_parse(c, t->s, t->n, t->what);
}

int jdoc_parse(struct jdoc *d, const char *s, size_t n, const char *what, struct err *e) {
    struct jinja_err je = {0};
    struct jctx c = {.a = &d->arena, .err = &je, .max_out = 1u << 30, .max_steps = UINT64_MAX};
    struct doc_text t = {.d = d, .s = s, .n = n, .what = what};
    arena_init(&d->arena);
    int rc = jx_guard(&c, read_doc, &t);
    buf_release(&c.out);
    if (!rc) return 0;
    arena_release(&d->arena);
    return err_set(e, ERR_DATA, "%s", je.msg);
}

void jdoc_release(struct jdoc *d) {
    arena_release(&d->arena);
}

struct jval jv_clone(struct jctx *c, struct jval v) {
    struct jval r = v;
    if (v.tag == JT_LIST) {
        r = jv_list(c, v.u.list->n);
        for (uint32_t i = 0; i < v.u.list->n; i++)
            jlist_add(c, r.u.list, jv_clone(c, v.u.list->v[i]));
    } else if (v.tag == JT_DICT) {
        r = jv_dict(c, v.u.dict->n);
        for (uint32_t i = 0; i < v.u.dict->n; i++)
            jdict_set(c, r.u.dict, v.u.dict->e[i].k, jv_clone(c, v.u.dict->e[i].v));
    }
    return r;
}
