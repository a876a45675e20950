// SPDX-License-Identifier: MIT
/* text/schema.c - JSON Schema validator: a table with one function per keyword. A value is valid if
 * all keywords of the schema accept it. The message comes from the outermost keyword that rejected
 * it: "matches none of anyOf" rather than each branch's reason. Depth and steps are limited, since
 * a schema may refer to itself. */
#include "text/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attr.h"
#include "base/printable.h"
#include "text/re.h"

enum { MAX_DEPTH = 200, MAX_STEPS = 1000000 };

struct sc {
    const struct json *root;
    struct buf path, *why;
    const char *skip; /* keyword ignored at the root; NULL: none */
    bool dry;         /* keywords are read, schemas within them accept everything */
    int depth, steps;
    int rc; /* error in the schema; everything is invalid after it */
    struct err *e;
};
/* kw: the keyword's value; in: the schema that contains it; v: the value to check. */
typedef bool (*keyword_fn)(struct sc *c, const struct json *kw, const struct json *in,
                           const struct json *v);

static bool is_valid(struct sc *c, const struct json *schema, const struct json *v);

static bool not_valid(struct sc *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Sets the reason, prefixed by the value's path, and returns false. */
static bool not_valid(struct sc *c, const char *fmt, ...) {
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_reset(c->why);
    buf_fmt(c->why, "%s%s%s", c->path.len ? c->path.data : "", c->path.len ? ": " : "", text);
    return false;
}

/* Sets an error about the schema itself unless one is set, and returns false. */
static bool bad_schema(struct sc *c, const char *keyword, const char *must) {
    if (!c->rc)
        c->rc = err_set(c->e, ERR_DATA, "the schema's \"%s\" %s",
                        show_n(keyword, strlen(keyword)).s, must);
    return false;
}
/* Sets the error for a schema of another type than object and bool, and returns false. */
static bool bad_type(struct sc *c, const struct json *schema) {
    static const char must[] = "is neither object nor bool";
    const bool inner = schema != c->root;
    const char *name = json_name(schema);
    if (inner && name && *name) return bad_schema(c, name, must);
    if (!c->rc)
        c->rc = err_set(c->e, ERR_DATA, "%s %s",
                        inner ? "a list in the schema has an item that" : "the schema", must);
    return false;
}

/* Returns whether v, which is member or item `name` of the current value, is valid. */
static bool valid_at(struct sc *c, const struct json *schema, const struct json *v,
                     const char *name) {
    size_t len = c->path.len;
    buf_fmt(&c->path, "/%s", show_n(name, strlen(name)).s);
    bool ok = is_valid(c, schema, v);
    c->path.len = len;
    c->path.data[len] = 0;
    return ok;
}
/* Returns whether v, item i of the current value, is valid. */
static bool valid_item(struct sc *c, const struct json *schema, const struct json *v, int64_t i) {
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, i);
    return valid_at(c, schema, v, name);
}

/* Returns whether the pattern is found in s; sets c->rc if the pattern is invalid. */
static bool matches_regex(struct sc *c, const char *pattern, const char *s) {
    enum re_answer a = RE_NO;
    if (!c->rc) c->rc = re_search_schema(pattern, s, strlen(s), &a, c->e);
    return !c->rc && a == RE_YES;
}

/* Counts a visited schema or a compared pair of values. Returns false when the limit is
 * exceeded. */
static bool count_step(struct sc *c) {
    return ++c->steps <= MAX_STEPS;
}
/* Sets the error for circular references and returns false. */
static bool bad_endless(struct sc *c) {
    return bad_schema(c, "$ref", "refers to itself without end, or the schema is too large");
}

/* ---- any type ---- */

/* Returns whether v has the type `name`, which some APIs write in capitals. */
static bool is_type(const struct json *v, const char *name) {
    static const char *const names[] = {"null", "boolean", "number", "string", "array", "object"};
    enum json_type t = json_type(v);
    double x = json_num(v, 0.5);
    if (strcasecmp(name, "integer") == 0) return t == JSON_NUM && floor(x) == x && isfinite(x);
    return strcasecmp(name, names[t]) == 0;
}

