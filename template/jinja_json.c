// SPDX-License-Identifier: MIT
/* template/jinja_json.c - JSON -> template values. Unlike core/json it keeps what a template can
 * show: integers of any size, the difference between 1 and 1.0, strings with NUL, lone surrogates,
 * key order. Duplicate keys: the last value wins, as in Python. */
#include "template/jinja_int.h"

#include <stdlib.h>
#include <string.h>

#include "core/json.h"

struct reader {
    struct jctx *c;
    const char *s, *what;
    size_t n, i;
    int depth;
};

enum { MAX_JSON_DEPTH = 500 };

NORETURN static void bad(struct reader *r, const char *why) {
    jx_fail(r->c, "ValueError", "%s: %s at byte %zu", r->what, why, r->i);
}

static void blanks(struct reader *r) {
    while (r->i < r->n && strchr(" \t\r\n", r->s[r->i]) && r->s[r->i]) r->i++;
}

static int hex4(struct reader *r) {
    int v = 0;
    for (int k = 0; k < 4; k++, r->i++) {
        char ch = r->i < r->n ? r->s[r->i] : 0;
        int d = ch >= '0' && ch <= '9'                 ? ch - '0'
                : (ch | 32) >= 'a' && (ch | 32) <= 'f' ? (ch | 32) - 'a' + 10
                                                       : -1;
        if (d < 0) bad(r, "bad \\u escape");
        v = v << 4 | d;
    }
    return v;
}

