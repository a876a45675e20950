// SPDX-License-Identifier: MIT
/* grammar/gram_schema.c - JSON Schema compiler. It works on sets of schemas that apply together:
 * their keywords are merged, and each set becomes one rule, so a recursive schema becomes a
 * recursive rule. Alternatives (anyOf, oneOf, types) are multiplied out into one set per branch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "grammar/schema_int.h"
#include "text/schema.h"

enum { RULES_MAX = 20000, SET_MAX = 256, BUCKETS = 8192, DEEP = 32 };

/* ---- messages ---- */

/* Appends the path from `at` to its descendant `to`. */
static void path_to(const struct json *at, const struct json *to, struct buf *b) {
    int64_t i = 0;
    for (const struct json *x = json_first(at); x && at != to; x = json_next(x), i++) {
        if (!sc_holds(x, to)) continue;
        if (json_type(at) == JSON_ARR)
            buf_fmt(b, "[%" PRId64 "]", i);
        else
            buf_fmt(b, "%s%s", b->len ? "." : "", show_n(json_name(x), strlen(json_name(x))).s);
        path_to(x, to, b);
        return;
    }
}

/* Appends the path of `at` in the schema and ": "; appends nothing for the root. */
static void path_of(const struct sc *c, const struct json *at, struct buf *b) {
    buf_str(b, "");
    path_to(c->root, at, b);
    if (b->len) buf_str(b, ": ");
}

gnode sc_fail(struct sc *c, const struct json *at, const char *what) {
    struct buf b = {0};
    if (c->rc) return G_NONE;
    path_of(c, at, &b);
    c->rc = err_set(c->e, ERR_DATA, "%s%s", b.data, what);
    if (c->o.spot)
        snprintf(c->o.spot->path, sizeof c->o.spot->path, "%.*s", (int)(b.len ? b.len - 2 : 0),
                 b.data);
    buf_release(&b);
    return G_NONE;
}

/* Returns whether nothing has been reported about `at` so far and another note fits. */
static bool new_note(struct sc *c, const struct json *at) {
    for (uint32_t i = 0; i < c->n_noted; i++)
        if (c->noted[i] == at) return false;
    if (c->n_noted == SC_NOTES_MAX) return false;
    c->noted[c->n_noted++] = at;
    return true;
}

void sc_relax(struct sc *c, const struct json *at, const char *what) {
    struct buf b = {0};
    if (c->o.strict) {
        sc_fail(c, at, what);
        return;
    }
    if (!c->o.notes || !new_note(c, at)) return;
    path_of(c, at, &b);
    buf_fmt(&b, "%s\n", what);
    if (!strstr(c->o.notes->len ? c->o.notes->data : "", b.data))
        buf_add(c->o.notes, b.data, b.len);
    if (c->n_noted == SC_NOTES_MAX)
        buf_str(c->o.notes, "further unsupported clauses are not listed\n");
    buf_release(&b);
}

/* ---- sets ---- */

/* Returns whether the set contains s itself. */
static bool has_schema(const struct sc_set *set, const struct json *s) {
    for (uint32_t i = 0; i < set->n; i++)
        if (set->v[i].s == s) return true;
    return false;
}

bool sc_is_open(const struct sc_set *set, const struct json *s) {
    for (uint32_t i = 0; i < set->n; i++)
        if (set->v[i].s == s && set->v[i].open) return true;
    return false;
}

