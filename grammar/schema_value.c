// SPDX-License-Identifier: MIT
/* grammar/schema_value.c - types and values of JSON Schema: which types a set of schemas allows,
 * and the languages of given and of unconstrained values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "grammar/schema_int.h"
#include "text/schema.h"

/* ---- types ---- */

/* Returns the bits of a type name; 0: unknown. */
static uint32_t type_bit(const char *s) {
    static const struct {
        const char *name;
        uint32_t bits;
    } all[] = {{"null", SC_NULL},           {"boolean", SC_BOOL}, {"integer", SC_INT},
               {"number", SC_INT | SC_NUM}, {"string", SC_STR},   {"array", SC_ARR},
               {"object", SC_OBJ}};
    for (size_t i = 0; s && i < COUNT_OF(all); i++)
        if (strcasecmp(all[i].name, s) == 0) return all[i].bits;
    return 0;
}

uint32_t sc_types_of(struct sc *c, const struct json *schema) {
    const struct json *t = json_get(schema, "type");
    uint32_t bits = 0;
    if (!t) return SC_ALL;
    const bool list = json_type(t) == JSON_ARR;
    for (const struct json *x = list ? json_first(t) : t; x; x = list ? json_next(x) : NULL) {
        const uint32_t one = type_bit(json_str(x));
        if (!one)
            sc_fail(c, x,
                    "must be a JSON type: null, boolean, integer, number, string, array or object");
        bits |= one;
    }
    if (json_bool(json_get(schema, "nullable"), false)) bits |= SC_NULL;
    return bits;
}

int64_t sc_not_types(struct sc *c, const struct json *no) {
    if (json_type(no) == JSON_BOOL) return json_bool(no, false) ? SC_ALL : 0;
    if (json_type(no) != JSON_OBJ) return -1;
    if (!json_first(no)) return SC_ALL;
    if (json_len(no) != 1 || !json_get(no, "type")) return -1;
    return sc_types_of(c, no);
}

uint32_t sc_value_type(const struct json *v) {
    int64_t i;
    switch (json_type(v)) {
    case JSON_NULL:
        return SC_NULL;
    case JSON_BOOL:
        return SC_BOOL;
    case JSON_NUM:
        return json_is_int(v) || json_i64(v, &i) ? SC_INT : SC_NUM;
    case JSON_STR:
        return SC_STR;
    case JSON_ARR:
        return SC_ARR;
    case JSON_OBJ:
        return SC_OBJ;
    }
    return 0;
}

uint32_t sc_set_types(struct sc *c, const struct sc_set *set) {
    uint32_t t = SC_ALL;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct json *no = json_get(set->v[i].s, "not");
        t &= sc_types_of(c, set->v[i].s);
        const int64_t out = no ? sc_not_types(c, no) : 0;
        if (out > 0) t &= ~(uint32_t)out;
    }
    return t;
}

/* ---- values ---- */

gnode sc_char(struct sc *c) {
    struct gchars set = {0};
    if (!c->form.python) return gn_char_any(c->g, !c->form.open);
    gchars_add(&set, 0, 0x1f);
    gchars_invert(&set);
    for (const char *s = "\t\n\r"; *s; s++) gchars_add(&set, (uint8_t)*s, (uint8_t)*s);
    gchars_sort(&set);
    const gnode out = gn_chars(c->g, &set, true);
    gchars_release(&set);
    return out;
}

gnode sc_text(struct sc *c, const char *s) {
    return c->form.open ? gn_text(c->g, s, strlen(s)) : gn_escaped(c->g, s, strlen(s));
}

gnode sc_name(struct sc *c, const char *s) {
    const gnode name = sc_text(c, s);
    if (c->form.bare_names) return gn_cat(c->g, name, c->colon);
    return gn_cat(c->g, gn_cat3(c->g, c->open, name, c->close), c->colon);
}

/* Writes a number with the fewest digits that round-trip; integers up to 21 digits without an
 * exponent. */
static void write_number(struct buf *b, double x) {
    char text[40];
    if (fabs(x) < 1e21 && !(x < trunc(x)) && !(x > trunc(x))) {
        buf_fmt(b, "%.0f", x);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        const double y = strtod(text, NULL);
        if (!(y < x) && !(y > x)) break;
    }
    buf_str(b, text);
}

gnode sc_literal(struct sc *c, const struct json *v) {
    struct grammar *g = c->g;
    struct buf b = {0};
    gnode out;
    if (json_str(v)) return gn_cat3(g, c->open, sc_text(c, json_str(v)), c->close);
    if (json_type(v) != JSON_ARR && json_type(v) != JSON_OBJ) {
        if (json_is_int(v))
            buf_str(&b, json_num_text(v)); /* exact, however large */
        else if (json_type(v) == JSON_NUM)
            write_number(&b, json_num(v, 0));
        else
            json_write(&b, v);
        out = gn_text(g, b.data, b.len);
        buf_release(&b);
        return out;
    }
    const bool obj = json_type(v) == JSON_OBJ;
    gnode *part = xcalloc(3 * (size_t)json_len(v) + 4, sizeof *part);
    size_t n = 0;
    part[n++] = gn_str(g, obj ? "{" : "[");
    part[n++] = c->space;
    for (const struct json *x = json_first(v); x; x = json_next(x)) {
        if (x != json_first(v)) part[n++] = c->comma;
        if (obj) part[n++] = sc_name(c, json_name(x));
        part[n++] = sc_literal(c, x);
    }
    part[n++] = c->space;
    part[n++] = gn_str(g, obj ? "}" : "]");
    out = gn_cats(g, part, n);
    free(part);
    return out;
}

