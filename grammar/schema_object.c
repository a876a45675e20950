// SPDX-License-Identifier: MIT
/* grammar/schema_object.c - JSON Schema objects: one row per listed member, and the languages of
 * names and values for unlisted ones. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/schema_int.h"

enum { PATTERNS_MAX = 4, NAMES_MAX = 4096 };

struct members {
    const char **name;
    bool *required;
    uint32_t n, cap;
    const struct json *pattern[PATTERNS_MAX]; /* patternProperties: members with different names */
    gnode key[PATTERNS_MAX];                  /* names that match each pattern */
    uint32_t n_pattern;
    gnode names; /* names that propertyNames allows; default: any */
    bool listed; /* propertyNames lists the allowed names, which may come in any order */
    bool lost;   /* a pattern was dropped, so any name may match it */
};

/* Returns the index of a member; m->n: not found. */
static uint32_t find_member(const struct members *m, const char *name) {
    uint32_t i = 0;
    while (i < m->n && strcmp(m->name[i], name) != 0) i++;
    return i;
}

/* Returns the index of a member, adding it if needed; sets an error at the limit. */
static uint32_t add_member_name(struct sc *c, struct members *m, const char *name,
                                const struct json *at) {
    const uint32_t i = find_member(m, name);
    if (!gram_spend(c->g, m->n)) return 0;
    if (i < m->n) return i;
    if (m->n == NAMES_MAX) {
        sc_fail(c, at, "an object with more than 4096 properties");
        return 0;
    }
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 16;
        m->name = xreallocarray(m->name, m->cap, sizeof *m->name);
        m->required = xreallocarray(m->required, m->cap, sizeof *m->required);
    }
    m->name[m->n] = name;
    m->required[m->n] = false;
    return m->n++;
}

/* Adds a patternProperties entry; reports one that cannot be enforced. */
static void add_pattern(struct sc *c, struct members *m, const struct json *p) {
    const struct gregex o = {.escaped = !c->form.open, .search = true, .ecma = true};
    struct err e;
    for (uint32_t i = 0; i < m->n_pattern; i++)
        if (strcmp(json_name(m->pattern[i]), json_name(p)) == 0) return;
    if (m->n_pattern == PATTERNS_MAX) {
        sc_relax(c, p, "more than 4 patternProperties in one object are not supported");
        m->lost = true;
        return;
    }
    gnode key = G_NONE;
    if (gn_regex(c->g, json_name(p), strlen(json_name(p)), &o, &key, &e)) {
        sc_relax(c, p, e.msg);
        m->lost = true;
        return;
    }
    m->pattern[m->n_pattern] = p;
    m->key[m->n_pattern++] = key;
}

/* Restricts member names to those that propertyNames allows. */
static void add_property_names(struct sc *c, struct members *m, const struct json *p) {
    struct sc_set set = {0};
    const struct json **v = NULL;
    size_t n = 0;
    sc_add(c, &set, p);
    if (set.never) {
        m->names = G_NONE;
    } else if (set.n && sc_values(c, &set, &v, &n)) {
        gnode *all = xcalloc(n + 1, sizeof *all);
        size_t n_all = 0;
        for (size_t i = 0; i < n; i++) {
            if (!json_str(v[i])) continue;
            all[n_all++] = sc_text(c, json_str(v[i]));
            if (n <= GRAM_PICK_BITS / 2) /* made listed members, so that each occurs once */
                m->listed = add_member_name(c, m, json_str(v[i]), p) < m->n;
        }
        m->names = gn_and(c->g, m->names, gn_alts(c->g, all, n_all));
        free(all);
    } else if (set.n) {
        for (uint32_t i = 0; i < set.n; i++)
            if (json_get(set.v[i].s, "anyOf") || json_get(set.v[i].s, "oneOf"))
                sc_relax(c, p, "alternatives in propertyNames are not supported");
        const gnode usual = gn_rep(c->g, sc_char(c), 0, GRAM_INF);
        gnode content = sc_content(c, &set);
        for (uint32_t i = 0; i < set.n;
             i++) { /* length limits, for names in their usual spelling */
            const uint32_t lo = sc_count(c, set.v[i].s, "minLength", 0),
                           hi = sc_count(c, set.v[i].s, "maxLength", GRAM_INF);
            if (lo <= hi) content = gn_and(c->g, content, gn_rep(c->g, sc_char(c), lo, hi));
        }
        m->names = gn_ands(c->g, (const gnode[]){m->names, content, usual}, 3);
    }
    free(v);
    sc_release(&set);
}