/* Returns whether the name is a JSON type, ignoring case. */
static bool known_type(const char *name) {
    static const char *const names[] = {"null",  "boolean", "number", "string",
                                        "array", "object",  "integer"};
    for (size_t i = 0; i < COUNT_OF(names) && name; i++)
        if (strcasecmp(names[i], name) == 0) return true;
    return false;
}

/* Checks "type", a name or a list of names. */
static bool kw_type(struct sc *c, const struct json *kw, const struct json *in,
                    const struct json *v) {
    (void)in;
    const struct json *one = json_type(kw) == JSON_ARR ? json_first(kw) : kw;
    bool any = false;
    for (; one; one = json_type(kw) == JSON_ARR ? json_next(one) : NULL) {
        if (!known_type(json_str(one))) return bad_schema(c, "type", "names no JSON type");
        any = any || is_type(v, json_str(one));
    }
    return any ||
           not_valid(c, "is not of type %s", json_str(kw) ? json_str(kw) : "any of those named");
}

static bool kw_enum(struct sc *c, const struct json *kw, const struct json *in,
                    const struct json *v) {
    (void)in;
    if (json_type(kw) != JSON_ARR) return bad_schema(c, "enum", "is not a list");
    for (const struct json *x = json_first(kw); x; x = json_next(x)) {
        if (!count_step(c)) return bad_endless(c);
        if (json_equal(x, v)) return true;
    }
    return not_valid(c, "is not one of the listed values");
}

static bool kw_const(struct sc *c, const struct json *kw, const struct json *in,
                     const struct json *v) {
    (void)in;
    return json_equal(kw, v) || not_valid(c, "is not the one value allowed");
}

/* ---- numbers: one function with a table of comparisons ---- */

enum limit_kind { AT_LEAST, AT_MOST, ABOVE, BELOW };
static bool is_within(double x, double limit, enum limit_kind k) {
    return k == AT_LEAST  ? x >= limit
           : k == AT_MOST ? x <= limit
           : k == ABOVE   ? x > limit
                          : x < limit;
}
static const char *const limit_text[] = {"at least", "at most", "more than", "less than"};

/* Checks a number against the limit; values of other types pass. */
static bool number_limit(struct sc *c, const struct json *kw, const struct json *v,
                         enum limit_kind k, const char *name) {
    if (json_type(kw) != JSON_NUM) return bad_schema(c, name, "is not a number");
    if (json_type(v) != JSON_NUM) return true;
    return is_within(json_num(v, 0), json_num(kw, 0), k) ||
           not_valid(c, "is not %s %.9g", limit_text[k], json_num(kw, 0));
}

/* Checks the count n against a limit; `of` names what is counted. */
static bool count_limit(struct sc *c, const struct json *kw, int64_t n, enum limit_kind k,
                        const char *name, const char *of) {
    if (json_type(kw) != JSON_NUM) return bad_schema(c, name, "is not a number");
    return is_within((double)n, json_num(kw, 0), k) ||
           not_valid(c, "has %" PRId64 " %s, not %s %.9g", n, of, limit_text[k], json_num(kw, 0));
}

/* Returns the number of characters of UTF-8 text. */
static int64_t n_chars(const char *s) {
    int64_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80; /* json_parse accepts only UTF-8 */
    return n;
}

#define NUMBER_KEYWORD(name, key, kind)                                                            \
    static bool kw_##name(struct sc *c, const struct json *kw, const struct json *in,              \
                          const struct json *v) {                                                  \
        (void)in;                                                                                  \
        return number_limit(c, kw, v, kind, key);                                                  \
    }
#define COUNT_KEYWORD(name, key, kind, type, count, of)                                            \
    static bool kw_##name(struct sc *c, const struct json *kw, const struct json *in,              \
                          const struct json *v) {                                                  \
        (void)in;                                                                                  \
        return json_type(v) != (type) || count_limit(c, kw, count, kind, key, of);                 \
    }
