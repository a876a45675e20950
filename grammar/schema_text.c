// SPDX-License-Identifier: MIT
/* grammar/schema_text.c - JSON Schema strings: lengths, patterns, formats. If only the length is
 * limited, characters may be spelled in any way that JSON allows. Patterns and formats require the
 * usual spelling. */
#include <string.h>

#include "grammar/bnf.h"
#include "grammar/schema_int.h"

/* ---- formats ---- */

#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
/* Year 0 is excluded, because many parsers reject it. */
#define YEAR "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define DATE                                                                                       \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"      \
    "02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]" \
    ")"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCT "%[0-9A-Fa-f]{2}"
#define URI_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define PARTS "[0-9]{1,9}"
/* As in RFC 3339, 5321 (without quoted local parts), 1123, 4291, 4122, 3986 (without IPv6
 * hosts). */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[Tt]" TIME},
    {"duration", "P(" PARTS "W|" PARTS "Y(" PARTS "M(" PARTS "D)?)?(T" PARTS "H(" PARTS "M(" PARTS
                 "S)?)?)?|" PARTS "M(" PARTS "D)?(T" PARTS "H(" PARTS "M(" PARTS "S)?)?)?|" PARTS
                 "D(T" PARTS "H(" PARTS "M(" PARTS "S)?)?)?|T(" PARTS "H(" PARTS "M(" PARTS
                 "S)?)?|" PARTS "M(" PARTS "S)?|" PARTS "S))"},
    {"email", ATEXT "(\\." ATEXT ")*@" LABEL "(\\." LABEL ")*"},
    {"hostname", LABEL "(\\." LABEL "){0,8}"},
    {"ipv4", IPV4},
    {"ipv6", "(" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|(" H16
             "(:" H16 ")?)?::(" H16 ":){3}" LS32 "|(" H16 "(:" H16 "){0,2})?::(" H16 ":){2}" LS32
             "|(" H16 "(:" H16 "){0,3})?::" H16 ":" LS32 "|(" H16 "(:" H16 "){0,4})?::" LS32
             "|(" H16 "(:" H16 "){0,5})?::" H16 "|(" H16 "(:" H16 "){0,6})?::"},
    {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(//([A-Za-z0-9._~!$&'()*+,;=:-]|" PCT
            ")*(@([A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")+)?(:[0-9]{0,5})?(/" URI_CHAR "*)*|/?" URI_CHAR
            "+(/" URI_CHAR "*)*)(\\?(" URI_CHAR "|[/?])*)?(#(" URI_CHAR "|[/?])*)?"},
};

/* Returns the language of a format; unknown formats allow any text. */
static gnode format_node(struct sc *c, const struct json *f) {
    const struct gregex o = {.escaped = !c->form.open, .ecma = true, .what = "format"};
    gnode out = G_NONE;
    for (size_t i = 0; json_str(f) && i < COUNT_OF(formats); i++) {
        if (strcmp(formats[i].name, json_str(f)) != 0) continue;
        if (gn_regex(c->g, formats[i].pattern, strlen(formats[i].pattern), &o, &out, c->e))
            c->rc = ERR_DATA;
        return out;
    }
    return c->g->any; /* other formats are annotations */
}

/* ---- conditions ---- */

/* Returns the strings that match a pattern, or any string if the pattern is not supported. */
static gnode pattern(struct sc *c, const struct json *p) {
    const struct gregex o = {.escaped = !c->form.open, .search = true, .ecma = true};
    struct err e;
    gnode out = G_NONE;
    if (!json_str(p)) return sc_fail(c, p, "is not a string");
    if (gn_regex(c->g, json_str(p), strlen(json_str(p)), &o, &out, &e) == 0) return out;
    if (grammar_full(c->g, c->e))
        c->rc = ERR_DATA;
    else
        sc_relax(c, p, e.msg);
    return c->g->any;
}

enum { CONDS_MAX = 64 };
struct conds {
    gnode v[CONDS_MAX];
    size_t n;
    uint32_t lo, hi;
};

/* Adds a condition on the string; sets an error at the limit. */
static void add_condition(struct sc *c, struct conds *s, const struct json *at, gnode n) {
    if (n == c->g->any) return;
    if (s->n == CONDS_MAX) {
        sc_fail(c, at, "more than 64 conditions on one string");
        return;
    }
    s->v[s->n++] = n;
}

/* Adds the texts that a `not` with const or enum excludes. */
static void add_not(struct sc *c, struct conds *s, const struct json *no) {
    const struct json *k = json_get(no, "const");
    for (const struct json *x = k ? k : json_first(json_get(no, "enum")); x;
         x = k ? NULL : json_next(x))
        if (json_str(x)) add_condition(c, s, x, gn_not(c->g, sc_text(c, json_str(x))));
}

/* Collects length, pattern and format of all schemas of the set. */
static void gather_conditions(struct sc *c, struct conds *s, const struct sc_set *set) {
    for (uint32_t i = 0; i < set->n; i++) {
        const struct json *j = set->v[i].s, *p = json_get(j, "pattern"), *f = json_get(j, "format");
        const uint32_t lo = sc_count(c, j, "minLength", 0),
                       hi = sc_count(c, j, "maxLength", GRAM_INF);
        if (lo > s->lo) s->lo = lo;
        if (hi < s->hi) s->hi = hi;
        if (p) add_condition(c, s, p, pattern(c, p));
        if (f) add_condition(c, s, f, format_node(c, f));
        add_not(c, s, json_get(j, "not"));
    }
}

/* Returns the language of a string constrained by a Lark grammar (input of a custom tool). */
static gnode lark(struct sc *c, const char *text) {
    gnode out = G_NONE;
    if (gn_lark(c->g, text, strlen(text), !c->form.open, &out, c->e)) c->rc = ERR_DATA;
    return out;
}

gnode sc_content(struct sc *c, const struct sc_set *set) {
    struct grammar *g = c->g;
    struct conds s = {.hi = GRAM_INF};
    const char *own = set->n == 1 ? json_str(json_get(set->v[0].s, "x-lark")) : NULL;
    if (own) return lark(c, own);
    gather_conditions(c, &s, set);
    if (s.lo > s.hi) return G_NONE;
    if (c->form.open && *c->form.open) /* strings must not contain the closing mark */
        add_condition(c, &s, c->root,
                      gn_not(g, gn_cat3(g, g->any, gn_str(g, c->form.close), g->any)));
    if (s.n == 0 && !c->form.python && !c->form.open) return gn_rep(g, gn_char_json(g), s.lo, s.hi);
    if (s.n == 0) return gn_rep(g, sc_char(c), s.lo, s.hi);
    if (s.lo > 0 || s.hi < GRAM_INF)
        add_condition(c, &s, c->root, gn_rep(g, sc_char(c), s.lo, s.hi));
    bool plain = false; /* without other conditions, `not` requires the usual spelling */
    for (size_t i = 0; i < s.n; i++) plain = plain || gn(g, s.v[i])->kind != G_NOT;
    if (!plain || c->form.python) add_condition(c, &s, c->root, gn_rep(g, sc_char(c), 0, GRAM_INF));
    return gn_ands(g, s.v, s.n);
}

gnode sc_string(struct sc *c, const struct sc_set *set) {
    const gnode in = sc_content(c, set), all = gn_cat3(c->g, c->open, in, c->close);
    if (in == G_NONE) return G_NONE;
    return gn(c->g, c->string)->kind == G_RULE && c->g->rule[gn(c->g, c->string)->a].body == all
               ? c->string
               : gn_as_rule(c->g, all);
}