static void escape(struct reader *r) {
    static const char map[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    char ch = r->i < r->n ? r->s[r->i++] : 0;
    for (size_t k = 0; map[k]; k += 2) {
        if (map[k] == ch) {
            jx_add(r->c, &map[k + 1], 1);
            return;
        }
    }
    if (ch != 'u') bad(r, "bad escape in string");
    uint32_t cp = (uint32_t)hex4(r);
    if (cp >= 0xd800 && cp < 0xdc00 && r->i + 1 < r->n && r->s[r->i] == '\\' &&
        r->s[r->i + 1] == 'u') {
        size_t back = r->i;
        r->i += 2;
        uint32_t low = (uint32_t)hex4(r);
        if (low >= 0xdc00 && low < 0xe000) {
            cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        } else {
            r->i = back;
        }
    }
    ju_put(r->c, cp);
}

static struct jval string(struct reader *r) {
    size_t start = ++r->i, i = start;
    while (i < r->n && r->s[i] != '"' && r->s[i] != '\\' && (unsigned char)r->s[i] >= 0x20) i++;
    if (i < r->n &&
        r->s[i] == '"') { /* no escapes: a view into the text, which outlives the render */
        r->i = i + 1;
        return jv_copy(r->c, r->s + start, i - start);
    }
    size_t m = jx_mark(r->c);
    jx_add(r->c, r->s + start, i - start);
    r->i = i;
    for (;;) {
        if (r->i >= r->n) bad(r, "unterminated string");
        char ch = r->s[r->i];
        if ((unsigned char)ch < 0x20) bad(r, "control character in string");
        r->i++;
        if (ch == '"') break;
        if (ch == '\\') {
            jx_as(r->c, r->s + r->i - 1);
            escape(r);
            jx_as(r->c, NULL);
        } else {
            jx_add(r->c, r->s + r->i - 1, 1);
        }
    }
    return jx_take(r->c, m);
}

static size_t run_of_digits(const struct reader *r, size_t i) {
    while (i < r->n && r->s[i] >= '0' && r->s[i] <= '9') i++;
    return i;
}

static struct jval number(struct reader *r) {
    size_t start = r->i, i = start;
    bool neg = r->s[i] == '-', is_float = false;
    if (neg) i++;
    size_t digits = i;
    i = run_of_digits(r, i);
    if (i == digits || (r->s[digits] == '0' && i > digits + 1)) bad(r, "bad number");
    if (i + 1 < r->n && r->s[i] == '.' && run_of_digits(r, i + 1) > i + 1) {
        i = run_of_digits(r, i + 1);
        is_float = true;
    }
    if (i < r->n && (r->s[i] | 32) == 'e') {
        size_t k = i + 1;
        if (k < r->n && (r->s[k] == '+' || r->s[k] == '-')) k++;
        if (run_of_digits(r, k) > k) {
            i = run_of_digits(r, k);
            is_float = true;
        }
    }
    r->i = i;
    if (is_float) {
        char *t = arena_strndup(r->c->a, r->s + start, i - start);
        return jv_float(strtod(t, NULL));
    }
    return jbig_parse(r->c, r->s + digits, i - digits, 10, neg);
}

static bool word(struct reader *r, const char *w) {
    size_t n = strlen(w);
    if (r->n - r->i < n || memcmp(r->s + r->i, w, n) != 0) return false;
    r->i += n;
    return true;
}

static struct jval value(struct reader *r);

static struct jval object(struct reader *r) {
    struct jval d = jv_dict(r->c, 0);
    r->i++;
    for (bool first = true;; first = false) {
        blanks(r);
        if (first && r->i < r->n && r->s[r->i] == '}') break;
        if (r->i >= r->n || r->s[r->i] != '"') bad(r, "a member name in quotes is expected");
        struct jval k = string(r);
        blanks(r);
        if (r->i >= r->n || r->s[r->i] != ':') bad(r, "':' is expected");
        r->i++;
        jdict_set(r->c, d.u.dict, k, value(r));
        blanks(r);
        if (r->i < r->n && r->s[r->i] == ',') {
            r->i++;
            continue;
        }
        if (r->i >= r->n || r->s[r->i] != '}') bad(r, "',' or '}' is expected");
        break;
    }
    r->i++;
    return d;
}

static struct jval array(struct reader *r) {
    struct jval l = jv_list(r->c, 0);
    r->i++;
    for (bool first = true;; first = false) {
        blanks(r);
        if (first && r->i < r->n && r->s[r->i] == ']') break;
        jlist_add(r->c, l.u.list, value(r));
        blanks(r);
        if (r->i < r->n && r->s[r->i] == ',') {
            r->i++;
            continue;
        }
        if (r->i >= r->n || r->s[r->i] != ']') bad(r, "',' or ']' is expected");
        break;
    }
    r->i++;
    return l;
}

static struct jval value(struct reader *r) {
    struct jval v;
    blanks(r);
    if (r->i >= r->n) bad(r, "a value is expected");
    if (++r->depth > MAX_JSON_DEPTH) bad(r, "too deeply nested");
    char ch = r->s[r->i];
    if (ch == '{') {
        v = object(r);
    } else if (ch == '[') {
        v = array(r);
    } else if (ch == '"') {
        v = string(r);
    } else if (ch == '-' || (ch >= '0' && ch <= '9')) {
        v = number(r);
    } else if (word(r, "true")) {
        v = jv_bool(true);
    } else if (word(r, "false")) {
        v = jv_bool(false);
    } else if (word(r, "null")) {
        v = jv_none();
    } else {
        bad(r, "a value is expected");
    }
    r->depth--;
    return v;
}

struct jval jjson_parse(struct jctx *c, const char *s, size_t n, const char *what) {
    struct reader r = {.c = c, .s = s, .n = n, .what = what};
    struct jval v = value(&r);
    blanks(&r);
    if (r.i < n) bad(&r, "text after the value");
    return v;
}

/* A failed attempt must not end the render: parse under a context of its own that shares the
 * arena. */
static int prefix_guarded(struct jctx *c, const char *s, size_t n, size_t *used, struct jval *out) {
    if (setjmp(c->fail)) return ERR_DATA;
    struct reader r = {.c = c, .s = s, .n = n, .what = "text"};
    *out = value(&r);
    *used = r.i;
    return 0;
}

bool jjson_prefix(struct jctx *c, const char *s, size_t n, size_t *used, struct jval *out) {
    struct jinja_err je;
    struct jctx own = {
        .a = c->a, .err = &je, .t = c->t, .max_out = 1u << 30, .max_steps = UINT64_MAX};
    int rc = prefix_guarded(&own, s, n, used, out);
    buf_release(&own.out);
    return rc == 0;
}

bool jjson_object(struct jctx *c, struct jval text, struct jval *out) {
    size_t used;
    if (!jjson_prefix(c, text.u.s, text.len, &used, out) || out->tag != JT_DICT) return false;
    return ju_strip(jv_strn(text.u.s + used, text.len - used), jv_missing(), 3).len == 0;
}

struct jval jjson_from(struct jctx *c, const struct json *j) {
    struct jval v;
    int64_t i;
    switch (json_type(j)) {
    case JSON_NULL:
        return jv_none();
    case JSON_BOOL:
        return jv_bool(json_bool(j, false));
    case JSON_NUM:
        return json_i64(j, &i) ? jv_int(i) : jv_float(json_num(j, 0));
    case JSON_STR:
        return jv_copy(c, json_str(j), strlen(json_str(j)));
    case JSON_ARR:
        v = jv_list(c, 0);
        for (const struct json *k = json_first(j); k; k = json_next(k))
            jlist_add(c, v.u.list, jjson_from(c, k));
        return v;
    case JSON_OBJ:
        v = jv_dict(c, 0);
        for (const struct json *k = json_first(j); k; k = json_next(k)) {
            const char *name = json_name(k);
            jdict_set(c, v.u.dict, jv_copy(c, name, strlen(name)), jjson_from(c, k));
        }
        return v;
    }
    return jv_none();
}

static int doc_guarded(struct jctx *c, struct jdoc *d, const char *s, size_t n, const char *what) {
    if (setjmp(c->fail)) return ERR_DATA;
    d->root = jjson_parse(c, s, n, what);
    return 0;
}

int jdoc_parse(struct jdoc *d, const char *s, size_t n, const char *what, struct err *e) {
    struct jinja_err je = {0};
    struct jctx c = {.a = &d->arena, .err = &je, .max_out = 1u << 30, .max_steps = UINT64_MAX};
    arena_init(&d->arena);
    int rc = doc_guarded(&c, d, s, n, what);
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