NUMBER_KEYWORD(minimum, "minimum", AT_LEAST)
NUMBER_KEYWORD(maximum, "maximum", AT_MOST)
NUMBER_KEYWORD(ex_minimum, "exclusiveMinimum", ABOVE)
NUMBER_KEYWORD(ex_maximum, "exclusiveMaximum", BELOW)
COUNT_KEYWORD(min_length, "minLength", AT_LEAST, JSON_STR, n_chars(json_str(v)), "characters")
COUNT_KEYWORD(max_length, "maxLength", AT_MOST, JSON_STR, n_chars(json_str(v)), "characters")
COUNT_KEYWORD(min_items, "minItems", AT_LEAST, JSON_ARR, json_len(v), "items")
COUNT_KEYWORD(max_items, "maxItems", AT_MOST, JSON_ARR, json_len(v), "items")
COUNT_KEYWORD(min_props, "minProperties", AT_LEAST, JSON_OBJ, json_len(v), "members")
COUNT_KEYWORD(max_props, "maxProperties", AT_MOST, JSON_OBJ, json_len(v), "members")

/* Checks "multipleOf"; values other than numbers pass. */
static bool kw_multiple(struct sc *c, const struct json *kw, const struct json *in,
                        const struct json *v) {
    (void)in;
    double by = json_num(kw, 0), x = json_num(v, 0);
    if (!(by > 0)) return bad_schema(c, "multipleOf", "is not a positive number");
    double q = x / by;
    return json_type(v) != JSON_NUM || (floor(q) == q && isfinite(q)) ||
           not_valid(c, "is not a multiple of %.9g", by);
}

/* ---- strings ---- */

/* Checks "pattern"; values other than strings pass. */
static bool kw_pattern(struct sc *c, const struct json *kw, const struct json *in,
                       const struct json *v) {
    (void)in;
    if (!json_str(kw)) return bad_schema(c, "pattern", "is not a string");
    return !json_str(v) || matches_regex(c, json_str(kw), json_str(v)) ||
           not_valid(c, "does not match '%s'", show_n(json_str(kw), strlen(json_str(kw))).s);
}

/* ---- arrays ---- */

/* Checks the items after the first `skip`, which are checked elsewhere. */
static bool items_from(struct sc *c, const struct json *schema, const struct json *v,
                       int64_t skip) {
    int64_t i = 0;
    for (const struct json *x = json_first(v); x; x = json_next(x), i++)
        if (i >= skip && !valid_item(c, schema, x, i)) return false;
    return true;
}
/* Checks the items against the schemas at their positions; items without one pass. */
static bool items_listed(struct sc *c, const struct json *list, const struct json *v) {
    const struct json *s = json_first(list);
    int64_t i = 0;
    for (const struct json *x = json_first(v); x && s; x = json_next(x), s = json_next(s), i++)
        if (!valid_item(c, s, x, i)) return false;
    return true;
}

static bool kw_prefix_items(struct sc *c, const struct json *kw, const struct json *in,
                            const struct json *v) {
    (void)in;
    if (json_type(kw) != JSON_ARR) return bad_schema(c, "prefixItems", "is not a list");
    return json_type(v) != JSON_ARR || items_listed(c, kw, v);
}
/* Checks "items"; a list of schemas is the older form of prefixItems. */
static bool kw_items(struct sc *c, const struct json *kw, const struct json *in,
                     const struct json *v) {
    if (json_type(v) != JSON_ARR) return true;
    if (json_type(kw) == JSON_ARR) return items_listed(c, kw, v);
    return items_from(c, kw, v, json_len(json_get(in, "prefixItems")));
}
static bool kw_additional_items(struct sc *c, const struct json *kw, const struct json *in,
                                const struct json *v) {
    const struct json *items = json_get(in, "items");
    if (json_type(v) != JSON_ARR || json_type(items) != JSON_ARR) return true;
    return items_from(c, kw, v, json_len(items));
}

static bool kw_unique(struct sc *c, const struct json *kw, const struct json *in,
                      const struct json *v) {
    (void)in;
    if (json_type(kw) != JSON_BOOL) return bad_schema(c, "uniqueItems", "is not true or false");
    if (!json_bool(kw, false) || json_type(v) != JSON_ARR) return true;
    for (const struct json *a = json_first(v); a; a = json_next(a))
        for (const struct json *b = json_next(a); b; b = json_next(b)) {
            if (!count_step(c)) return bad_endless(c);
            if (json_equal(a, b)) return not_valid(c, "holds an item twice");
        }
    return true;
}

