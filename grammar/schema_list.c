// SPDX-License-Identifier: MIT
/* grammar/schema_list.c - JSON Schema arrays: a schema per listed position, then one for all
 * further items, whose number a repetition node limits. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "grammar/schema_int.h"

enum { PREFIX_MAX = 1000 };

/* Returns the conjunction of all schemas for item i, counted from 0; i < 0: the items after all
 * listed ones. */
static gnode item(struct sc *c, const struct sc_set *set, int64_t i) {
    struct sc_set out = {0};
    for (uint32_t k = 0; k < set->n; k++) {
        const struct json *s = set->v[k].s, *items = json_get(s, "items");
        const bool old = json_type(items) == JSON_ARR; /* a list, as in draft 7 */
        const struct json *list = old ? items : json_get(s, "prefixItems");
        const struct json *rest = old ? json_get(s, "additionalItems") : items;
        const struct json *x = i >= 0 ? json_first(list) : NULL;
        for (int64_t n = 0; x && n < i; n++) x = json_next(x);
        if (!x) x = rest;
        if (x) sc_add(c, &out, x);
    }
    return sc_node(c, &out);
}

/* Returns the length of the set's longest list of item schemas. */
static int64_t n_listed(struct sc *c, const struct sc_set *set) {
    int64_t n = 0;
    for (uint32_t k = 0; k < set->n; k++) {
        const struct json *s = set->v[k].s, *items = json_get(s, "items");
        const struct json *list = json_type(items) == JSON_ARR ? items : json_get(s, "prefixItems");
        if (list && json_type(list) != JSON_ARR) sc_fail(c, list, "is not a list");
        n = max_i64(n, json_len(list));
        if (n > PREFIX_MAX) sc_fail(c, list, "more than 1000 items are listed");
    }
    return c->rc ? 0 : n;
}

/* Sets *out to the arrays of lo to hi different items, if the items' schema lists its values.
 * Returns false if it does not, or lists too many. */
static bool unique(struct sc *c, const struct sc_set *set, uint32_t lo, uint32_t hi, gnode *out) {
    struct grammar *g = c->g;
    struct sc_set of = {0};
    const struct json **v = NULL;
    size_t n = 0;
    for (uint32_t k = 0; k < set->n; k++) {
        const struct json *x = json_get(set->v[k].s, "items");
        if (x && json_type(x) != JSON_ARR) sc_add(c, &of, x);
    }
    const bool listed = of.n && !c->rc && sc_values(c, &of, &v, &n) && n <= GRAM_PICK_BITS;
    sc_release(&of);
    if (listed) {
        struct gpick p = {.row = xcalloc(n + 1, sizeof *p.row),
                          .n = (int)n,
                          .lo = lo,
                          .hi = (uint32_t)min_i64(hi, (int64_t)n),
                          .first = c->space,
                          .sep = c->comma,
                          .close = gn_cat(g, c->space, gn_str(g, "]"))};
        for (size_t i = 0; i < n; i++) p.row[i].body = sc_literal(c, v[i]);
        *out = lo > p.hi ? (gnode)G_NONE
                         : gn_cat(g, gn_str(g, "["), gn_pick(g, grammar_pick(g, &p), 0, 0));
        if (lo > p.hi) free(p.row);
    }
    free(v);
    return listed;
}

gnode sc_array(struct sc *c, const struct sc_set *set) {
    struct grammar *g = c->g;
    uint32_t lo = 0, hi = GRAM_INF;
    const struct json *differ = NULL;
    gnode out;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct json *s = set->v[i].s, *u = json_get(s, "uniqueItems");
        const uint32_t l = sc_count(c, s, "minItems", 0), h = sc_count(c, s, "maxItems", GRAM_INF);
        if (l > lo) lo = l;
        if (h < hi) hi = h;
        if (json_bool(u, false)) differ = u;
        const struct json *has = json_get(s, "contains");
        if (json_type(has) != JSON_BOOL) continue;
        const uint32_t most = json_bool(has, false) ? GRAM_INF : 0,
                       least = sc_count(c, s, "minContains", 1),
                       limit = sc_count(c, s, "maxContains", GRAM_INF);
        if (least > most) return G_NONE;
        if (least > lo) lo = least;
        if (most && limit < hi) hi = limit;
    }
    const int64_t listed = n_listed(c, set);
    if (lo > hi || c->rc) return G_NONE;
    if (differ && hi > 1 && !listed && unique(c, set, lo, hi, &out)) return out;
    if (differ && hi > 1) sc_relax(c, differ, "uniqueItems is supported for listed values only");
    const gnode rest = item(c, set, -1), open = gn_cat(g, gn_str(g, "["), c->space),
                close = gn_cat(g, c->space, gn_str(g, "]")), more = gn_cat(g, c->comma, rest);
    const uint32_t p = (uint32_t)listed;
    if (rest == G_NONE && hi > p) hi = p;
    if (lo > hi) return G_NONE;
    /* Builds from the last listed item to the first; `out` matches the items after the first i. */
    out =
        hi > p ? gn_rep(g, more, lo > p ? lo - p : 0, hi == GRAM_INF ? hi : hi - p) : (gnode)G_EPS;
    for (uint32_t i = p; i-- > 1;) {
        if (i >= hi) continue;
        out = gn_cat3(g, c->comma, item(c, set, (int64_t)i), out);
        if (i >= lo) out = gn_opt(g, out);
    }
    if (hi == 0) return gn_cat(g, open, close);
    if (p == 0)
        out = gn_cat(g, rest, gn_rep(g, more, lo > 0 ? lo - 1 : 0, hi == GRAM_INF ? hi : hi - 1));
    else
        out = gn_cat(g, item(c, set, 0), out);
    if (lo == 0) out = gn_opt(g, out);
    return gn_cat3(g, open, out, close);
}
