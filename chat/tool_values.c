// SPDX-License-Identifier: MIT
/* chat/tool_values.c - texts, JSON values, declared tools and found calls: what the syntaxes of
 * tool calls share. */
#include "chat/tool_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/utf8.h"

bool tool_at(const struct toolparse *p, size_t i, const char *lit) {
    size_t n = strlen(lit);
    return i <= p->in.len && n <= p->in.len - i && memcmp(p->in.data + i, lit, n) == 0;
}

bool tool_is_ws(char ch) {
    return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n';
}

size_t tool_ws(const struct toolparse *p, size_t i) {
    while (i < p->in.len && tool_is_ws(p->in.data[i])) i++;
    return i;
}

size_t tool_find(const struct toolparse *p, size_t i, const char *lit) {
    size_t n = strlen(lit);
    if (i > p->in.len) return SIZE_MAX;
    const char *hit = p->in.len > i ? memmem(p->in.data + i, p->in.len - i, lit, n) : NULL;
    return hit ? (size_t)(hit - p->in.data) : SIZE_MAX;
}

struct text tool_text(const struct toolparse *p, size_t from, size_t to) {
    return (struct text){p->in.data + from, to - from};
}

struct text tool_strip(struct text t) {
    const size_t lead = utf8_white_span(t.s, t.n);
    t.s += lead;
    t.n -= lead;
    t.n -= utf8_white_before(t.s, t.n);
    return t;
}