/* Checks "contains" with minContains and maxContains. */
static bool kw_contains(struct sc *c, const struct json *kw, const struct json *in,
                        const struct json *v) {
    if (json_type(v) != JSON_ARR) return true;
    double least = json_num(json_get(in, "minContains"), 1),
           most = json_num(json_get(in, "maxContains"), (double)INFINITY);
    int64_t n = 0, i = 0;
    for (const struct json *x = json_first(v); x; x = json_next(x)) n += valid_item(c, kw, x, i++);
    if (c->rc) return false;
    return ((double)n >= least && (double)n <= most) ||
           not_valid(c, "has %" PRId64 " items of the kind it must contain", n);
}

/* ---- objects ---- */

static bool kw_required(struct sc *c, const struct json *kw, const struct json *in,
                        const struct json *v) {
    (void)in;
    if (json_type(kw) != JSON_ARR) return bad_schema(c, "required", "is not a list");
    if (json_type(v) != JSON_OBJ) return true;
    for (const struct json *n = json_first(kw); n; n = json_next(n)) {
        if (!json_str(n)) return bad_schema(c, "required", "contains something other than a name");
        c->steps += (int)(json_len(v) / 16);
        if (!count_step(c)) return bad_endless(c);
        if (!c->dry && !json_get(v, json_str(n)))
            return not_valid(c, "'%s' is missing", show_n(json_str(n), strlen(json_str(n))).s);
    }
    return true;
}

static bool kw_properties(struct sc *c, const struct json *kw, const struct json *in,
                          const struct json *v) {
    (void)in;
    if (json_type(kw) != JSON_OBJ) return bad_schema(c, "properties", "is not an object");
    if (json_type(v) != JSON_OBJ) return true;
    for (const struct json *s = json_first(kw); s; s = json_next(s)) {
        const struct json *m = json_get(v, json_name(s));
        if (m && !valid_at(c, s, m, json_name(s))) return false;
    }
    return true;
}

static bool kw_pattern_props(struct sc *c, const struct json *kw, const struct json *in,
                             const struct json *v) {
    (void)in;
    if (json_type(kw) != JSON_OBJ) return bad_schema(c, "patternProperties", "is not an object");
    if (json_type(v) != JSON_OBJ) return true;
    for (const struct json *s = json_first(kw); s; s = json_next(s))
        for (const struct json *m = json_first(v); m; m = json_next(m))
            if (matches_regex(c, json_name(s), json_name(m)) && !valid_at(c, s, m, json_name(m)))
                return false;
    return !c->rc;
}

static bool kw_additional(struct sc *c, const struct json *kw, const struct json *in,
                          const struct json *v) {
    const struct json *props = json_get(in, "properties"),
                      *patterns = json_get(in, "patternProperties");
    if (json_type(v) != JSON_OBJ) return true;
    for (const struct json *m = json_first(v); m; m = json_next(m)) {
        bool named = json_get(props, json_name(m)) != NULL;
        for (const struct json *p = json_first(patterns); p && !named; p = json_next(p))
            named = matches_regex(c, json_name(p), json_name(m));
        if (!named && !valid_at(c, kw, m, json_name(m))) return false;
    }
    return !c->rc;
}

static bool kw_prop_names(struct sc *c, const struct json *kw, const struct json *in,
                          const struct json *v) {
    (void)in;
    if (json_type(v) != JSON_OBJ) return true;
    bool ok = true;
    for (const struct json *m = json_first(v); m && ok; m = json_next(m)) {
        struct buf text = {0};
        struct json *name = NULL;
        json_quote(&text, json_name(m), strlen(json_name(m)));
        if (!c->rc) c->rc = json_parse(&name, text.data, text.len, "a member's name", c->e);
        ok = !c->rc && valid_at(c, kw, name, json_name(m));
        json_free(name);
        buf_release(&text);
    }
    return ok;
}