/* Collects the members that the schemas of the set name or require. */
static void gather_members(struct sc *c, const struct sc_set *set, struct members *m) {
    for (uint32_t i = 0; i < set->n && !c->rc; i++) {
        const struct json *s = set->v[i].s, *p = json_get(s, "properties"),
                          *q = json_get(s, "patternProperties"), *names;
        if (p && json_type(p) != JSON_OBJ) sc_fail(c, p, "is not an object");
        if (q && json_type(q) != JSON_OBJ) sc_fail(c, q, "is not an object");
        for (const struct json *x = json_first(p); x; x = json_next(x))
            add_member_name(c, m, json_name(x), x);
        for (const struct json *x = json_first(q); x; x = json_next(x)) add_pattern(c, m, x);
        names = json_get(s, "propertyNames");
        if (names) add_property_names(c, m, names);
    }
    for (uint32_t i = 0; i < set->n && !c->rc; i++) {
        const struct json *r = json_get(set->v[i].s, "required");
        if (json_type(r) == JSON_BOOL) continue; /* draft 3's `required: true` of a property */
        if (r && json_type(r) != JSON_ARR) sc_fail(c, r, "is not a list");
        for (const struct json *x = json_first(r); x; x = json_next(x)) {
            if (!json_str(x)) {
                sc_fail(c, x, "is not a name");
                return;
            }
            const uint32_t k = add_member_name(c, m, json_str(x), x);
            if (!c->rc) m->required[k] = true;
        }
    }
}

/* Returns the values allowed by all schemas that apply to a member. match: the patterns that its
 * name matches, as bits. name NULL: a member that is not in `properties`. */
static gnode value(struct sc *c, const struct sc_set *set, const struct members *m,
                   const char *name, uint32_t match) {
    struct sc_set out = {0};
    gram_spend(c->g, name ? m->n : 1);
    for (uint32_t i = 0; i < set->n; i++) {
        const struct json *s = set->v[i].s, *q = json_get(s, "patternProperties");
        const struct json *own = name ? json_get(json_get(s, "properties"), name) : NULL;
        bool any = own != NULL;
        if (own) sc_add(c, &out, own);
        for (uint32_t k = 0; k < m->n_pattern; k++) {
            const struct json *x = match >> k & 1 ? json_get(q, json_name(m->pattern[k])) : NULL;
            if (x) sc_add(c, &out, x);
            any = any || x;
        }
        const struct json *rest = json_get(s, "additionalProperties");
        if (!any && rest && (name || !m->lost)) sc_add(c, &out, rest);
    }
    return sc_node(c, &out);
}

/* Returns the language of a member's name and colon; content: the language of the name. */
static gnode key_node(struct sc *c, gnode content) {
    if (c->form.bare_names) return gn_cat(c->g, content, c->colon);
    return gn_cat(c->g, gn_cat3(c->g, c->open, content, c->close), c->colon);
}

void sc_once(struct sc *c, struct gpick *p, const gnode *key, const gnode *value, int n) {
    struct grammar *g = c->g;
    struct gother *v = xcalloc((size_t)n + 1, sizeof *v);
    const bool bare = c->form.bare_names;
    p->extra = G_NONE;
    for (int i = 0; i < n; i++) {
        v[i] = (struct gother){key[i], bare ? value[i] : gn_cat(g, c->colon, value[i])};
        p->extra = gn_alt(g, p->extra, gn_cat(g, gn_as_rule(g, key_node(c, key[i])), value[i]));
    }
    gram_once(g, p, v, n, bare ? (gnode)G_EPS : c->open, bare ? c->colon : c->close);
}

