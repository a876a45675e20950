// SPDX-License-Identifier: MIT
/* template/jinja_value.c - values: construction, dictionaries, truth, equality, order, iteration.
 * Semantics are Python's, independent of the template language. Printing is in jinja_print.c. */
#include "template/jinja_int.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

struct jval jv_str(const char *s) {
    return jv_strn(s, strlen(s));
}

struct jval jv_copy(struct jctx *c, const char *s, size_t n) {
    if (n > c->max_out)
        jx_fail(c, "limit", "a string grew over %llu bytes", (unsigned long long)c->max_out);
    char *p = jx_str_alloc(c, n);
    jx_str_copy(c, p, s, n);
    return jv_strn(p, n);
}

const char *jv_cstr(struct jctx *c, struct jval v) {
    return v.tag == JT_STR ? arena_strndup(c->a, v.u.s, v.len) : "?";
}

struct jval jv_list_val(struct jlist *l) {
    struct jval v = {.tag = JT_LIST, .u = {.list = l}};
    return v;
}

struct jval jv_list(struct jctx *c, uint32_t cap) {
    struct jlist *l = jx_alloc(c, 1, sizeof *l);
    if (cap) l->v = jx_alloc(c, cap, sizeof *l->v);
    l->cap = cap;
    return jv_list_val(l);
}

struct jval jv_tuple(struct jctx *c, const struct jval *v, uint32_t n) {
    struct jval t = jv_list(c, n);
    t.tag = JT_TUPLE;
    for (uint32_t i = 0; i < n; i++) jlist_add(c, t.u.list, v[i]);
    return t;
}