static bool kw_dep_required(struct sc *c, const struct json *kw, const struct json *in,
                            const struct json *v) {
    for (const struct json *d = json_first(kw); d && json_type(v) == JSON_OBJ; d = json_next(d))
        if ((c->dry || json_get(v, json_name(d))) && !kw_required(c, d, in, v)) return false;
    return true;
}
static bool kw_dep_schemas(struct sc *c, const struct json *kw, const struct json *in,
                           const struct json *v) {
    (void)in;
    for (const struct json *d = json_first(kw); d && json_type(v) == JSON_OBJ; d = json_next(d))
        if (json_get(v, json_name(d)) && !is_valid(c, d, v)) return false;
    return true;
}

/* ---- combinators ---- */

/* Returns the number of schemas in the list that accept v; -1 on error. */
static int64_t n_valid(struct sc *c, const struct json *list, const struct json *v) {
    int64_t n = 0;
    if (json_type(list) != JSON_ARR || !json_first(list))
        bad_schema(c, "anyOf, oneOf or allOf", "is not a list of schemas");
    for (const struct json *s = json_first(list); s && !c->rc; s = json_next(s))
        n += is_valid(c, s, v);
    return c->rc ? -1 : n;
}

static bool kw_any(struct sc *c, const struct json *kw, const struct json *in,
                   const struct json *v) {
    (void)in;
    int64_t n = n_valid(c, kw, v);
    return n > 0 || (n == 0 && not_valid(c, "matches none of anyOf"));
}
static bool kw_one(struct sc *c, const struct json *kw, const struct json *in,
                   const struct json *v) {
    (void)in;
    int64_t n = n_valid(c, kw, v);
    return n == 1 || (n >= 0 && not_valid(c, "matches %" PRId64 " of oneOf", n));
}
static bool kw_all(struct sc *c, const struct json *kw, const struct json *in,
                   const struct json *v) {
    (void)in;
    return n_valid(c, kw, v) == json_len(kw); /* the schema that failed sets the message */
}
static bool kw_not(struct sc *c, const struct json *kw, const struct json *in,
                   const struct json *v) {
    (void)in;
    return (!is_valid(c, kw, v) && !c->rc) || (!c->rc && not_valid(c, "matches what it must not"));
}
/* Checks "if" with its "then" or "else". */
static bool kw_if(struct sc *c, const struct json *kw, const struct json *in,
                  const struct json *v) {
    const struct json *next = json_get(in, is_valid(c, kw, v) ? "then" : "else");
    return !c->rc && (!next || is_valid(c, next, v));
}

/* Reads the next name of a JSON pointer, decoding ~0, ~1 and %XX. */
static const char *pointer_name(const char *p, struct buf *name) {
    buf_reset(name);
    buf_str(name, "");
    for (; *p && *p != '/'; p++) {
        char hex[3] = {0};
        if (p[0] == '~' && (p[1] == '0' || p[1] == '1')) {
            buf_chr(name, *++p == '0' ? '~' : '/');
        } else if (p[0] == '%' && strspn(p + 1, "0123456789abcdefABCDEF") >= 2) {
            memcpy(hex, p + 1, 2);
            buf_chr(name, (char)strtol(hex, NULL, 16));
            p += 2;
        } else {
            buf_chr(name, *p);
        }
    }
    return p;
}

/* Returns the schema that a "$ref" points at; it must be in the same document. NULL: error set. */
static const struct json *ref_target(struct sc *c, const struct json *kw) {
    const char *p = json_str(kw);
    const struct json *s = c->root;
    struct buf name = {0};
    if (!p || p[0] != '#' || (p[1] && p[1] != '/')) {
        bad_schema(c, "$ref", "is not a pointer within this schema (#/...)");
        return NULL;
    }
    for (p++; *p == '/' && s;) {
        p = pointer_name(p + 1, &name);
        if (json_type(s) == JSON_ARR) {
            char *end;
            long long i = strtoll(name.data, &end, 10);
            for (s = json_first(s); s && i > 0; i--) s = json_next(s);
            if (*end || end == name.data || i) s = NULL;
        } else {
            s = json_get(s, name.data);
        }
    }
    buf_release(&name);
    if (!s) bad_schema(c, "$ref", "points at nothing");
    return s;
}
static bool kw_ref(struct sc *c, const struct json *kw, const struct json *in,
                   const struct json *v) {
    (void)in;
    const struct json *s = ref_target(c, kw);
    return s && is_valid(c, s, v);
}

