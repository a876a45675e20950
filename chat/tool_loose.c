// SPDX-License-Identifier: MIT
/* chat/tool_loose.c - calls that are written without the tags of the model's syntax: the whole
 * answer is a JSON object, or several, bare or in a fence, that a declared tool takes. */
#include "chat/tool_int.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "text/schema.h"

/* What may be in such an object, and what its parts are. */
static const char *const members[] = {"name", "arguments", "parameters", "id", "type", "function"};

/* Returns the place after the opening fence at i; i: there is none. SIZE_MAX: one may come. */
static size_t after_fence(const struct toolparse *p, size_t i) {
    static const char *const words[] = {"```json",      "```JSON",          "```tool_call",
                                        "```tool_code", "```function_call", "```"};
    for (size_t k = 0; k < COUNT_OF(words); k++) {
        if (i + tool_partial(p, i, words[k]) >= p->in.len) return SIZE_MAX;
        if (!tool_at(p, i, words[k])) continue;
        size_t end = i + strlen(words[k]);
        while (end < p->in.len && tool_is_ws(p->in.data[end]) && p->in.data[end] != '\n') end++;
        if (end >= p->in.len) return SIZE_MAX;
        if (p->in.data[end] == '\n') return end + 1;
    }
    return i;
}

/* Returns the arguments of the call obj, when it has the form of one; else NULL. */
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
    if (json_type(args) == JSON_STR) { /* JSON text, as APIs have it */
        struct text t;
        t.s = json_strn(args, &t.n);
        args = tool_whole_json(p, t);
    }
    return *name && json_type(args) == JSON_OBJ ? args : NULL;
}

/* Tells whether obj is a call of a declared tool whose schema its arguments satisfy. */
static bool is_valid(struct toolparse *p, const struct json *obj) {
    const char *name;
    const struct json *args = arguments_of(p, obj, &name), *f, *schema;
    struct buf why = {0};
    struct err e;
    bool ok = false;
    if (!args || !(f = tool_declared(p, (struct text){name, strlen(name)}))) return false;
    schema = json_get(f, "parameters") ? json_get(f, "parameters") : json_get(f, "input_schema");
    if (json_type(schema) != JSON_OBJ) return json_len(args) == 0;
    if (schema_check(schema, args, &ok, &why, &e)) ok = false;
    const struct json *props = json_get(tool_target(schema, schema), "properties");
    for (const struct json *m = json_first(args); m && ok; m = json_next(m))
        ok = json_get(props, json_name(m)) || json_get(schema, "additionalProperties") ||
             json_get(schema, "patternProperties");
    buf_release(&why);
    return ok;
}

/* Tells whether what begins at i, a bracket, may be such an object: its first member has one of
 * the names, and a name is one of a tool. */
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

/* Walks over the objects at *at, in a fence or bare, and moves behind them; add: adds their calls.
 * YES: these are calls. */
static enum tool_loose walk_piece(struct toolparse *p, size_t *at, bool add) {
    const size_t body = after_fence(p, *at);
    const bool fenced = body != *at;
    bool any = false;
    size_t i;
    if (body == SIZE_MAX) return LOOSE_MAYBE;
    for (i = tool_ws(p, body); i < p->in.len; i = tool_ws(p, i)) {
        size_t used;
        const char ch = p->in.data[i];
        if (any && (ch == ',' || ch == ';')) {
            i++;
            continue;
        }
        if (ch != '{' && ch != '[') break;
        if (!may_begin(p, i)) return LOOSE_NO;
        const struct json *v = tool_json(p, tool_text(p, i, p->in.len), &used);
        if (!v) return LOOSE_MAYBE; /* it is not complete, or none */
        const struct json *c = json_type(v) == JSON_ARR ? json_first(v) : v;
        if (!c) return LOOSE_NO;
        for (; c; c = json_type(v) == JSON_ARR ? json_next(c) : NULL) {
            if (!is_valid(p, c)) return LOOSE_NO;
            if (add) (void)tool_add_object(p, c);
        }
        any = true;
        i += used;
    }
    if (fenced && any && i < p->in.len) {
        if (!tool_at(p, i, "```"))
            return i + tool_partial(p, i, "```") < p->in.len ? LOOSE_NO : LOOSE_MAYBE;
        i += strlen("```");
    }
    *at = i;
    if (!any) return i < p->in.len ? LOOSE_NO : LOOSE_MAYBE;
    return LOOSE_YES;
}

/* Walks over the pieces of a loose answer, one fence after another; add: adds their calls. */
static enum tool_loose walk(struct toolparse *p, size_t i, bool add) {
    do {
        const enum tool_loose l = walk_piece(p, &i, add);
        if (l != LOOSE_YES) return l;
        i = tool_skip_frames(p, i);
        if (i >= p->in.len) return LOOSE_YES;
        if (i + tool_partial(p, i, "```") >= p->in.len) return p->ended ? LOOSE_NO : LOOSE_MAYBE;
    } while (tool_at(p, i, "```"));
    for (size_t k = 0; k < TOOL_ALL_FRAMES && !p->ended; k++)
        if (tool_frame(p, k) && i + tool_partial(p, i, tool_frame(p, k)) >= p->in.len)
            return LOOSE_MAYBE;
    return LOOSE_NO;
}

enum tool_loose tool_loose(struct toolparse *p, size_t i) {
    if (tool_marker(p, i) == i) return LOOSE_NO; /* it is the model's own syntax */
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