void sc_add(struct sc *c, struct sc_set *set, const struct json *schema) {
    if (c->rc || set->never) return;
    if (json_type(schema) == JSON_BOOL) {
        set->never = !json_bool(schema, true);
        return;
    }
    if (json_type(schema) != JSON_OBJ) {
        sc_fail(c, schema, "a schema must be an object, true or false");
        return;
    }
    if (has_schema(set, schema)) return;
    if (set->n == SET_MAX) {
        sc_fail(c, schema, "more than 256 schemas apply at once");
        return;
    }
    if ((set->n & (set->n - 1)) == 0)
        set->v = xreallocarray(set->v, set->n ? 2 * set->n : 1, sizeof *set->v);
    const uint32_t own = set->n++;
    set->v[own] = (struct sc_item){schema, 0, true};
    const struct json *ref = json_get(schema, "$ref"), *all = json_get(schema, "allOf"),
                      *test = json_get(schema, "if");
    if (ref) sc_add_ref(c, set, schema, ref);
    if (sc_static_ref(c, schema)) sc_add_ref(c, set, schema, json_get(schema, "$dynamicRef"));
    if (all && json_type(all) != JSON_ARR) sc_fail(c, all, "allOf is not a list");
    for (const struct json *x = all ? json_first(all) : NULL; x; x = json_next(x))
        sc_add(c, set, x);
    if (json_type(test) == JSON_BOOL) { /* a constant condition selects the branch */
        const struct json *x = json_get(schema, json_bool(test, false) ? "then" : "else");
        if (x) sc_add(c, set, x);
    }
    set->v[own].open = false;
}

void sc_release(struct sc_set *set) {
    free(set->v);
    *set = (struct sc_set){0};
}

/* ---- rules ---- */

bool sc_only_says(const struct json *schema, const char *one, const char *two) {
    static const char *const remark[] = {"title",    "description",        "default", "examples",
                                         "$comment", "deprecated",         "$defs",   "definitions",
                                         "readOnly", "markdownDescription"};
    for (const struct json *x = json_first(schema); x; x = json_next(x)) {
        const char *word = json_name(x);
        size_t i = 0;
        if (strcmp(word, one) == 0 || strcmp(word, two) == 0) continue;
        while (i < COUNT_OF(remark) && strcmp(word, remark[i]) != 0) i++;
        if (i == COUNT_OF(remark)) return false;
    }
    return true;
}

/* Drops schemas without conditions of their own; the targets of their references are already in the
 * set. So equivalent references lead to equal sets. */
static void drop_empty(struct sc_set *set) {
    uint32_t m = 0;
    for (uint32_t i = 0; i < set->n; i++)
        if (!sc_only_says(set->v[i].s, "$ref", "allOf")) set->v[m++] = set->v[i];
    set->n = m;
}

gnode sc_node(struct sc *c, struct sc_set *set) {
    drop_empty(set);
    if (set->never || c->rc) {
        sc_release(set);
        return G_NONE;
    }
    if (set->n == 0) {
        sc_release(set);
        return c->any;
    }
    uint64_t h = 0;
    gram_spend(c->g, set->n);
    for (uint32_t i = 0; i < set->n; i++)
        h = (h ^ (uintptr_t)set->v[i].s ^ set->v[i].done) * 0x9e3779b97f4a7c15u;
    const uint32_t b = (uint32_t)(h >> 40) % BUCKETS;
    for (uint32_t i = c->bucket[b]; i; i = c->rule[i - 1].chain) {
        const struct sc_set *o = &c->rule[i - 1].set;
        bool same = o->n == set->n;
        for (uint32_t k = 0; same && k < set->n; k++)
            same = o->v[k].s == set->v[k].s && o->v[k].done == set->v[k].done;
        if (!same) continue;
        sc_release(set);
        return gn_rule(c->g, c->rule[i - 1].rule);
    }
    if (c->n_rule == RULES_MAX) {
        sc_fail(c, set->v[0].s, "the schema has more than 20000 combinations");
        sc_release(set);
        return G_NONE;
    }
    if (c->n_rule == c->cap_rule) {
        c->cap_rule = c->cap_rule ? 2 * c->cap_rule : 64;
        c->rule = xreallocarray(c->rule, c->cap_rule, sizeof *c->rule);
    }
    c->rule[c->n_rule] = (struct sc_rule){*set, grammar_rule(c->g), c->bucket[b]};
    c->bucket[b] = ++c->n_rule;
    *set = (struct sc_set){0};
    return gn_rule(c->g, c->rule[c->n_rule - 1].rule);
}