/* Returns whether a value satisfies the rest of the set. Alternatives are decided elsewhere. A
 * schema with references cannot be checked by itself and counts as satisfied, since the set also
 * contains their targets. of: the schema that lists the value; NULL: none. */
static bool fits(struct sc *c, const struct sc_set *set, const struct json *v,
                 const struct json *of) {
    struct buf why = {0};
    bool all = (sc_value_type(v) & sc_set_types(c, set)) != 0;
    for (uint32_t i = 0; i < set->n && all; i++) {
        struct err ignored;
        bool ok = true;
        struct schema_how how = {.skip = set->v[i].s == of ? "enum" : NULL}; /* it contains v */
        if (set->v[i].done & SC_ANY_DONE && sc_only_says(set->v[i].s, "anyOf", "anyOf"))
            continue; /* the chosen branch is in the set */
        if (schema_check_how(set->v[i].s, v, &how, &ok, &why, &ignored)) ok = true;
        if (!gram_spend(c->g, 1 + (uint64_t)how.steps)) break;
        all = ok;
    }
    buf_release(&why);
    return all;
}

bool sc_values(struct sc *c, const struct sc_set *set, const struct json ***v, size_t *n) {
    const struct json *from = NULL, *one = NULL,
                      *list = NULL; /* list: the schema that contains the enum */
    *n = 0;
    *v = NULL;
    for (uint32_t i = 0; i < set->n && !one; i++) {
        const struct json *k = json_get(set->v[i].s, "const"), *l = json_get(set->v[i].s, "enum");
        if (k) one = k;
        if (l && json_type(l) != JSON_ARR) sc_fail(c, l, "enum is not a list");
        if (l) from = l, list = set->v[i].s;
    }
    if (!one && !from) return false;
    *v = xcalloc((size_t)(one ? 1 : json_len(from)) + 1, sizeof **v);
    for (const struct json *x = one ? one : json_first(from); x && !c->g->full;
         x = one ? NULL : json_next(x))
        if (fits(c, set, x, one ? NULL : list)) (*v)[(*n)++] = x;
    return true;
}

gnode sc_values_node(struct sc *c, const struct json **v, size_t n) {
    gnode *all = xcalloc(n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++) all[i] = sc_literal(c, v[i]);
    const gnode out = gn_alts(c->g, all, n);
    free(all);
    return out;
}

/* Returns the language of any member name, without its quotes, in the usual spelling. */
static gnode any_name(struct sc *c) {
    struct gchars set = {0};
    if (!c->form.bare_names) return gn_and(c->g, gn_rep(c->g, sc_char(c), 0, GRAM_INF), c->no_nul);
    gchars_add(&set, '0', '9');
    gchars_add(&set, 'A', 'Z');
    gchars_add(&set, 'a', 'z');
    gchars_add(&set, '_', '_');
    gchars_sort(&set);
    const gnode x = gn_chars(c->g, &set, false);
    gchars_release(&set);
    return gn_rep(c->g, x, 1, GRAM_INF);
}

/* Returns the language of objects with any member names and with values from the language `in`. */
static gnode any_object(struct sc *c, gnode in) {
    struct grammar *g = c->g;
    struct gpick p = {.row = xcalloc(1, sizeof *p.row),
                      .hi = GRAM_INF,
                      .first = c->space,
                      .sep = c->comma,
                      .close = gn_cat(g, c->space, gn_str(g, "}"))};
    const gnode name = any_name(c);
    sc_once(c, &p, &name, &in, 1);
    return gn_cat(g, gn_str(g, "{"), gn_pick(g, grammar_pick(g, &p), 0, 0));
}

gnode sc_free(struct sc *c, int levels) {
    struct grammar *g = c->g;
    if (c->free_value[levels]) return c->free_value[levels];
    const uint32_t r = grammar_rule(g);
    c->free_value[levels] = gn_rule(g, r);
    gnode v[8] = {gn_str(g, "null"), gn_str(g, "true"), gn_str(g, "false"), c->string, c->number};
    size_t n = 5;
    if (c->form.bare_names) v[n++] = gn_str(g, "None");
    if (levels > 0) {
        const gnode in = sc_free(c, levels - 1);
        const gnode items = gn_cat(g, in, gn_rep(g, gn_cat(g, c->comma, in), 0, GRAM_INF));
        v[n++] = gn_cat3(g, gn_cat(g, gn_str(g, "["), c->space), gn_opt(g, items),
                         gn_cat(g, c->space, gn_str(g, "]")));
        v[n++] = any_object(c, in);
    }
    g->rule[r].body = gn_alts(g, v, n);
    return c->free_value[levels];
}