/* Rejects a keyword that is not supported. */
static bool kw_unsupported(struct sc *c, const struct json *kw, const struct json *in,
                           const struct json *v) {
    (void)in, (void)v;
    return bad_schema(c, json_name(kw), "is a keyword that is not supported");
}

/* Accepts everything: schemas that other keywords use. */
static bool kw_used(struct sc *c, const struct json *kw, const struct json *in,
                    const struct json *v) {
    (void)kw, (void)in, (void)v;
    return !c->rc;
}

static const struct {
    const char *name;
    keyword_fn fn;
    enum { NO_SCHEMA, SCHEMA, SCHEMAS } holds; /* SCHEMA: one or a list; SCHEMAS: members */
} keywords[] = {
    {"type", kw_type, NO_SCHEMA},
    {"enum", kw_enum, NO_SCHEMA},
    {"const", kw_const, NO_SCHEMA},
    {"minimum", kw_minimum, NO_SCHEMA},
    {"maximum", kw_maximum, NO_SCHEMA},
    {"exclusiveMinimum", kw_ex_minimum, NO_SCHEMA},
    {"exclusiveMaximum", kw_ex_maximum, NO_SCHEMA},
    {"multipleOf", kw_multiple, NO_SCHEMA},
    {"minLength", kw_min_length, NO_SCHEMA},
    {"maxLength", kw_max_length, NO_SCHEMA},
    {"pattern", kw_pattern, NO_SCHEMA},
    {"prefixItems", kw_prefix_items, SCHEMA},
    {"items", kw_items, SCHEMA},
    {"additionalItems", kw_additional_items, SCHEMA},
    {"minItems", kw_min_items, NO_SCHEMA},
    {"maxItems", kw_max_items, NO_SCHEMA},
    {"uniqueItems", kw_unique, NO_SCHEMA},
    {"contains", kw_contains, SCHEMA},
    {"required", kw_required, NO_SCHEMA},
    {"properties", kw_properties, SCHEMAS},
    {"patternProperties", kw_pattern_props, SCHEMAS},
    {"additionalProperties", kw_additional, SCHEMA},
    {"propertyNames", kw_prop_names, SCHEMA},
    {"minProperties", kw_min_props, NO_SCHEMA},
    {"maxProperties", kw_max_props, NO_SCHEMA},
    {"dependentRequired", kw_dep_required, NO_SCHEMA},
    {"dependentSchemas", kw_dep_schemas, SCHEMAS},
    {"anyOf", kw_any, SCHEMA},
    {"oneOf", kw_one, SCHEMA},
    {"allOf", kw_all, SCHEMA},
    {"not", kw_not, SCHEMA},
    {"if", kw_if, SCHEMA},
    {"then", kw_used, SCHEMA},
    {"else", kw_used, SCHEMA},
    {"$defs", kw_used, SCHEMAS},
    {"definitions", kw_used, SCHEMAS},
    {"$ref", kw_ref, NO_SCHEMA},
    {"$dynamicRef", kw_unsupported, NO_SCHEMA},
    {"unevaluatedItems", kw_unsupported, NO_SCHEMA},
    {"unevaluatedProperties", kw_unsupported, NO_SCHEMA},
};

/* Checks v against every known keyword of the schema; unknown ones pass. */
static bool all_keywords(struct sc *c, const struct json *schema, const struct json *v) {
    for (const struct json *kw = json_first(schema); kw; kw = json_next(kw)) {
        if (schema == c->root && c->skip && strcmp(c->skip, json_name(kw)) == 0) continue;
        for (size_t i = 0; i < COUNT_OF(keywords); i++)
            if (strcmp(keywords[i].name, json_name(kw)) == 0 && !keywords[i].fn(c, kw, schema, v))
                return false;
    }
    return true;
}

/* Returns whether v is valid; false with c->rc set if the schema itself is invalid. */
static bool is_valid(struct sc *c, const struct json *schema, const struct json *v) {
    if (c->rc || c->dry) return !c->rc;
    if (json_type(schema) == JSON_BOOL)
        return json_bool(schema, true) || not_valid(c, "is not allowed");
    if (json_type(schema) != JSON_OBJ) return bad_type(c, schema);
    if (++c->depth > MAX_DEPTH || !count_step(c)) return bad_endless(c);
    bool ok = all_keywords(c, schema, v) && !c->rc;
    c->depth--;
    return ok;
}

