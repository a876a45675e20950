// SPDX-License-Identifier: MIT
/* chat/tool_loose.c - parser of loose calls, which lack the tags of the model's syntax: the whole
 * answer is one or more JSON objects, bare or in a fence, and each is a valid call of a declared
 * tool. */
#include "chat/tool_int.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/schema.h"

/* Members that the object of a loose call may have. */
static const char *const members[] = {"name", "arguments", "parameters", "id", "type", "function"};

/* Returns the arguments of obj and sets *name, if obj has the form of a call; otherwise NULL. */
static const struct json *arguments_of(struct toolparse *p, const struct json *obj,
                                       const char **name) {
    const struct json *args = NULL, *inner = json_get(obj, "function");
    *name = NULL;
    if (json_type(obj) != JSON_OBJ) return NULL;
    if (inner && json_get(inner, "function")) return NULL;
    if (inner && !json_get(obj, "name")) return arguments_of(p, inner, name);
    for (const struct json *m = json_first(obj); m; m = json_next(m)) {
        size_t k = 0;
        while (k < COUNT_OF(members) && strcmp(json_name(m), members[k]) != 0) k++;
        if (k >= COUNT_OF(members) - 1) return NULL;
        if (k == 0) *name = json_str(m);
        if (k == 1 || k == 2) args = m;
    }
    args = tool_arguments(p, args);
    return *name ? args : NULL;
}

/* Returns whether the arguments satisfy the schema of the declared tool `name`. */
static bool tool_takes(struct toolparse *p, struct text name, const struct json *args) {
    const struct json *f = tool_declared(p, name), *schema;
    struct buf why = {0};
    struct err e;
    bool ok = false;
    if (!args || !f) return false;
    schema = tool_parameters(f);
    if (json_type(schema) != JSON_OBJ) return json_len(args) == 0;
    if (schema_check(schema, args, &ok, &why, &e)) ok = false;
    const struct json *props = tool_properties(p, f);
    for (const struct json *m = json_first(args); m && ok; m = json_next(m))
        ok = json_get(props, json_name(m)) || json_get(schema, "additionalProperties") ||
             json_get(schema, "patternProperties");
    buf_release(&why);
    return ok;
}

/* Returns whether obj is a call whose arguments its tool accepts. */
static bool is_valid(struct toolparse *p, const struct json *obj) {
    const char *name;
    const struct json *args = arguments_of(p, obj, &name);
    return args && tool_takes(p, (struct text){name, strlen(name)}, args);
}

/* Returns whether the bracket at i may begin a loose call: the object's first member is an allowed
 * one and, if it is "name", its value is a declared tool. */
static bool may_begin(struct toolparse *p, size_t i) {
    while (i < p->in.len && (p->in.data[i] == '[' || tool_is_ws(p->in.data[i]))) i++;
    if (i >= p->in.len) return true;
    if (p->in.data[i] != '{') return false;
    i = tool_ws(p, i + 1);
    bool any = false;
    for (size_t k = 0; k < COUNT_OF(members) && !any; k++) {
        char key[24];
        snprintf(key, sizeof key, "\"%s\"", members[k]);
        any = tool_at(p, i, key) || i + tool_partial(p, i, key) >= p->in.len;
    }
    if (!any || !tool_at(p, i, "\"name\"")) return any;
    i = tool_ws(p, i + strlen("\"name\""));
    if (i >= p->in.len) return true;
    if (p->in.data[i] != ':') return false;
    i = tool_ws(p, i + 1);
    const size_t end = i < p->in.len ? tool_find(p, i + 1, "\"") : SIZE_MAX;
    if (i < p->in.len && p->in.data[i] != '"') return false;
    if (end == SIZE_MAX) return p->in.len - i < 500;
    return tool_declared(p, tool_text(p, i + 1, end)) != NULL ||
           memchr(p->in.data + i, '\\', end - i) != NULL;
}

/* Returns whether models of this syntax write calls in Python. */
static bool writes_python(const struct toolparse *p) {
    return p->f->parse == tool_parse_python || p->f->parse == tool_parse_llama;
}

/* Returns whether a declared tool's name followed by '(' is at i, or might be when more text has
 * arrived. */
static bool may_begin_python(const struct toolparse *p, size_t i) {
    const size_t from = i = tool_ws(p, i + tool_at(p, i, "["));
    while (i < p->in.len && !tool_is_ws(p->in.data[i]) && !strchr("([{\"'`", p->in.data[i])) i++;
    if (i == p->in.len) return i - from < 100;
    return p->in.data[i] == '(' && tool_declared(p, tool_text(p, from, i));
}