/* Sets the unlisted members of p: those not in `properties`. */
static void others(struct sc *c, const struct sc_set *set, const struct members *m,
                   struct gpick *p) {
    struct grammar *g = c->g;
    gnode keys[1 << PATTERNS_MAX], values[1 << PATTERNS_MAX];
    int n = 0;
    gnode *named = xcalloc(m->n + 1, sizeof *named);
    const struct gregex plain = {0};
    gnode bare = g->any;
    if (c->form.bare_names && gn_regex(g, "[A-Za-z_][A-Za-z0-9_]*", 22, &plain, &bare, c->e))
        c->rc = ERR_DATA;
    for (uint32_t i = 0; i < m->n; i++) named[i] = sc_text(c, m->name[i]);
    const gnode not_named = gn_not(g, gn_alts(g, named, m->n)),
                usual = gn_rep(g, sc_char(c), 0, GRAM_INF);
    free(named);
    for (uint32_t match = 0; match < 1u << m->n_pattern; match++) {
        gnode all[PATTERNS_MAX + 5] = {not_named, usual, m->names, bare, c->no_nul};
        for (uint32_t k = 0; k < m->n_pattern; k++)
            all[5 + k] = match >> k & 1 ? m->key[k] : gn_not(g, m->key[k]);
        const gnode v = value(c, set, m, NULL, match);
        if (v == G_NONE) continue;
        keys[n] = gn_ands(g, all, 5 + m->n_pattern);
        values[n++] = v;
    }
    sc_once(c, p, keys, values, n);
}

/* Returns whether the language `at` contains the one text that the node `text` matches. */
static bool holds(struct grammar *g, gnode at, gnode text) {
    while (text != G_EPS && at && gram_spend(g, 1)) {
        const struct gnode_data d = *gn(g, text);
        const struct gset *s = &g->set[d.kind == G_CAT ? gn(g, d.a)->a : d.a];
        int b = 0;
        while (!(s->w[b / 64] >> b % 64 & 1)) b++;
        text = d.kind == G_CAT ? d.b : (gnode)G_EPS;
        at = gn_deriv(g, at, (uint8_t)b);
    }
    return at && gn_null(g, at);
}

/* Returns the patterns that match a name, as bits. */
static uint32_t matching_patterns(struct grammar *g, const struct members *m, gnode name) {
    uint32_t match = 0;
    for (uint32_t k = 0; k < m->n_pattern; k++)
        if (holds(g, m->key[k], name)) match |= 1u << k;
    return match;
}

/* Adds the members that dependentRequired makes required. */
static void add_needed(struct sc *c, const struct json *d, const struct members *m, struct gpick *p,
                       const uint32_t *row) {
    for (const struct json *x = json_first(d); x; x = json_next(x)) {
        const uint32_t from = find_member(m, json_name(x));
        if (!gram_spend(c->g, (uint64_t)m->n * (uint64_t)(1 + json_len(x)))) return;
        if (json_type(x) != JSON_ARR || !json_first(x)) continue;
        if (p->n > GRAM_PICK_BITS || from >= m->n || row[from] == GRAM_INF) {
            if (p->n > GRAM_PICK_BITS || from >= m->n)
                sc_relax(c, x,
                         "dependentRequired is supported for at most 64 properties, "
                         "all of them named");
            continue;
        }
        for (const struct json *y = json_first(x); y; y = json_next(y)) {
            const uint32_t to = json_str(y) ? find_member(m, json_str(y)) : m->n;
            if (to >= m->n || row[to] == GRAM_INF)
                sc_relax(c, y, "dependentRequired lists a name that is not a property");
            else
                p->row[row[from]].needs |= (uint64_t)1 << row[to];
        }
    }
}

/* Sets the `needs` of the rows of p from dependentRequired, including indirect dependencies.
 * row[i]: row of member i; GRAM_INF: none. */
static void add_needs(struct sc *c, const struct sc_set *set, const struct members *m,
                      struct gpick *p, const uint32_t *row) {
    for (uint32_t i = 0; i < set->n; i++) {
        add_needed(c, json_get(set->v[i].s, "dependentRequired"), m, p, row);
        add_needed(c, json_get(set->v[i].s, "dependencies"), m, p, row); /* draft 7 */
    }
    for (int round = 0; round < p->n && p->n <= GRAM_PICK_BITS; round++)
        for (int i = 0; i < p->n; i++)
            for (int k = 0; k < p->n; k++)
                if (p->row[i].needs >> k & 1) p->row[i].needs |= p->row[k].needs;
}