uint32_t sc_count(struct sc *c, const struct json *schema, const char *key, uint32_t otherwise) {
    const struct json *v = json_get(schema, key);
    const double x = json_num(v, -1);
    if (!v) return otherwise;
    if (json_type(v) != JSON_NUM || !(x >= 0) || (x < 1e18 && x > (double)(uint64_t)x)) {
        sc_fail(c, v, "must be an integer >= 0");
        return otherwise;
    }
    return x >= (double)GRAM_INF ? GRAM_INF : (uint32_t)x;
}

/* ---- a set ---- */

/* Unsupported keywords. */
static const struct {
    const char *key, *what;
    bool constants; /* true and false are supported */
} relaxed[] = {
    {"if", "if, then and else are not supported", true},
    {"contains", "contains is not supported", true},
    {"dependentSchemas", "dependentSchemas is not supported", false},
    {"unevaluatedProperties", "unevaluatedProperties is not supported", false},
    {"unevaluatedItems", "unevaluatedItems is not supported", false},
    {"$dynamicRef", "$dynamicRef is not supported", false},
    {"contentSchema", "contentSchema is not supported", false},
};

/* Reports the keywords of a schema that are not enforced. */
static void note_relaxed(struct sc *c, const struct json *schema) {
    for (size_t i = 0; i < COUNT_OF(relaxed); i++) {
        const struct json *x = json_get(schema, relaxed[i].key);
        if (!x || (json_type(x) == JSON_BOOL && (relaxed[i].constants || json_bool(x, false))))
            continue;
        if (strcmp(relaxed[i].key, "$dynamicRef") == 0 && sc_static_ref(c, schema)) continue;
        sc_relax(c, x, relaxed[i].what);
    }
    for (const struct json *x = json_first(json_get(schema, "dependencies")); x; x = json_next(x))
        if (json_type(x) != JSON_ARR && !json_bool(x, false))
            sc_relax(c, x, "dependencies with schemas are not supported");
    const struct json *no = json_get(schema, "not");
    bool values = no && json_len(no) == 1 && (json_get(no, "enum") || json_get(no, "const"));
    const struct json *k = json_get(no, "const");
    for (const struct json *x = k ? k : json_first(json_get(no, "enum")); x && values;
         x = k ? NULL : json_next(x))
        values = !(sc_value_type(x) & sc_types_of(c, schema) & (SC_ARR | SC_OBJ));
    if (no && sc_not_types(c, no) < 0 && !values)
        sc_relax(c, no, "this kind of `not` is not supported");
}

/* Returns the only value that a branch allows for its required member `name`, which then
 * discriminates between branches. NULL: there is no such value. */
static const struct json *decides(const struct json *branch, const char *name) {
    const struct json *p = json_get(json_get(branch, "properties"), name),
                      *k = json_get(p, "const");
    bool due = false;
    for (const struct json *r = json_first(json_get(branch, "required")); r; r = json_next(r))
        due = due || (json_str(r) && strcmp(json_str(r), name) == 0);
    if (k && due) return k;
    return due && json_len(json_get(p, "enum")) == 1 ? json_first(json_get(p, "enum")) : NULL;
}

/* Returns the number of steps that decides() takes. */
static uint64_t due_cost(const struct json *branch) {
    return (uint64_t)(json_len(json_get(branch, "properties")) +
                      json_len(json_get(branch, "required")));
}

/* Returns the target of a $ref, or s itself if it has none or it cannot be resolved. */
static const struct json *follow_ref(struct sc *c, const struct json *s) {
    const char *ref = json_str(json_get(s, "$ref"));
    const struct json *to = ref ? sc_resolve(c, s, ref) : NULL;
    return to ? to : s;
}

