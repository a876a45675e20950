// SPDX-License-Identifier: MIT
/* chat/tool_json.c - calls written as JSON. */
#include "chat/tool_int.h"

#include "chat/calls.h"

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

/* Reads the string at *i, and moves behind it. False: there is none, or it is not complete. */
static bool string_at(struct toolparse *p, size_t *i, struct text *out) {
    const struct json *v = json_at(p, i);
    out->s = json_strn(v, &out->n);
    return out->s != NULL;
}

static bool is_among(struct text t, const char *const *names, size_t n) {
    bool found = false;
    for (size_t i = 0; i < n; i++) found = found || tool_is(t, names[i]);
    return found;
}

/* Reads {"name": N, "arguments": {...}, ...}, or {"function": {that}}, or {N: {...}} where calls
 * are written so. Arguments in front of the name are not certain. */
bool tool_head_object(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    static const char *const args[] = {"arguments", "parameters", "args"};
    static const char *const names[] = {"name", "tool_name"};
    struct text key;
    size_t k = tool_ws(p, at);
    name->s = NULL;
    if (!tool_at(p, k, "{")) return false;
    for (k++;; k++) {
        if (!string_at(p, &k, &key)) return false;
        k = tool_ws(p, k);
        if (!tool_at(p, k, ":")) return false;
        k = tool_ws(p, k + 1);
        const bool object = tool_at(p, k, "{");
        if (object && tool_is(key, "function")) continue;
        if (object && p->f->grammar == call_item_key && !name->s) *name = key;
        if (object && (name->s == key.s || is_among(key, args, COUNT_OF(args)))) {
            *from = k;
            return name->s != NULL;
        }
        if (!is_among(key, names, COUNT_OF(names)) ? !json_at(p, &k) : !string_at(p, &k, name))
            return false;
        k = tool_ws(p, k);
        if (!tool_at(p, k, ",")) return false;
    }
}

bool tool_head_hermes(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    return tool_head_object(p, at + strlen(p->f->named.open), name, from);
}

bool tool_head_llama(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    static const char tag[] = "<|python_tag|>";
    return tool_head_object(p, tool_at(p, at, tag) ? at + sizeof tag - 1 : at, name, from);
}

bool tool_one_object(struct toolparse *p, size_t *i) {
    const struct json *v = json_at(p, i);
    if (!v) return false;
    (void)tool_add_object(p, v);
    return true;
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

/* Reads what stands in front of the arguments in: open NAME sep {json} close. */
bool tool_head_named(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    const struct tool_named *t = &p->f->named;
    static const char section[] = "<|tool_calls_section_begin|>";
    if (tool_at(p, at, section)) at += sizeof section - 1;
    at += strlen(t->open);
    const size_t sep = tool_find(p, at, t->sep);
    if (sep == SIZE_MAX || sep - at > 500) return false;
    *name = name_of(p, at, sep);
    const char *mid = t->behind_id, *id = mid ? memmem(name->s, name->n, mid, strlen(mid)) : NULL;
    if (id) { /* in front of the name */
        const char *end = name->s + name->n;
        name->s = id + strlen(mid);
        name->n = (size_t)(end - name->s);
    }
    if (t->numbered) {
        size_t n = name->n;
        while (n > 0 && name->s[n - 1] >= '0' && name->s[n - 1] <= '9') n--;
        if (n > 0 && name->s[n - 1] == ':') name->n = n - 1;
    }
    *from = sep + strlen(t->sep);
    return name->n > 0;
}

bool tool_parse_named(struct toolparse *p, size_t *i) {
    struct text name;
    const struct json *v;
    size_t k;
    if (!tool_head_named(p, *i, &name, &k) || !(v = object_at(p, &k))) return false;
    skip(p, &k, p->f->named.close);
    skip(p, &k, "<|tool_calls_section_end|>");
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads what stands in front of the arguments in: [TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{json}. */
bool tool_head_mistral(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    at += strlen("[TOOL_CALLS]");
    const size_t args = tool_find(p, at, "[ARGS]"), id = tool_find(p, at, "[CALL_ID]");
    const size_t end = id < args ? id : args;
    if (args == SIZE_MAX || end - at > 500) return false;
    *from = args + strlen("[ARGS]");
    *name = name_of(p, at, end);
    return name->n > 0;
}

bool tool_parse_mistral(struct toolparse *p, size_t *i) {
    size_t k;
    struct text name;
    const struct json *v;
    if (tool_find(p, *i, "[ARGS]") == SIZE_MAX) return tool_parse_list(p, i);
    if (!tool_head_mistral(p, *i, &name, &k) || !(v = object_at(p, &k))) return false;
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads what stands in front of the arguments. DeepSeek V3.1 writes NAME sep {json}; V3 and R1
 * write "function" sep NAME, a newline and a fenced JSON block. */
bool tool_head_deepseek(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    size_t k = at;
    skip(p, &k, DS_CALLS);
    k = tool_ws(p, k);
    if (!tool_at(p, k, DS_CALL)) return false;
    k += strlen(DS_CALL);
    const size_t sep = tool_find(p, k, DS_SEP);
    if (sep == SIZE_MAX || sep - k > 500) return false;
    *name = name_of(p, k, sep);
    k = sep + strlen(DS_SEP);
    const size_t fence = tool_find(p, k, "```json");
    if (tool_is(*name, "function") && fence != SIZE_MAX && fence - k < 500 &&
        p->in.data[tool_ws(p, k)] != '{') {
        *name = name_of(p, k, fence);
        k = fence + strlen("```json");
    }
    *from = k;
    return name->n > 0;
}

bool tool_parse_deepseek(struct toolparse *p, size_t *i) {
    struct text name;
    const struct json *v;
    size_t k;
    if (!tool_head_deepseek(p, *i, &name, &k) || !(v = object_at(p, &k))) return false;
    skip(p, &k, "```");
    skip(p, &k, DS_CALL_END);
    skip(p, &k, DS_CALLS_END);
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads what stands in front of the arguments in: [<|channel|>commentary] to=functions.NAME ...
 * <|message|>{json}<|call|>. */
bool tool_head_harmony(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    size_t k = at += strlen("to=functions.");
    while (k < p->in.len && p->in.data[k] != '<' && p->in.data[k] != ' ' && p->in.data[k] != '\n')
        k++;
    const size_t msg = tool_find(p, k, "<|message|>");
    if (msg == SIZE_MAX || msg - k > 200) return false;
    *name = name_of(p, at, k);
    *from = msg + strlen("<|message|>");
    return name->n > 0;
}

bool tool_parse_harmony(struct toolparse *p, size_t *i) {
    struct text name;
    const struct json *v;
    size_t k;
    if (!tool_head_harmony(p, *i, &name, &k) || !(v = object_at(p, &k))) return false;
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