/* Returns whether a schema restricts, or may restrict, members that are not in its properties. */
static bool speaks_of_others(const struct json *s) {
    static const char *const words[] = {
        "additionalProperties", "patternProperties", "unevaluatedProperties",
        "propertyNames",        "dependentSchemas",  "if",
        "$dynamicRef"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (json_get(s, words[i])) return true;
    for (const struct json *x = json_first(json_get(s, "dependencies")); x; x = json_next(x))
        if (json_type(x) == JSON_OBJ) return true;
    return false;
}

/* Returns whether to exclude unlisted members although JSON Schema allows them: a schema that lists
 * properties usually means no others, and models invent some. An object stays open if it lists no
 * properties or needs more members than it lists. */
static bool is_closed(const struct sc *c, const struct sc_set *set, const struct members *m,
                      uint32_t lo) {
    bool named = false;
    if (c->o.complete) return true;
    if (c->o.open || lo > m->n) return false;
    for (uint32_t i = 0; i < set->n; i++) {
        if (speaks_of_others(set->v[i].s)) return false;
        named = named || json_get(set->v[i].s, "properties");
    }
    return named;
}

/* Applies the rules of OpenAI's strict mode to an object. */
static void complete(struct sc *c, const struct sc_set *set, struct members *m) {
    for (uint32_t i = 0; i < set->n && !c->rc; i++) {
        const struct json *s = set->v[i].s, *rest = json_get(s, "additionalProperties"),
                          *p = json_get(s, "patternProperties");
        if (rest && (json_type(rest) != JSON_BOOL || json_bool(rest, true)))
            sc_fail(c, rest, "must be false if `strict` is true");
        if (p) sc_fail(c, p, "cannot be used if `strict` is true");
    }
    for (uint32_t i = 0; i < m->n; i++) m->required[i] = true;
}

/* Returns the language of objects of lo to hi members; G_NONE: impossible. */
static gnode build_object(struct sc *c, const struct sc_set *set, const struct members *m,
                          uint32_t lo, uint32_t hi) {
    struct grammar *g = c->g;
    struct gpick p = {.row = xcalloc(m->n + 1, sizeof *p.row),
                      .lo = lo,
                      .hi = hi,
                      .ordered = !c->o.any_order && !m->listed,
                      .first = c->space,
                      .sep = c->comma,
                      .close = gn_cat(g, c->space, gn_str(g, "}"))};
    uint32_t *row = xcalloc(m->n + 1, sizeof *row);
    bool possible = true;
    for (uint32_t i = 0; i < m->n && !c->rc; i++) {
        const gnode name = sc_text(c, m->name[i]);
        gnode v = value(c, set, m, m->name[i], matching_patterns(g, m, name));
        if (!holds(g, m->names, name)) v = G_NONE;
        row[i] = v == G_NONE ? GRAM_INF : (uint32_t)p.n;
        if (v == G_NONE && m->required[i]) possible = false;
        if (v == G_NONE) continue;
        p.row[p.n].body = gn_cat(g, key_node(c, name), v);
        p.row[p.n++].required = m->required[i];
    }
    add_needs(c, set, m, &p, row);
    free(row);
    if (!is_closed(c, set, m, lo)) others(c, set, m, &p);
    if (!possible || c->rc) {
        free(p.row);
        free(p.other);
        return G_NONE;
    }
    return gn_cat(g, gn_str(g, "{"), gn_pick(g, grammar_pick(g, &p), 0, 0));
}

gnode sc_object(struct sc *c, const struct sc_set *set) {
    struct members m = {.names = c->g->any};
    uint32_t lo = 0, hi = GRAM_INF;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct json *s = set->v[i].s;
        const uint32_t l = sc_count(c, s, "minProperties", 0),
                       h = sc_count(c, s, "maxProperties", GRAM_INF);
        if (l > lo) lo = l;
        if (h < hi) hi = h;
    }
    gather_members(c, set, &m);
    if (c->o.complete && !c->rc) complete(c, set, &m);
    const gnode out = c->rc || lo > hi ? (gnode)G_NONE : build_object(c, set, &m, lo, hi);
    free(m.name);
    free(m.required);
    return out;
}