/* Returns whether it is certain that no value can satisfy both a and b. */
static bool are_disjoint(struct sc *c, const struct json *a, const struct json *b) {
    a = follow_ref(c, a);
    b = follow_ref(c, b);
    if (json_type(a) == JSON_BOOL || json_type(b) == JSON_BOOL)
        return !json_bool(a, true) || !json_bool(b, true);
    if (!(sc_types_of(c, a) & sc_types_of(c, b))) return true;
    const struct json *k = json_get(a, "const"), *l = json_get(b, "const");
    if (k && l) return !json_equal(k, l);
    const struct json *m = json_get(a, "enum"), *n = json_get(b, "enum");
    if ((m || k) && (n || l)) {
        for (const struct json *x = k ? k : json_first(m);
             x && gram_spend(c->g, (uint64_t)(l ? 1 : json_len(n))); x = k ? NULL : json_next(x))
            for (const struct json *y = l ? l : json_first(n); y; y = l ? NULL : json_next(y))
                if (json_equal(x, y)) return false;
        return true;
    }
    if (!(sc_types_of(c, a) & sc_types_of(c, b) & ~(uint32_t)SC_OBJ))
        for (const struct json *p = json_first(json_get(a, "properties")); p; p = json_next(p)) {
            const struct json *x = decides(a, json_name(p)), *y = decides(b, json_name(p));
            if (!gram_spend(c->g, due_cost(a) + due_cost(b))) return false;
            if (x && y && !json_equal(x, y)) return true;
        }
    return false;
}

/* Returns whether it is certain that all schemas in the list are disjoint. */
static bool all_disjoint(struct sc *c, const struct json *list) {
    int64_t n = 0;
    for (const struct json *a = json_first(list); a; a = json_next(a))
        for (const struct json *b = json_next(a); b; b = json_next(b))
            if (++n > 100000 || !gram_spend(c->g, 8) || !are_disjoint(c, a, b)) return false;
    return true;
}

/* Returns whether the set lists values but none of them satisfies it. Such a branch is dropped. */
static bool without_value(struct sc *c, const struct sc_set *set) {
    const struct json **v;
    size_t n;
    const bool out = !set->never && sc_values(c, set, &v, &n) && n == 0;
    if (!set->never) free(v);
    return out;
}

/* Multiplies out the set's first anyOf or oneOf that is not done yet, and builds each branch with
 * `make`. Returns false if all are done. */
static bool branches(struct sc *c, const struct sc_set *set,
                     gnode (*make)(struct sc *c, struct sc_set *set), gnode *out) {
    static const char *const keys[] = {"anyOf", "oneOf"};
    static const uint32_t bits[] = {SC_ANY_DONE, SC_ONE_DONE};
    for (uint32_t i = 0; i < set->n; i++)
        for (int k = 0; k < 2; k++) {
            const struct json *list = json_get(set->v[i].s, keys[k]);
            if (!list || set->v[i].done & bits[k]) continue;
            gnode *v = xcalloc((size_t)json_len(list) + 1, sizeof *v);
            size_t n = 0;
            if (json_type(list) != JSON_ARR || !json_first(list))
                sc_fail(c, list, "is not a list of schemas");
            if (k == 1 && !all_disjoint(c, list))
                sc_relax(c, list, "branches that may overlap are treated as anyOf");
            for (const struct json *x = json_first(list); x && !c->rc; x = json_next(x)) {
                struct sc_set s = {.n = set->n};
                uint32_t cap = 1;
                while (cap < set->n) cap *= 2;
                s.v = xcalloc(cap, sizeof *s.v);
                memcpy(s.v, set->v, set->n * sizeof *s.v);
                s.v[i].done |= bits[k];
                sc_add(c, &s, x);
                if (without_value(c, &s)) s.never = true;
                v[n++] = make(c, &s);
            }
            *out = gn_alts(c->g, v, n);
            free(v);
            return true;
        }
    return false;
}

/* Returns the language of the literal text, or G_NONE if a `not` excludes it. */
static gnode not_value(struct sc *c, const struct sc_set *set, const char *text, uint32_t type) {
    for (uint32_t i = 0; i < set->n; i++) {
        const struct json *no = json_get(set->v[i].s, "not"), *k = json_get(no, "const");
        for (const struct json *x = k ? k : json_first(json_get(no, "enum")); x;
             x = k ? NULL : json_next(x)) {
            if (sc_value_type(x) != type) continue;
            if (type == SC_NULL || json_bool(x, false) == (text[0] == 't')) return G_NONE;
        }
    }
    return gn_str(c->g, text);
}