bool tool_same(struct text a, struct text b) {
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

bool tool_is(struct text t, const char *lit) {
    return tool_same(t, (struct text){lit, strlen(lit)});
}

const struct json *tool_json(struct toolparse *p, struct text t, size_t *used) {
    bool twice = false;
    const struct json_opts o = {.first_wins = true, .twice = &twice, .max_depth = TOOL_DEPTH};
    const struct json *v;
    struct err ignored;
    if (json_parse_in(&v, &p->arena, t.s, t.n, &o, "call", used, &ignored)) return NULL;
    if (twice) tool_problem(p, "a member of an object is given twice; the first one counts");
    return v;
}

struct json *tool_str(struct toolparse *p, struct text t) {
    return json_new_str(&p->arena, t.s, t.n);
}

void tool_put(struct toolparse *p, struct json *obj, struct text name, const struct json *v) {
    if (json_getn(obj, name.s, name.n))
        tool_problem(p, "parameter '%.*s' is given twice; the first one counts", tool_len(name),
                     name.s);
    else
        json_put(&p->arena, obj, name.s, name.n, v);
}

void tool_problem(struct toolparse *p, const char *fmt, ...) {
    enum { MAX_PROBLEMS = 100 };
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (p->n_problems == MAX_PROBLEMS) return;
    if (!p->problems) p->problems = xcalloc(MAX_PROBLEMS, sizeof *p->problems);
    p->problems[p->n_problems++] = arena_strdup(&p->arena, text);
}

/* Returns the string's text; for other types, a text that is NULL. */
static struct text text_of(const struct json *j) {
    struct text t;
    t.s = json_strn(j, &t.n);
    return t;
}

static struct text name_of(const struct json *member) {
    struct text t;
    t.s = json_namen(member, &t.n);
    return t;
}

int tool_len(struct text t) {
    return t.n > 200 ? 200 : (int)t.n;
}

/* Returns the tool's function object, NULL if no tool has the name. */
static const struct json *function_named(const struct toolparse *p, struct text name) {
    for (const struct json *t = json_first(p->tools); t; t = json_next(t)) {
        const struct json *f = json_get(t, "function");
        if (json_type(f) != JSON_OBJ) f = t;
        const struct json *n = json_get(f, "name");
        if (json_type(n) == JSON_STR && tool_same(text_of(n), name)) return f;
    }
    return NULL;
}

const struct json *tool_declared(const struct toolparse *p, struct text name) {
    static const char *const spaces[] = {"functions.", "tools.", "default_api.", "tool."};
    const struct json *f = function_named(p, name);
    for (size_t k = 0; k < COUNT_OF(spaces) && !f; k++) {
        const size_t n = strlen(spaces[k]);
        if (name.n > n && memcmp(name.s, spaces[k], n) == 0)
            f = function_named(p, (struct text){name.s + n, name.n - n});
    }
    const struct text half = {name.s, name.n / 2}; /* Muse: the tool as its own namespace */
    if (!f && name.n % 2 && name.s[half.n] == '.' &&
        memcmp(name.s, name.s + half.n + 1, half.n) == 0)
        f = function_named(p, half);
    return f;
}

struct text tool_known_name(const struct toolparse *p, struct text name) {
    const struct json *f = tool_declared(p, name);
    return f ? text_of(json_get(f, "name")) : name;
}

const struct json *tool_target(const struct json *root, const struct json *schema) {
    for (int hops = 0; hops < 8; hops++) {
        const char *ref = json_str(json_get(schema, "$ref"));
        const struct json *to = root;
        if (!ref || *ref != '#') break;
        for (ref++; *ref == '/' && to; ref += strcspn(ref, "/")) {
            ref++;
            to = json_getn(to, ref, strcspn(ref, "/"));
        }
        if (!to || *ref) break;
        schema = to;
    }
    return schema;
}

const struct json *tool_parameters(const struct json *fn) {
    const struct json *s = json_get(fn, "parameters");
    return s ? s : json_get(fn, "input_schema");
}

const struct json *tool_properties(const struct toolparse *p, const struct json *fn) {
    for (int i = 0; i < p->n_props && fn; i++)
        if (p->props[i].fn == fn) return p->props[i].props;
    return NULL;
}

void tool_know_properties(struct toolparse *p) {
    p->props = xcalloc((size_t)json_len(p->tools) + 1, sizeof *p->props);
    for (const struct json *t = json_first(p->tools); t; t = json_next(t)) {
        const struct json *f = json_get(t, "function");
        if (json_type(f) != JSON_OBJ) f = t;
        const struct json *flat = tool_flat(&p->arena, tool_parameters(f), -1);
        p->props[p->n_props++] = (struct tool_props){f, json_get(flat, "properties")};
    }
}

void tool_add(struct toolparse *p, struct text name, const struct json *args) {
    const struct json *f = tool_declared(p, name), *props = tool_properties(p, f);
    name = tool_known_name(p, name);
    if (p->n_calls == p->cap_calls) {
        p->cap_calls = p->cap_calls ? 2 * p->cap_calls : 8;
        p->calls = xreallocarray(p->calls, (size_t)p->cap_calls, sizeof *p->calls);
    }
    p->calls[p->n_calls++] = (struct tool_call){.name = name, .args = args};
    if (p->tools && !f) tool_problem(p, "the tool '%.*s' was not declared", tool_len(name), name.s);
    if (json_type(props) != JSON_OBJ || tool_is_open(tool_parameters(f))) return;
    for (const struct json *m = json_first(args); m; m = json_next(m)) {
        const struct text key = name_of(m);
        if (json_getn(props, key.s, key.n)) continue;
        tool_problem(p,
                     "parameter '%.*s' of '%.*s' was not declared; a value may hold the text of "
                     "a tag",
                     tool_len(key), key.s, tool_len(name), name.s);
    }
}

/* Returns the member of obj whose name comes first in the list; NULL if obj has none of these
 * names. */
static const struct json *first_of(const struct json *obj, const char *const *names) {
    const struct json *v = NULL;
    for (; *names && !v; names++) v = json_get(obj, *names);
    return v;
}

const char *const tool_name_members[] = {"name", "tool_name", "function", "tool", NULL};
const char *const tool_arg_members[] = {"arguments", "parameters", "args", "input", "params", NULL};

/* Returns an object with only the members of obj that are parameters of the tool: some models write
 * the arguments next to the name instead of in an object of their own. */
static const struct json *inline_args(struct toolparse *p, const struct json *obj,
                                      struct text name) {
    struct json *args = json_new(&p->arena, JSON_OBJ);
    for (const struct json *m = json_first(obj); m; m = json_next(m)) {
        const struct text key = name_of(m);
        if (!tool_is(key, "name") && tool_schema(p, name, key)) tool_put(p, args, key, m);
    }
    if (json_first(args))
        tool_problem(p, "the arguments of '%.*s' are not in an object of their own", tool_len(name),
                     name.s);
    return args;
}

static bool only_white(struct text t) {
    return tool_strip(t).n == 0;
}

const struct json *tool_whole_json(struct toolparse *p, struct text t) {
    size_t used;
    const struct json *v = tool_json(p, t, &used);
    return v && only_white((struct text){t.s + used, t.n - used}) ? v : NULL;
}

const struct json *tool_arguments(struct toolparse *p, const struct json *v) {
    if (json_type(v) == JSON_STR) {
        const struct text t = text_of(v);
        v = only_white(t) ? json_new(&p->arena, JSON_OBJ) : tool_whole_json(p, t);
    }
    return json_type(v) == JSON_OBJ ? v : NULL;
}

bool tool_add_object(struct toolparse *p, const struct json *obj) {
    if (json_type(obj) != JSON_OBJ) return false;
    if (json_type(json_get(obj, "function")) == JSON_OBJ) obj = json_get(obj, "function");
    const struct json *name = first_of(obj, tool_name_members);
    const struct json *args = first_of(obj, tool_arg_members);
    struct text text = {NULL, 0};
    if (name && json_type(name) == JSON_STR) text = text_of(name);
    if (!name && json_len(obj) == 1) { /* {"f": {args}} */
        args = json_first(obj);
        text = name_of(args);
    }
    if (!args && text.s) args = inline_args(p, obj, text);
    args = json_type(args) == JSON_NULL ? json_new(&p->arena, JSON_OBJ) : tool_arguments(p, args);
    if (!text.s || !args) return false;
    if (!tool_is_no_call(p, text)) tool_add(p, text, args);
    return true;
}

const struct json *tool_schema(struct toolparse *p, struct text fn, struct text key) {
    const struct json *f = tool_declared(p, fn);
    p->root = tool_parameters(f);
    return tool_target(p->root, json_getn(tool_properties(p, f), key.s, key.n));
}
