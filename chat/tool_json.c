// SPDX-License-Identifier: MIT
/* chat/tool_json.c - calls written as JSON. */
#include "chat/tool_int.h"

#include <string.h>

/* Reads the value at *i, behind white space, and moves *i behind it. NULL when there is none. */
static const struct json *json_at(struct toolparse *p, size_t *i) {
    size_t used;
    *i = tool_ws(p, *i);
    if (*i >= p->in.len) return NULL;
    const struct json *v = tool_json(p, tool_text(p, *i, p->in.len), &used);
    if (v) *i += used;
    return v;
}

static const struct json *object_at(struct toolparse *p, size_t *i) {
    const struct json *v = json_at(p, i);
    return json_type(v) == JSON_OBJ ? v : NULL;
}

/* Moves *i over lit, and over white space before it, if it is there. */
static void skip(struct toolparse *p, size_t *i, const char *lit) {
    size_t k = tool_ws(p, *i);
    if (lit && *lit && tool_at(p, k, lit)) *i = k + strlen(lit);
}

static struct text name_of(const struct toolparse *p, size_t from, size_t to) {
    static const char prefix[] = "functions.";
    const size_t n = sizeof prefix - 1;
    struct text t = tool_strip(tool_text(p, from, to));
    if (t.n > n && memcmp(t.s, prefix, n) == 0) {
        t.s += n;
        t.n -= n;
    }
    return t;
}

bool tool_parse_hermes(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen(p->f->named.open);
    if (!tool_add_object(p, json_at(p, &k))) return false;
    skip(p, &k, p->f->named.close);
    *i = k;
    return true;
}

bool tool_parse_list(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen(p->f->named.open);
    const struct json *v = json_at(p, &k);
    if (json_type(v) == JSON_ARR) {
        unsigned n = 0;
        for (v = json_first(v); v; v = json_next(v), n++)
            if (!tool_add_object(p, v))
                tool_problem(p, "entry %u of the list of calls is not a call", n);
    } else if (json_type(v) != JSON_OBJ || !tool_add_object(p, v)) {
        return false;
    }
    skip(p, &k, p->f->named.close);
    *i = k;
    return true;
}

/* Reads calls of the form: open NAME sep {json} close. */
bool tool_parse_named(struct toolparse *p, size_t *i) {
    const struct tool_named *t = &p->f->named;
    static const char section[] = "<|tool_calls_section_begin|>";
    size_t from = *i, sep, k;
    const struct json *v;
    if (tool_at(p, from, section)) from += sizeof section - 1;
    from += strlen(t->open);
    sep = tool_find(p, from, t->sep);
    if (sep == SIZE_MAX || sep - from > 500) return false;
    struct text name = name_of(p, from, sep);
    const char *mid = t->behind_id, *at = mid ? memmem(name.s, name.n, mid, strlen(mid)) : NULL;
    if (at) { /* The ID stands first, then the name. */
        const char *end = name.s + name.n;
        name.s = at + strlen(mid);
        name.n = (size_t)(end - name.s);
    }
    if (t->numbered) {
        size_t n = name.n;
        while (n > 0 && name.s[n - 1] >= '0' && name.s[n - 1] <= '9') n--;
        if (n > 0 && name.s[n - 1] == ':') name.n = n - 1;
    }
    k = sep + strlen(t->sep);
    if (!name.n || !(v = object_at(p, &k))) return false;
    skip(p, &k, t->close);
    skip(p, &k, "<|tool_calls_section_end|>");
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads calls of the form: [TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{json}. */
bool tool_parse_mistral(struct toolparse *p, size_t *i) {
    size_t from = *i + strlen("[TOOL_CALLS]"), args = tool_find(p, from, "[ARGS]"),
           id = tool_find(p, from, "[CALL_ID]"), k;
    const struct json *v;
    if (args == SIZE_MAX) return tool_parse_list(p, i);
    size_t end = id < args ? id : args;
    if (end - from > 500) return false;
    k = args + strlen("[ARGS]");
    struct text name = name_of(p, from, end);
    if (!name.n || !(v = object_at(p, &k))) return false;
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads calls of DeepSeek. V3.1 writes NAME sep {json}; V3 and R1 write "function" sep NAME, a
 * newline and a fenced JSON block. */
bool tool_parse_deepseek(struct toolparse *p, size_t *i) {
    size_t k = *i;
    const struct json *v;
    skip(p, &k, DS_CALLS);
    k = tool_ws(p, k);
    if (!tool_at(p, k, DS_CALL)) return false;
    k += strlen(DS_CALL);
    size_t sep = tool_find(p, k, DS_SEP);
    if (sep == SIZE_MAX || sep - k > 500) return false;
    struct text name = name_of(p, k, sep);
    k = sep + strlen(DS_SEP);
    size_t fence = tool_find(p, k, "```json");
    if (tool_is(name, "function") && fence != SIZE_MAX && fence - k < 500 &&
        p->in.data[tool_ws(p, k)] != '{') {
        name = name_of(p, k, fence);
        k = fence + strlen("```json");
    }
    if (!name.n || !(v = object_at(p, &k))) return false;
    skip(p, &k, "```");
    skip(p, &k, DS_CALL_END);
    skip(p, &k, DS_CALLS_END);
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads calls of the form: [<|channel|>commentary] to=functions.NAME ...
 * <|message|>{json}<|call|>. */
bool tool_parse_harmony(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen("to=functions."), from = k;
    const struct json *v;
    while (k < p->in.len && p->in.data[k] != '<' && p->in.data[k] != ' ' && p->in.data[k] != '\n')
        k++;
    struct text name = name_of(p, from, k);
    size_t msg = tool_find(p, k, "<|message|>");
    if (!name.n || msg == SIZE_MAX || msg - k > 200) return false;
    k = msg + strlen("<|message|>");
    if (!(v = object_at(p, &k))) return false;
    skip(p, &k, "<|call|>");
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads calls of the form {"name": N, "parameters": {..}}, or <|python_tag|>NAME.call(k="v") for
 * built-in tools. */
bool tool_parse_llama(struct toolparse *p, size_t *i) {
    static const char tag[] = "<|python_tag|>";
    size_t k = *i;
    const struct json *v;
    if (tool_at(p, k, tag)) {
        k = tool_ws(p, k + sizeof tag - 1);
        if (k >= p->in.len || p->in.data[k] != '{') {
            *i = k;
            return tool_parse_python(p, i);
        }
    }
    if (!(v = object_at(p, &k)) || !json_get(v, "name") || !tool_add_object(p, v)) return false;
    skip(p, &k, ";");
    *i = k;
    return true;
}