/* Returns the language of values that satisfy all schemas of the set. */
static gnode set_body(struct sc *c, const struct sc_set *set) {
    gnode v[9];
    size_t n = 0, n_value;
    const struct json **value;
    if (branches(c, set, sc_node, &v[0])) return v[0];
    for (uint32_t i = 0; i < set->n; i++) note_relaxed(c, set->v[i].s);
    if (sc_values(c, set, &value, &n_value)) {
        v[0] = sc_values_node(c, value, n_value);
        free(value);
        return v[0];
    }
    const uint32_t t = sc_set_types(c, set);
    if (t & SC_NULL) v[n++] = not_value(c, set, "null", SC_NULL);
    if (t & SC_NULL && c->form.bare_names) v[n++] = not_value(c, set, "None", SC_NULL);
    if (t & SC_BOOL) {
        v[n++] = not_value(c, set, "true", SC_BOOL);
        v[n++] = not_value(c, set, "false", SC_BOOL);
    }
    if (t & (SC_NUM | SC_INT)) v[n++] = sc_number(c, set, t);
    if (t & SC_STR) v[n++] = sc_string(c, set);
    if (t & SC_ARR) v[n++] = sc_array(c, set);
    if (t & SC_OBJ) v[n++] = sc_object(c, set);
    return gn_alts(c->g, v, n);
}

/* ---- entry points ---- */

/* Creates the nodes for unconstrained values, or reuses those of an earlier schema in this grammar
 * that has the same notation. */
static void plain_values(struct sc *c) {
    static const struct sc_set any = {0};
    struct grammar *g = c->g;
    struct sc_plain p = {c->open,        c->close, c->colon, c->comma, c->form.bare_names,
                         c->form.python, G_NONE,   G_NONE,   G_NONE,   {0}};
    for (uint32_t i = 0; i < g->n_plain && !c->any; i++) {
        const struct sc_plain *x = &g->plain[i];
        if (x->open != p.open || x->close != p.close || x->colon != p.colon ||
            x->comma != p.comma || x->bare_names != p.bare_names || x->python != p.python)
            continue;
        c->string = x->string;
        c->number = x->number;
        c->integer = x->integer;
        memcpy(c->free_value, x->free_value, sizeof c->free_value);
        c->any = c->free_value[SC_FREE_DEPTH];
    }
    if (c->any) return;
    c->string = p.string = gn_as_rule(g, gn_cat3(g, c->open, sc_content(c, &any), c->close));
    sc_plain_numbers(c);
    p.number = c->number;
    p.integer = c->integer;
    c->any = sc_free(c, SC_FREE_DEPTH);
    memcpy(p.free_value, c->free_value, sizeof p.free_value);
    g->plain = xreallocarray(g->plain, g->n_plain + 1, sizeof *g->plain);
    g->plain[g->n_plain++] = p;
}

/* Creates the nodes that all values share, such as separators. */
static void start_schema(struct sc *c) {
    struct grammar *g = c->g;
    static const char *const colon[] = {":", ": ", ":"}, *const comma[] = {",", ", ", ","};
    const struct gform *f = &c->form;
    c->open = f->open ? gn_marker(g, f->open, strlen(f->open)) : gn_str(g, "\"");
    c->close = f->open ? gn_marker(g, f->close, strlen(f->close)) : c->open;
    c->space = G_EPS;
    c->bucket = xcalloc(BUCKETS, sizeof *c->bucket);
    if (c->o.space == GRAM_SPACE_FREE)
        c->space = gn_alt(g, gn_opt(g, gn_str(g, " ")),
                          gn_cat(g, gn_str(g, "\n"), gn_rep(g, gn_str(g, " "), 0, 32)));
    c->colon = gn_cat(g, gn_str(g, colon[c->o.space]), c->space);
    c->comma = gn_cat(g, gn_str(g, comma[c->o.space]), c->space);
    c->no_nul = gn_not(g, gn_cat3(g, g->any, gn_str(g, "\\u0000"), g->any));
    plain_values(c);
}

