// SPDX-License-Identifier: MIT
/* chat/tool_flat.c - flattening of a tool's parameters into one object schema, for syntaxes that
 * write each parameter separately. The tool's schema may spread them over $ref, allOf, anyOf and
 * oneOf. */
#include "chat/tool_int.h"

#include <string.h>

enum { FLAT_DEPTH = 8, FLAT_MOST = 4096 };

struct flat {
    struct arena *a;
    const struct json *root, *top; /* top: root itself, or the schema it refers to */
    struct json *props, *required;
    int branch, n_seen;
};

/* Adds a property. If it exists already, `how` combines the two schemas: "allOf" (both apply) or
 * "anyOf" (alternatives). */
static void add_property(struct flat *f, const struct json *m, const char *how) {
    size_t n;
    const char *name = json_namen(m, &n);
    const struct json *had = json_getn(f->props, name, n);
    if (++f->n_seen > FLAT_MOST) return;
    if (had) {
        struct json *both = json_new(f->a, JSON_OBJ), *list = json_new(f->a, JSON_ARR);
        json_push(f->a, list, had);
        json_push(f->a, list, m);
        json_put(f->a, both, how, strlen(how), list);
        m = both;
    }
    json_put(f->a, f->props, name, n, m);
}

static void add_schema(struct flat *f, const struct json *s, bool required, const char *how,
                       int depth);

/* Adds the properties of all branches in a list; for the top schema's list, only those of the
 * selected branch. */
static void add_branches(struct flat *f, const struct json *s, const char *list, bool required,
                         int depth) {
    int k = 0;
    for (const struct json *x = json_first(json_get(s, list)); x; x = json_next(x), k++) {
        const bool one = f->branch >= 0 && s == f->top;
        if (!one || k == f->branch)
            add_schema(f, x, one && required, one ? "allOf" : "anyOf", depth + 1);
    }
}

static void add_schema(struct flat *f, const struct json *s, bool required, const char *how,
                       int depth) {
    const struct json *to = tool_target(f->root, s);
    if (json_type(s) != JSON_OBJ || depth > FLAT_DEPTH || ++f->n_seen > FLAT_MOST) return;
    for (const struct json *m = json_first(json_get(s, "properties")); m; m = json_next(m))
        add_property(f, m, how);
    for (const struct json *r = json_first(json_get(s, "required")); r && required;
         r = json_next(r))
        json_push(f->a, f->required, r);
    if (to != s) add_schema(f, to, required, how, depth + 1);
    for (const struct json *x = json_first(json_get(s, "allOf")); x; x = json_next(x))
        add_schema(f, x, required, how, depth + 1);
    add_branches(f, s, "anyOf", required, depth);
    if (!json_get(s, "anyOf")) add_branches(f, s, "oneOf", required, depth);
}

int tool_branches(const struct json *root) {
    enum { BRANCHES_MOST = 64 };
    const struct json *top = tool_target(root, root), *list = json_get(top, "anyOf");
    if (!list) list = json_get(top, "oneOf");
    const int64_t n = json_type(list) == JSON_ARR ? json_len(list) : 0;
    return n <= BRANCHES_MOST ? (int)n : 0;
}

const struct json *tool_flat(struct arena *a, const struct json *root, int branch) {
    const struct json *top = tool_target(root, root);
    if (!json_get(top, "allOf") && !json_get(top, "anyOf") && !json_get(top, "oneOf") &&
        (top == root || !json_get(root, "properties")))
        return top;
    struct flat f = {.a = a,
                     .root = root,
                     .top = top,
                     .props = json_new(a, JSON_OBJ),
                     .required = json_new(a, JSON_ARR),
                     .branch = branch};
    struct json *out = json_new(a, JSON_OBJ);
    add_schema(&f, root, true, "allOf", 0);
    json_put(a, out, "properties", strlen("properties"), f.props);
    json_put(a, out, "required", strlen("required"), f.required);
    return out;
}

bool tool_is_open(const struct json *root) {
    static const char *const parts[] = {"properties", "allOf", "anyOf",
                                        "oneOf",      "$ref",  "patternProperties"};
    const struct json *top = tool_target(root, root), *rest = json_get(top, "additionalProperties");
    if (rest) return json_bool(rest, true);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (json_get(top, parts[i])) return false;
    return json_type(top) == JSON_OBJ;
}

bool tool_takes_other(const struct toolparse *p, struct text fn, struct text key) {
    enum { LONGEST = 64 };
    if (!key.n || key.n > LONGEST || !tool_is_open(tool_parameters(tool_declared(p, fn))))
        return false;
    for (size_t i = 0; i < key.n; i++) {
        const char ch = key.s[i];
        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
              ch == '_' || ch == '.' || ch == '-'))
            return false;
    }
    return true;
}

const struct json *tool_any_schema(struct toolparse *p, struct text fn, struct text key) {
    const struct json *s = tool_schema(p, fn, key);
    if (s || !tool_takes_other(p, fn, key)) return s;
    return tool_target(p->root, json_get(tool_target(p->root, p->root), "additionalProperties"));
}