int schema_check_how(const struct json *schema, const struct json *value, struct schema_how *how,
                     bool *ok, struct buf *why, struct err *e) {
    struct sc c = {.root = schema, .why = why, .e = e, .skip = how->skip};
    *ok = is_valid(&c, schema, value);
    buf_release(&c.path);
    how->steps = c.steps;
    return c.rc;
}

int schema_check(const struct json *schema, const struct json *value, bool *ok, struct buf *why,
                 struct err *e) {
    return schema_check_how(schema, value, &(struct schema_how){0}, ok, why, e);
}

/* ---- schemas without a value ---- */

/* Follows the schemas that check the same value as this one, to find references without end. */
static void follow(struct sc *c, const struct json *schema) {
    static const char *const same[] = {"allOf", "anyOf", "oneOf", "not",
                                       "if",    "then",  "else",  "dependentSchemas"};
    const struct json *ref = json_get(schema, "$ref");
    if (c->rc || json_type(schema) != JSON_OBJ) return;
    if (++c->depth > MAX_DEPTH || !count_step(c)) bad_endless(c);
    if (ref) follow(c, ref_target(c, ref));
    for (size_t i = 0; i < COUNT_OF(same) && !c->rc; i++) {
        const struct json *kw = json_get(schema, same[i]);
        const bool many = json_type(kw) == JSON_ARR || strcmp(same[i], "dependentSchemas") == 0;
        if (kw && !many) follow(c, kw);
        for (const struct json *s = json_first(kw); s && many; s = json_next(s)) follow(c, s);
    }
    c->depth--;
}

/* Tries keyword i, and the schemas in its value kw; in: the schema that contains it. */
static void try_keyword(struct sc *c, size_t i, const struct json *kw, const struct json *in,
                        const struct json *values);
/* Tries every keyword of a schema, and of the schemas within it, on each value. */
static void try_schema(struct sc *c, const struct json *schema, const struct json *values) {
    if (c->rc || json_type(schema) == JSON_BOOL) return;
    if (json_type(schema) != JSON_OBJ) bad_type(c, schema);
    if (++c->depth > MAX_DEPTH) bad_endless(c);
    for (const struct json *kw = json_first(schema); kw && !c->rc; kw = json_next(kw))
        for (size_t i = 0; i < COUNT_OF(keywords); i++)
            if (strcmp(keywords[i].name, json_name(kw)) == 0) try_keyword(c, i, kw, schema, values);
    c->depth--;
}
static void try_keyword(struct sc *c, size_t i, const struct json *kw, const struct json *in,
                        const struct json *values) {
    const bool many = keywords[i].holds == SCHEMAS || json_type(kw) == JSON_ARR;
    c->steps = 0;
    for (const struct json *v = json_first(values); v && !c->rc; v = json_next(v))
        keywords[i].fn(c, kw, in, v);
    if (keywords[i].fn == kw_ref && !c->rc) {
        const int depth = c->depth;
        c->depth = 0;
        follow(c, in);
        c->depth = depth;
    }
    if (keywords[i].holds == NO_SCHEMA) return;
    if (!many) try_schema(c, kw, values);
    for (const struct json *s = json_first(kw); s && many; s = json_next(s))
        try_schema(c, s, values);
}

int schema_sound(const struct json *schema, struct err *e) {
    static const char text[] = "[null, true, 0, \"\", [0], {\"\": 0}]"; /* a value of each type */
    struct buf why = {0};
    struct json *values;
    bool ok;
    TRY(json_parse(&values, text, sizeof text - 1, "values", e));
    struct sc c = {.root = schema, .why = &why, .e = e, .dry = true};
    try_schema(&c, schema, values);
    int rc = c.rc; /* places that only a "$ref" reaches are tried on the values */
    for (const struct json *v = json_first(values); v && !rc; v = json_next(v))
        rc = schema_check(schema, v, &ok, &why, e);
    buf_release(&c.path);
    buf_release(&why);
    json_free(values);
    return rc;
}