static void finish_schema(struct sc *c) {
    for (uint32_t i = 0; i < c->n_rule; i++) sc_release(&c->rule[i].set);
    free(c->rule);
    free(c->bucket);
    sc_ids_free(c);
}

int gn_schema(struct grammar *g, const struct json *root, const struct json *at,
              const struct gram_opts *o, const struct gform *form, gnode *out, struct err *e) {
    static const char object[] = "{\"type\": \"object\"}",
                      no_text[] = "{\"not\": {\"type\": \"string\"}}";
    struct sc c = {.g = g, .root = root, .e = e};
    struct sc_set set = {0};
    struct json *more = NULL;
    if (o) c.o = *o;
    if (form) c.form = *form;
    start_schema(&c);
    sc_add(&c, &set, at);
    if ((c.form.object || c.form.no_text) && !c.rc) {
        const char *text = c.form.object ? object : no_text;
        c.rc = json_parse(&more, text, strlen(text), "schema", e);
        sc_add(&c, &set, more);
    }
    *out = sc_node(&c, &set);
    for (uint32_t i = 0; i < c.n_rule && !c.rc && !g->full; i++) {
        struct sc_set copy = c.rule[i].set;
        const gnode body = set_body(&c, &copy);
        g->rule[c.rule[i].rule].body = body;
    }
    finish_schema(&c);
    json_free(more);
    return c.rc ? c.rc : grammar_full(g, e);
}

enum { TEXTS_MAX = 4096 };

/* Returns the strings that satisfy the set, and records which other types it allows. Takes
 * ownership of the set. */
static gnode set_text(struct sc *c, struct sc_set *set) {
    const struct json **v = NULL;
    size_t n = 0;
    gnode out = G_NONE;
    if (++c->n_texts > TEXTS_MAX) sc_fail(c, c->root, "a string with more than 4096 alternatives");
    if (!set->never && !c->rc && !branches(c, set, set_text, &out)) {
        for (uint32_t i = 0; i < set->n; i++) note_relaxed(c, set->v[i].s);
        const uint32_t t = sc_set_types(c, set);
        if (sc_values(c, set, &v, &n)) {
            gnode *text = xcalloc(n + 1, sizeof *text);
            size_t n_text = 0;
            for (size_t i = 0; i < n; i++) {
                if (json_str(v[i]))
                    text[n_text++] = sc_text(c, json_str(v[i]));
                else
                    c->others.all |= 1u << json_type(v[i]);
            }
            out = gn_alts(c->g, text, n_text);
            free(text);
        } else {
            static const uint32_t type[] = {
                [JSON_NULL] = SC_NULL, [JSON_BOOL] = SC_BOOL, [JSON_NUM] = SC_NUM | SC_INT,
                [JSON_STR] = 0,        [JSON_ARR] = SC_ARR,   [JSON_OBJ] = SC_OBJ};
            for (uint32_t k = 0; k < COUNT_OF(type); k++)
                if (t & type[k]) c->others.all |= 1u << k, c->others.any |= 1u << k;
            if (t & SC_STR) out = sc_content(c, set);
        }
        free(v);
    }
    sc_release(set);
    return out;
}

int gn_schema_text(struct grammar *g, const struct json *root, const struct json *at,
                   const struct gram_opts *o, gnode *out, struct gothers *others, struct err *e) {
    struct sc c = {.g = g, .root = root, .e = e, .form = {.open = "", .close = ""}};
    struct sc_set set = {0};
    if (o) c.o = *o;
    start_schema(&c);
    sc_add(&c, &set, at);
    drop_empty(&set);
    const bool anything = set.n == 0 && !set.never;
    *out = set_text(&c, &set);
    *others = anything ? (struct gothers){0} : c.others;
    finish_schema(&c);
    return c.rc ? c.rc : grammar_full(g, e);
}

