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

bool tool_is_no_call(const struct toolparse *p, struct text name) {
    return (tool_is(name, "directly_answer") || tool_is(name, "directly-answer")) &&
           !tool_declared(p, name);
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
            return name->s != NULL && !tool_is_no_call(p, *name);
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

/* Adds the call v, or those of the list v. */
static bool add_calls(struct toolparse *p, const struct json *v) {
    unsigned n = 0;
    if (json_type(v) != JSON_ARR) return tool_add_object(p, v);
    for (v = json_first(v); v; v = json_next(v), n++)
        if (!tool_add_object(p, v))
            tool_problem(p, "entry %u of the list of calls is not a call", n);
    return true;
}

/* Tells whether more text could change what is read at i, where lit may follow. */
static bool is_open(const struct toolparse *p, size_t i, const char *lit) {
    i = tool_ws(p, i);
    return !p->ended && i + tool_partial(p, i, lit) >= p->in.len;
}

/* Moves *i past the closing tag of calls. Text between the last call and the tag is not a call. */
static void close_calls(struct toolparse *p, size_t *i) {
    const char *close = p->f->named.close;
    const size_t k = tool_ws(p, *i), end = tool_find(p, k, close);
    if (end != SIZE_MAX && end != k && end < tool_marker(p, k)) {
        const struct text t = tool_text(p, k, end);
        tool_problem(p, "what follows a call in its tag is not one: %.*s", tool_len(t), t.s);
        *i = end;
    }
    skip(p, i, close);
}

/* Reads calls one after another, with commas or none between them, up to the closing tag: models
 * write several into one tag. */
static bool read_calls(struct toolparse *p, size_t *i) {
    const char *close = p->f->named.close;
    size_t k = *i;
    bool any = false;
    for (;;) {
        size_t at = k;
        const struct json *v = json_at(p, &at);
        if (!v || !add_calls(p, v)) break;
        any = true;
        *i = k = at;
        if (!*close) return true;
        if (is_open(p, k, close)) return false;
        k = tool_ws(p, k);
        k = tool_ws(p, k + tool_at(p, k, ","));
        if (is_open(p, k, close)) return false;
        if (!tool_at(p, k, "{") && !tool_at(p, k, "[")) break;
        if (!p->ended && tool_find(p, k, close) == SIZE_MAX) return false;
    }
    if (any) close_calls(p, i);
    return any;
}

size_t tool_list_at(const struct toolparse *p, size_t at) {
    static const char *const fences[] = {"```json", "```"};
    at = tool_ws(p, at + strlen(p->f->named.open ? p->f->named.open : PY_CALLS));
    for (size_t k = 0; k < COUNT_OF(fences); k++)
        if (tool_at(p, at, fences[k])) return tool_ws(p, at + strlen(fences[k]));
    return at;
}

bool tool_parse_hermes(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen(p->f->named.open);
    if (!read_calls(p, &k)) return false;
    *i = k;
    return true;
}

bool tool_parse_list(struct toolparse *p, size_t *i) {
    size_t k = tool_list_at(p, *i);
    const struct json *v = json_at(p, &k);
    if (!v || !add_calls(p, v)) return false;
    skip(p, &k, p->f->named.close);
    *i = k;
    return true;
}

/* Reads what stands in front of the arguments in: open NAME sep {json} close. */
bool tool_head_named(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    const struct tool_named *t = &p->f->named;
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
    skip(p, &k, "<|tool_call_section_end|>");
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Reads what comes before the arguments in: NAME[CALL_ID]ID[ARGS]{json}. */
static bool mistral_head(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    const size_t args = tool_find(p, at, "[ARGS]"), id = tool_find(p, at, "[CALL_ID]");
    const size_t end = id < args ? id : args;
    if (args == SIZE_MAX || end - at > 500) return false;
    *from = args + strlen("[ARGS]");
    *name = name_of(p, at, end);
    return name->n > 0;
}

bool tool_head_mistral(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    return mistral_head(p, at + strlen("[TOOL_CALLS]"), name, from);
}

/* Tells whether a name and its arguments come at k, after a call; *open: more text may say so. */
static bool mistral_more(const struct toolparse *p, size_t k, bool *open) {
    const size_t from = k;
    while (k < p->in.len && !tool_is_ws(p->in.data[k]) && !strchr("[]<{}\",", p->in.data[k])) k++;
    *open = is_open(p, k, "[ARGS]") || is_open(p, k, "[CALL_ID]");
    return k > from && (tool_at(p, k, "[ARGS]") || tool_at(p, k, "[CALL_ID]"));
}

bool tool_parse_mistral(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen("[TOOL_CALLS]");
    bool any = false, open = false;
    const size_t list = tool_ws(p, k); /* of the older form */
    if (tool_at(p, list, "[{") || tool_at(p, list, "{") || tool_find(p, k, "[ARGS]") == SIZE_MAX)
        return tool_parse_list(p, i);
    do {
        struct text name;
        const struct json *v;
        if (!mistral_head(p, k, &name, &k) || !(v = object_at(p, &k))) break;
        tool_add(p, name, v);
        any = true;
        *i = k;
        k = tool_ws(p, k);
    } while (mistral_more(p, k, &open));
    return any && !open;
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
    if (tool_is(*name, "function") && !tool_at(p, tool_ws(p, k), "{")) {
        const size_t fence = tool_find(p, k, "```json"), brace = tool_find(p, k, "{");
        const size_t end = fence < brace ? fence : brace;
        if (end == SIZE_MAX || end - k > 500) return false;
        *name = name_of(p, k, end);
        k = end + (end == fence ? strlen("```json") : 0);
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

enum { HEADER = 300 }; /* bytes of the header of a message of harmony */

size_t tool_header(const struct toolparse *p, size_t i) {
    if (p->f->parse != tool_parse_harmony) return i;
    const size_t msg = tool_find(p, i, "<|message|>");
    return msg == SIZE_MAX || msg - i > HEADER ? i : msg + strlen("<|message|>");
}

/* Reads a header that names a tool: [<|start|>assistant] and, in any order, <|channel|>NAME,
 * to=functions.NAME, <|constrain|>json; then <|message|>{json}<|call|>. */
bool tool_head_harmony(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    const size_t msg = tool_find(p, at, "<|message|>"), to = tool_find(p, at, "to=");
    if (msg == SIZE_MAX || msg - at > HEADER || to > msg) return false;
    size_t k = to + strlen("to=");
    const size_t begin = k;
    while (k < msg && p->in.data[k] != '<' && !tool_is_ws(p->in.data[k])) k++;
    *name = name_of(p, begin, k);
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