void jlist_add(struct jctx *c, struct jlist *l, struct jval v) {
    if (l->n == l->cap) {
        if (l->cap > UINT32_MAX / 4) jx_fail(c, "limit", "a list grew too long");
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        struct jval *p = jx_alloc(c, cap, sizeof *p);
        if (l->n) memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

struct jval jv_undef(struct jctx *c, struct jval obj, struct jval name) {
    struct jval v = jv_tag(JT_UNDEF);
    v.u.undef = jx_alloc(c, 1, sizeof *v.u.undef);
    v.u.undef->obj = obj;
    v.u.undef->name = name;
    return v;
}

struct jval jv_undef_hint(struct jctx *c, const char *hint, struct jval name, bool security) {
    struct jval v = jv_undef(c, jv_missing(), name);
    v.u.undef->hint = hint;
    v.u.undef->security = security;
    return v;
}

struct jval jv_gen(struct jctx *c, const char *name, jgen_fill fill, const struct jargs *a) {
    struct jval v = jv_tag(JT_GEN);
    struct jgen *g = jx_alloc(c, 1, sizeof *g);
    g->name = name;
    g->fill = fill;
    g->args = *a;
    g->args.v = jx_alloc(c, (size_t)a->n + 1, sizeof *g->args.v);
    if (a->n) memcpy(g->args.v, a->v, (size_t)a->n * sizeof *a->v);
    g->args.kw = jx_alloc(c, (size_t)a->n_kw + 1, sizeof *g->args.kw);
    if (a->n_kw) memcpy(g->args.kw, a->kw, (size_t)a->n_kw * sizeof *a->kw);
    v.u.gen = g;
    return v;
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

struct jval jv_dict(struct jctx *c, uint32_t cap) {
    struct jval v = jv_tag(JT_DICT);
    v.u.dict = jx_alloc(c, 1, sizeof *v.u.dict);
    if (cap) v.u.dict->e = jx_alloc(c, cap, sizeof *v.u.dict->e);
    v.u.dict->cap = cap;
    return v;
}

/* Mixes the 8 bytes at s into the hash h and returns it. */
static uint64_t hash_word(uint64_t h, const char *s) {
    uint64_t w;
    memcpy(&w, s, 8);
    h = (h ^ w) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}
static uint64_t hash_bytes(const char *s, size_t n) {
    uint64_t h = 1469598103934665603u ^ n, w = 0;
    if (n > 32) return hash_u64(s, n);
    for (; n > 8; s += 8, n -= 8) h = hash_word(h, s);
    if (n) memcpy(&w, s, n);
    h = (h ^ w) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static uint64_t hash_int(int64_t i) {
    const uint64_t h = (uint64_t)i * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32; /* spreads multiples of powers of two */
}

/* Returns the hash of a key; equal keys have equal hashes. Fails for unhashable types. */
static uint64_t hash_of(struct jctx *c, struct jval k) {
    switch ((enum jtag)k.tag) {
    case JT_STR:
    case JT_BYTES:
        jx_bytes(c, k.len);
        return hash_bytes(k.u.s, k.len);
    case JT_BOOL:
    case JT_INT:
        return hash_int(k.u.i);
    case JT_FLOAT:
        if (k.u.f == floor(k.u.f) && fabs(k.u.f) < 9e18) return hash_int((int64_t)k.u.f);
        return hash_bytes((const char *)&k.u.f, sizeof k.u.f);
    case JT_TUPLE: {
        uint64_t h = 7;
        jx_deeper(c);
        for (uint32_t i = 0; i < k.u.list->n; i++) {
            jx_step(c);
            h = h * 31 + hash_of(c, k.u.list->v[i]);
        }
        c->nest--;
        return h;
    }
    case JT_VIEW:
        if (k.u.view->kind == JVIEW_VALUES) break;
        jx_fail(c, "TypeError", "unhashable type: '%s'", jv_type(k));
    case JT_LIST:
    case JT_DICT:
        jx_fail(c, "TypeError", "unhashable type: '%s'", jv_type(k));
    case JT_SLICE:
        jx_fail(c, "TypeError", "unhashable type: 'slice'");
    case JT_MISSING:
    case JT_UNDEF:
    case JT_NONE:
    case JT_BIG:
    case JT_RANGE:
    case JT_GEN:
    case JT_NS:
    case JT_MACRO:
    case JT_LOOP:
    case JT_FUNC:
    case JT_CYCLER:
    case JT_JOINER:
    case JT_COUNT:
        break;
    }
    return k.tag;
}

/* Returns whether the entry has the key k, whose hash is given. */
static bool same_key(struct jctx *c, const struct jent *e, struct jval k, uint64_t hash) {
    if (e->hash != hash) return false;
    if (e->k.tag == JT_STR && k.tag == JT_STR) return jv_eqs(e->k, k);
    return jv_equal(c, e->k, k);
}

/* Adds entry i to the hash index, which must have space for it. */
static void index_put(struct jdict *d, uint32_t i) {
    uint32_t at = (uint32_t)d->e[i].hash & (d->index_size - 1);
    while (d->index[at]) at = (at + 1) & (d->index_size - 1);
    d->index[at] = i + 1;
}

/* Number of entries from which a dict has an index; scanning is faster below. */
enum { INDEX_FROM = 9 };

/* Builds the hash index for at least twice the dict's capacity. */
static void rebuild_index(struct jctx *c, struct jdict *d) {
    d->index_size = d->cap * 2;
    while (d->index_size & (d->index_size - 1))
        d->index_size += d->index_size & (0u - d->index_size);
    d->index = jx_alloc(c, d->index_size, sizeof *d->index);
    for (uint32_t i = 0; i < d->n; i++) index_put(d, i);
}

/* Returns the entry of key k; NULL: not found. c may be NULL for string keys. */
static struct jent *find_entry(struct jctx *c, const struct jdict *d, struct jval k,
                               uint64_t hash) {
    if (!d->index) {
        for (uint32_t i = 0; i < d->n; i++)
            if (same_key(c, &d->e[i], k, hash)) return &d->e[i];
        return NULL;
    }
    for (uint32_t at = (uint32_t)hash & (d->index_size - 1); d->index[at];
         at = (at + 1) & (d->index_size - 1)) {
        struct jent *e = &d->e[d->index[at] - 1];
        if (c) jx_loop(c, 1); /* untrusted input can force collisions */
        if (same_key(c, e, k, hash)) return e;
    }
    return NULL;
}

/* Looks up a string in a dict too small for an index; comparing lengths first is cheaper than
 * hashing. NULL: not found. */
static struct jval *small_get(const struct jdict *d, const char *k, size_t n) {
    for (uint32_t i = 0; i < d->n; i++)
        if (d->e[i].k.len == n && d->e[i].k.tag == JT_STR &&
            (n == 0 || d->e[i].k.u.s == k || memcmp(d->e[i].k.u.s, k, n) == 0))
            return &d->e[i].v;
    return NULL;
}

struct jval *jdict_get(struct jctx *c, const struct jdict *d, struct jval k) {
    if (!d->index && k.tag == JT_STR) {
        jx_bytes(c, k.len);
        return small_get(d, k.u.s, k.len);
    }
    struct jent *e = find_entry(c, d, k, hash_of(c, k));
    return e ? &e->v : NULL;
}

struct jval *jdict_find(const struct jdict *d, const char *k, size_t n) {
    if (!d->index) return small_get(d, k, n);
    struct jent *e = find_entry(NULL, d, jv_strn(k, n), hash_bytes(k, n));
    return e ? &e->v : NULL;
}

void jdict_set(struct jctx *c, struct jdict *d, struct jval k, struct jval v) {
    uint64_t hash = hash_of(c, k);
    struct jent *e = find_entry(c, d, k, hash);
    if (e) {
        e->v = v;
        return;
    }
    if (d->n == d->cap) {
        if (d->cap > UINT32_MAX / 8) jx_fail(c, "limit", "a dict grew too large");
        d->cap = d->cap ? d->cap * 2 : 4;
        struct jent *p = jx_alloc(c, d->cap, sizeof *p);
        if (d->n) memcpy(p, d->e, d->n * sizeof *p);
        d->e = p;
        if (d->index) rebuild_index(c, d);
    }
    d->e[d->n] = (struct jent){k, v, hash};
    d->n++;
    if (d->index) {
        index_put(d, d->n - 1);
    } else if (d->n >= INDEX_FROM) {
        rebuild_index(c, d);
    }
}

/* ---- truth, numbers, equality, order --------------------------------------------------------- */

bool jv_is_num(struct jval v) {
    return v.tag == JT_BOOL || v.tag == JT_INT || v.tag == JT_BIG || v.tag == JT_FLOAT;
}

double jv_num(struct jctx *c, struct jval v) {
    if (v.tag == JT_FLOAT) return v.u.f;
    if (v.tag == JT_BIG) {
        double d = jbig_double(v);
        if (isinf(d)) jx_fail(c, "OverflowError", "int too large to convert to float");
        return d;
    }
    return (double)v.u.i;
}

int64_t jv_length(struct jctx *c, struct jval v) {
    switch ((enum jtag)v.tag) {
    case JT_STR:
        jx_bytes(c, v.len);
        return (int64_t)ju_count(v);
    case JT_BYTES:
        return v.len;
    case JT_LIST:
    case JT_TUPLE:
        return v.u.list->n;
    case JT_DICT:
        return v.u.dict->n;
    case JT_VIEW:
        return v.u.view->d->n;
    case JT_RANGE:
        return v.u.range->n;
    case JT_UNDEF:
        return 0;
    case JT_LOOP:
    case JT_MISSING:
    case JT_NONE:
    case JT_BOOL:
    case JT_INT:
    case JT_BIG:
    case JT_FLOAT:
    case JT_GEN:
    case JT_NS:
    case JT_MACRO:
    case JT_FUNC:
    case JT_CYCLER:
    case JT_JOINER:
    case JT_SLICE:
    case JT_COUNT:
        break;
    }
    return -1;
}

bool jv_truth(struct jctx *c, struct jval v) {
    switch ((enum jtag)v.tag) {
    case JT_MISSING:
    case JT_UNDEF:
    case JT_NONE:
        return false;
    case JT_BOOL:
    case JT_INT:
        return v.u.i != 0;
    case JT_FLOAT:
        return v.u.f != 0;
    case JT_STR:
    case JT_BYTES:
        return v.len != 0;
    case JT_LIST:
    case JT_TUPLE:
    case JT_DICT:
    case JT_VIEW:
    case JT_RANGE:
        return jv_length(c, v) != 0;
    case JT_BIG:
    case JT_GEN:
    case JT_NS:
    case JT_MACRO:
    case JT_LOOP:
    case JT_FUNC:
    case JT_CYCLER:
    case JT_JOINER:
    case JT_SLICE:
    case JT_COUNT:
        break;
    }
    return true;
}

/* Compares two numbers exactly; returns -1, 0 or 1, or 2 if one is NaN. */
static int num_order(struct jctx *c, struct jval a, struct jval b) {
    if (a.tag == JT_FLOAT || b.tag == JT_FLOAT) {
        double x = a.tag == JT_BIG ? jbig_double(a) : jv_num(c, a),
               y = b.tag == JT_BIG ? jbig_double(b) : jv_num(c, b);
        if (isnan(x) || isnan(y)) return 2;
        /* Beyond 2^53 the comparison must be exact. */
        if (x == y && fabs(x) >= 0x1p53 && a.tag != b.tag && !isinf(x))
            return jbig_cmp(c, a.tag == JT_FLOAT ? jbig_from_double(c, x) : a,
                            b.tag == JT_FLOAT ? jbig_from_double(c, y) : b);
        return x < y ? -1 : x > y;
    }
    if (a.tag == JT_BIG || b.tag == JT_BIG) return jbig_cmp(c, a, b);
    return a.u.i < b.u.i ? -1 : a.u.i > b.u.i;
}

/* Returns whether both have the same keys with equal values, in any order. */
static bool dict_equal(struct jctx *c, const struct jdict *a, const struct jdict *b) {
    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        jx_step(c);
        const struct jent *e = find_entry(c, b, a->e[i].k, a->e[i].hash);
        if (!e || !jv_equal(c, a->e[i].v, e->v)) return false;
    }
    return true;
}

bool jv_equal(struct jctx *c, struct jval a, struct jval b) {
    if (jv_is_num(a) && jv_is_num(b)) return num_order(c, a, b) == 0;
    if (a.tag != b.tag) return false;
    switch ((enum jtag)a.tag) {
    case JT_STR:
    case JT_BYTES:
        if (a.len == b.len && a.u.s != b.u.s) jx_bytes(c, a.len);
        return jv_eqs(a, b);
    case JT_LIST:
    case JT_TUPLE: {
        if (a.u.list == b.u.list) return true;
        if (a.u.list->n != b.u.list->n) return false;
        jx_deeper(c);
        bool same = true;
        for (uint32_t i = 0; same && i < a.u.list->n; i++) {
            jx_step(c);
            same = jv_equal(c, a.u.list->v[i], b.u.list->v[i]);
        }
        c->nest--;
        return same;
    }
    case JT_DICT: {
        if (a.u.dict == b.u.dict) return true;
        jx_deeper(c);
        bool same = dict_equal(c, a.u.dict, b.u.dict);
        c->nest--;
        return same;
    }
    case JT_RANGE:
        return a.u.range->n == b.u.range->n &&
               (a.u.range->n == 0 || (a.u.range->start == b.u.range->start &&
                                      (a.u.range->n == 1 || a.u.range->step == b.u.range->step)));
    case JT_FUNC:
        return a.u.func->row == b.u.func->row && a.u.func->self.tag == b.u.func->self.tag &&
               a.u.func->self.u.s == b.u.func->self.u.s;
    case JT_MISSING:
    case JT_UNDEF:
    case JT_NONE:
        return true;
    case JT_VIEW:
        if (a.u.view->kind == JVIEW_VALUES || a.u.view->kind != b.u.view->kind)
            return a.u.view == b.u.view;
        return dict_equal(c, a.u.view->d, b.u.view->d);
    case JT_BOOL:
    case JT_INT:
    case JT_BIG:
    case JT_FLOAT:
    case JT_GEN:
    case JT_NS:
    case JT_MACRO:
    case JT_LOOP:
    case JT_CYCLER:
    case JT_JOINER:
    case JT_SLICE:
    case JT_COUNT:
        break;
    }
    return a.u.s == b.u.s; /* equal only if identical */
}

int jv_order(struct jctx *c, struct jval a, struct jval b, const char *op) {
    if (a.tag == JT_UNDEF) jx_undef_fail(c, a);
    if (b.tag == JT_UNDEF) jx_undef_fail(c, b);
    if (jv_is_num(a) && jv_is_num(b)) return num_order(c, a, b);
    if (a.tag == b.tag && (a.tag == JT_STR || a.tag == JT_BYTES)) {
        /* Byte order in UTF-8 is code point order. */
        jx_bytes(c, a.len < b.len ? a.len : b.len);
        int d = memcmp(a.u.s, b.u.s, a.len < b.len ? a.len : b.len);
        return d ? (d < 0 ? -1 : 1) : a.len < b.len ? -1 : a.len > b.len;
    }
    if (a.tag == b.tag && (a.tag == JT_LIST || a.tag == JT_TUPLE)) {
        const struct jlist *x = a.u.list, *y = b.u.list;
        for (uint32_t i = 0; i < x->n && i < y->n; i++) {
            jx_step(c);
            if (jv_equal(c, x->v[i], y->v[i])) continue;
            jx_deeper(c);
            int d = jv_order(c, x->v[i], y->v[i], op);
            c->nest--;
            return d;
        }
        return x->n < y->n ? -1 : x->n > y->n;
    }
    jx_fail(c, "TypeError", "'%s' not supported between instances of '%s' and '%s'", op, jv_type(a),
            jv_type(b));
}

const char *jv_type(struct jval v) {
    static const char *const names[JT_COUNT] = {
        [JT_MISSING] = "missing", [JT_UNDEF] = "Undefined",  [JT_NONE] = "NoneType",
        [JT_BOOL] = "bool",       [JT_INT] = "int",          [JT_BIG] = "int",
        [JT_FLOAT] = "float",     [JT_STR] = "str",          [JT_BYTES] = "bytes",
        [JT_LIST] = "list",       [JT_TUPLE] = "tuple",      [JT_DICT] = "dict",
        [JT_RANGE] = "range",     [JT_GEN] = "generator",    [JT_NS] = "Namespace",
        [JT_MACRO] = "Macro",     [JT_LOOP] = "LoopContext", [JT_FUNC] = "function",
        [JT_CYCLER] = "Cycler",   [JT_JOINER] = "Joiner",    [JT_SLICE] = "slice",
        [JT_VIEW] = "dict_items",
    };
    if (v.tag == JT_VIEW) {
        static const char *const views[] = {"dict_items", "dict_keys", "dict_values"};
        return views[v.u.view->kind];
    }
    if (v.tag == JT_STR && (v.flag & JF_MARKUP)) return "Markup";
    return v.tag < JT_COUNT ? names[v.tag] : "object";
}

int64_t jv_index(struct jctx *c, struct jval v, const char *what) {
    if (v.tag == JT_INT || v.tag == JT_BOOL) return v.u.i;
    if (v.tag == JT_UNDEF) jx_undef_fail(c, v);
    if (v.tag == JT_BIG) return jbig_double(v) < 0 ? INT64_MIN : INT64_MAX;
    jx_fail(c, "TypeError", "%s: '%s' object cannot be interpreted as an integer", what,
            jv_type(v));
}

/* ---- iteration ------------------------------------------------------------------------------- */

void jiter_init(struct jctx *c, struct jiter *it, struct jval v) {
    it->of = v;
    it->i = 0;
    if (v.tag == JT_BYTES || v.tag == JT_LOOP) return;
    if (jv_length(c, v) < 0 && v.tag != JT_GEN)
        jx_fail(c, "TypeError", "'%s' object is not iterable", jv_type(v));
}

/* Returns item i of a dict view: a key, a value or a pair. */
static struct jval view_item(struct jctx *c, const struct jview *w, uint32_t i) {
    const struct jent *e = &w->d->e[i];
    if (w->kind == JVIEW_KEYS) return e->k;
    if (w->kind == JVIEW_VALUES) return e->v;
    struct jval pair[2] = {e->k, e->v};
    return jv_tuple(c, pair, 2);
}

/* Sets *out to the generator's next item. False: there are no more. */
static bool gen_next(struct jctx *c, struct jgen *g, struct jval *out) {
    if (!g->items) {
        g->items = jv_list(c, 0).u.list; /* A generator that consumes itself sees no items. */
        g->items = g->fill(c, &g->args).u.list;
    }
    if (g->pos >= g->items->n) return false;
    *out = g->items->v[g->pos++];
    return true;
}

bool jiter_next(struct jctx *c, struct jiter *it, struct jval *out) {
    struct jval v = it->of;
    if (v.tag == JT_LIST || v.tag == JT_TUPLE) {
        if (it->i >= v.u.list->n) return false;
        *out = v.u.list->v[it->i++];
    } else if (v.tag == JT_DICT) {
        if (it->i >= v.u.dict->n) return false;
        *out = v.u.dict->e[it->i++].k;
    } else if (v.tag == JT_STR) {
        if (it->i >= v.len) return false;
        size_t e = it->i;
        ju_next(v.u.s, v.len, &e);
        /* Characters of a Markup are plain strings as well. */
        *out = jv_strn(v.u.s + it->i, e - it->i);
        it->i = (uint32_t)e;
    } else if (v.tag == JT_GEN) {
        return gen_next(c, v.u.gen, out);
    } else if (v.tag == JT_VIEW) {
        if (it->i >= v.u.view->d->n) return false;
        *out = view_item(c, v.u.view, it->i++);
    } else if (v.tag == JT_RANGE) {
        if ((int64_t)it->i >= v.u.range->n) return false;
        *out = jv_int(v.u.range->start + (int64_t)it->i++ * v.u.range->step);
    } else if (v.tag == JT_BYTES) {
        if (it->i >= v.len) return false;
        *out = jv_int((unsigned char)v.u.s[it->i++]);
    } else {
        return false; /* Undefined */
    }
    return true;
}

struct jlist *jv_to_list(struct jctx *c, struct jval v) {
    struct jiter it;
    struct jval x, l = jv_list(c, 0);
    jiter_init(c, &it, v);
    while (jiter_next(c, &it, &x)) {
        jx_step(c);
        jlist_add(c, l.u.list, x);
    }
    return l.u.list;
}