/* Compiles `at`, a part of `root`, into a sealed grammar. */
static int compile_schema(struct grammar **out, const struct gram_vocab *v, const struct json *root,
                          const struct json *at, const struct gram_opts *o, struct err *e) {
    struct grammar *g = grammar_new(v);
    gnode n = G_NONE;
    const int rc = gn_schema(g, root, at, o, NULL, &n, e);
    return grammar_done(out, g, n, rc, e);
}

/* Returns whether the schema `at` alone is unsatisfiable. */
static bool impossible(const struct gram_vocab *v, const struct json *root, const struct json *at,
                       const struct gram_opts *o) {
    const struct gram_opts quiet = {.any_order = o && o->any_order,
                                    .open = o && o->open,
                                    .complete = o && o->complete,
                                    .space = GRAM_SPACE_NONE};
    struct grammar *g = NULL;
    struct err why;
    if (!at || compile_schema(&g, v, root, at, &quiet, &why) == 0) {
        grammar_free(g);
        return false;
    }
    return strcmp(why.msg, GRAM_NO_TEXT) == 0;
}

/* Returns the part at fault in the unsatisfiable schema `at`: the innermost required part that is
 * unsatisfiable on its own. */
static const struct json *culprit(const struct gram_vocab *v, const struct json *root,
                                  const struct json *at, const struct gram_opts *o, int depth) {
    static const char *const lists[] = {"allOf", "prefixItems"};
    const struct json *found = NULL, *props = json_get(at, "properties"),
                      *least = json_get(at, "minItems");
    for (const struct json *r = json_first(json_get(at, "required")); r && !found; r = json_next(r))
        if (json_str(r) && impossible(v, root, json_get(props, json_str(r)), o))
            found = json_get(props, json_str(r));
    for (size_t i = 0; i < COUNT_OF(lists) && !found; i++) {
        const struct json *x = json_first(json_get(at, lists[i]));
        for (double n = i ? json_num(least, 0) : 1e9; x && n > 0 && !found; n--, x = json_next(x))
            if (impossible(v, root, x, o)) found = x;
    }
    const struct json *items = json_get(at, "items");
    if (!found && json_num(least, 0) > 0 && impossible(v, root, items, o)) found = items;
    return !found || depth == 0 ? at : culprit(v, root, found, o, depth - 1);
}

/* Returns whether `at` may forbid its own members: it has additionalProperties: false, and allOf or
 * $ref. */
static bool shuts_out(const struct json *at) {
    static const char key[] = "additionalProperties";
    const struct json *all = json_get(at, "allOf");
    bool open = json_bool(json_get(at, key), true);
    for (const struct json *x = json_first(all); x && open; x = json_next(x))
        open = json_bool(json_get(x, key), true);
    return !open && (all || json_get(at, "$ref"));
}

int grammar_of_schema(struct grammar **out, const struct gram_vocab *v, const struct json *schema,
                      const struct gram_opts *o, struct err *e) {
    static const char shut[] =
        GRAM_NO_TEXT ": additionalProperties: false forbids the properties of allOf and $ref; list "
                     "them next to it, or leave it out, as objects that list properties are closed";
    struct ctx_cost all = {0}, *before = ctx_cost(); /* one cost limit for all compilations here */
    if (!before) ctx_cost_enter(&all);
    const int rc = compile_schema(out, v, schema, schema, o, e);
    if (rc == ERR_DATA && strcmp(e->msg, GRAM_NO_TEXT) == 0) {
        struct sc c = {.root = schema, .e = e};
        const struct json *at = culprit(v, schema, schema, o, DEEP);
        sc_fail(&c, at, shuts_out(at) ? shut : GRAM_NO_TEXT);
    }
    ctx_cost_enter(before);
    return rc;
}

int grammar_of_json(struct grammar **out, const struct gram_vocab *v, bool object_only,
                    const struct gram_opts *o, struct err *e) {
    static const char any[] = "true", object[] = "{\"type\": \"object\"}";
    const char *text = object_only ? object : any;
    struct json *schema = NULL;
    TRY(json_parse(&schema, text, strlen(text), "JSON", e));
    const int rc = grammar_of_schema(out, v, schema, o, e);
    json_free(schema);
    return rc;
}