/* Parses Python calls at *i and moves past them. add: adds them to p->calls. */
static enum tool_loose walk_python(struct toolparse *p, size_t *i, bool add) {
    const int before = p->n_calls;
    if (!may_begin_python(p, *i)) return LOOSE_NO;
    bool ok = tool_python_calls(p, i);
    if (!ok) return LOOSE_MAYBE;
    for (int k = before; k < p->n_calls; k++)
        ok = ok && tool_takes(p, p->calls[k].name, p->calls[k].args);
    ok = ok && p->n_calls > before;
    if (!add) p->n_calls = before;
    return ok ? LOOSE_YES : LOOSE_NO;
}

/* Parses the JSON objects or Python calls at *i and moves past them. add: adds the calls. *any: at
 * least one was found. */
static enum tool_loose walk_objects(struct toolparse *p, size_t *i, bool add, bool *any) {
    for (*i = tool_ws(p, *i); *i < p->in.len; *i = tool_ws(p, *i)) {
        size_t used;
        const char ch = p->in.data[*i];
        if (*any && (ch == ',' || ch == ';')) {
            ++*i;
            continue;
        }
        if (!*any && writes_python(p) && may_begin_python(p, *i)) {
            const enum tool_loose l = walk_python(p, i, add);
            if (l != LOOSE_YES) return l;
            *any = true;
            continue;
        }
        if (ch != '{' && ch != '[') break;
        if (!may_begin(p, *i)) return LOOSE_NO;
        const struct json *v = tool_json(p, tool_text(p, *i, p->in.len), &used);
        if (!v) return LOOSE_MAYBE; /* incomplete, or not JSON */
        const struct json *c = json_type(v) == JSON_ARR ? json_first(v) : v;
        if (!c) return LOOSE_NO;
        for (; c; c = json_type(v) == JSON_ARR ? json_next(c) : NULL) {
            if (!is_valid(p, c)) return LOOSE_NO;
            if (add) (void)tool_add_object(p, c);
        }
        *any = true;
        *i += used;
    }
    return *any ? LOOSE_YES : *i < p->in.len ? LOOSE_NO : LOOSE_MAYBE;
}

enum { NESTED = 3 }; /* maximum nesting of fences */

/* Parses the calls at *at, bare or in fences, and moves past them. add: adds them. */
static enum tool_loose walk_piece(struct toolparse *p, size_t *at, bool add) {
    struct tool_fence fence[NESTED];
    bool any = false;
    size_t i = *at;
    int n = 0;
    for (; n < NESTED; n++) {
        i = tool_ws(p, i);
        /* A call in the model's own syntax is not loose, bare or in a fence; JSON in a fence is. */
        if (tool_marker(p, i) == i && !(n && p->in.data[i] == '{')) return LOOSE_NO;
        const size_t body = tool_fence_open(p, i, &fence[n]);
        if (body == SIZE_MAX) return LOOSE_MAYBE;
        if (!fence[n].n) break;
        i = body;
    }
    const enum tool_loose l = walk_objects(p, &i, add, &any);
    if (l != LOOSE_YES) return l;
    while (n-- > 0 && i < p->in.len) {
        const size_t end = tool_fence_close(p, i, &fence[n]);
        if (end == SIZE_MAX) return LOOSE_MAYBE;
        if (end == i) return LOOSE_NO;
        i = tool_ws(p, end);
    }
    *at = i;
    return LOOSE_YES;
}

/* Returns whether another fence begins at i, or may once more text arrives. */
static bool more_follows(struct toolparse *p, size_t i) {
    struct tool_fence fence;
    return tool_marker(p, i) != i && tool_fence_open(p, i, &fence) != i;
}

/* Parses a loose answer from i to its end, one fence after another; add: adds its calls. */
static enum tool_loose walk(struct toolparse *p, size_t i, bool add) {
    do {
        const enum tool_loose l = walk_piece(p, &i, add);
        if (l != LOOSE_YES) return l;
        i = tool_skip_frames(p, i);
        if (i >= p->in.len) return LOOSE_YES;
    } while (more_follows(p, i));
    for (size_t k = 0; k < TOOL_ALL_FRAMES && !p->ended; k++)
        if (tool_frame(p, k) && i + tool_partial(p, i, tool_frame(p, k)) >= p->in.len)
            return LOOSE_MAYBE;
    return LOOSE_NO;
}

enum tool_loose tool_loose(struct toolparse *p, size_t i) {
    if (tool_text_end(p, i, i)) return LOOSE_NO;
    if (!p->ended && p->in.len < p->loose_at) return LOOSE_MAYBE;
    const int n_problems = p->n_problems;
    const enum tool_loose l = walk(p, i, false);
    p->n_problems = n_problems;
    p->loose_at = l == LOOSE_NO ? 0 : p->in.len + (p->in.len - i) / 32;
    return p->ended && l == LOOSE_MAYBE ? LOOSE_NO : l;
}

void tool_add_loose(struct toolparse *p, size_t i) {
    const int before = p->n_calls;
    (void)walk(p, i, true);
    for (int k = before; k < p->n_calls; k++) {
        p->calls[k].from = i;
        p->calls[k].to = p->in.len;
    }
    p->n_loose = p->n_calls - before;
}
