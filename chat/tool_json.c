// SPDX-License-Identifier: MIT
/* chat/tool_json.c - parsers of tool calls that are written as JSON. */
#include "chat/tool_int.h"

#include "chat/calls.h"

#include <string.h>

/* Parses the value at *i after whitespace and moves past it. NULL: no value. */
static const struct json *json_at(struct toolparse *p, size_t *i) {
    size_t used;
    *i = tool_ws(p, *i);
    if (*i >= p->in.len) return NULL;
    const struct json *v = tool_json(p, tool_text(p, *i, p->in.len), &used);
    if (v) *i += used;
    return v;
}

/* Returns whether a string in quotes in [i, to) contains a line break or another control
 * character. */
static bool raw_control(const struct toolparse *p, size_t i, size_t to) {
    bool text = false;
    for (; i < to; i++) {
        const char ch = p->in.data[i];
        if (text && (unsigned char)ch < ' ') return true;
        if (text && ch == '\\')
            i++;
        else if (ch == '"')
            text = !text;
    }
    return false;
}

/* Parses a JSON value, or a Python literal, which is reported as a problem. */
static const struct json *value_at(struct toolparse *p, size_t *i) {
    const size_t at = *i;
    const int n_problems = p->n_problems;
    const struct json *v = json_at(p, i);
    if (v) return v;
    *i = at;
    p->json_text = true;
    v = tool_literal(p, i);
    p->json_text = false;
    if (v && raw_control(p, at, *i))
        tool_problem(p, "a text of a call has a line break or tab that is not escaped");
    else if (v)
        tool_problem(p, "a call is not JSON; it was read as Python");
    else
        p->n_problems = n_problems;
    return v;
}

/* Appends the closing brackets that the JSON in [i, to) lacks, innermost first. Returns false if
 * none are missing, or if it ends inside a string. */
static bool lacking(const struct toolparse *p, size_t i, size_t to, struct buf *out) {
    char open[TOOL_DEPTH];
    int depth = 0;
    bool text = false;
    for (; i < to; i++) {
        const char ch = p->in.data[i];
        if (text && ch == '\\')
            i++;
        else if (ch == '"')
            text = !text;
        else if (!text && (ch == '{' || ch == '[')) {
            if (depth == TOOL_DEPTH) return false;
            open[depth++] = ch == '{' ? '}' : ']';
        } else if (!text && (ch == '}' || ch == ']') && (!depth || open[--depth] != ch)) {
            return false;
        }
    }
    const bool some = !text && depth > 0;
    while (some && depth) buf_chr(out, open[--depth]);
    return some;
}

/* Parses a value that lacks closing brackets before the tag `close`, and reports that as a problem.
 * NULL: it cannot be closed; *i is unchanged then. */
static const struct json *unclosed(struct toolparse *p, size_t *i, const char *close) {
    const size_t from = tool_ws(p, *i), to = *close ? tool_find(p, from, close) : SIZE_MAX;
    struct buf text = {0};
    const struct json *v = NULL;
    if (to == SIZE_MAX || (!tool_at(p, from, "{") && !tool_at(p, from, "["))) return NULL;
    buf_add(&text, p->in.data + from, to - from);
    if (lacking(p, from, to, &text)) {
        const struct text t = {arena_strndup(&p->arena, text.data, text.len), text.len};
        v = tool_whole_json(p, t);
    }
    buf_release(&text);
    if (!v) return NULL;
    tool_problem(p, "a call lacks closing brackets");
    *i = to;
    return v;
}

/* Parses a value with value_at() or, if that fails, with unclosed(). */
static const struct json *value_before(struct toolparse *p, size_t *i, const char *close) {
    size_t k = *i;
    const struct json *v = value_at(p, &k);
    if (v) *i = k;
    return v ? v : unclosed(p, i, close);
}

/* Moves *i past whitespace, then past lit if that follows. */
static void skip(struct toolparse *p, size_t *i, const char *lit) {
    size_t k = tool_ws(p, *i);
    if (lit && *lit && tool_at(p, k, lit)) *i = k + strlen(lit);
}

struct text tool_name(const struct toolparse *p, size_t from, size_t to) {
    static const char prefix[] = "functions.";
    const size_t n = sizeof prefix - 1;
    struct text t = tool_strip(tool_text(p, from, to));
    if (t.n > n && memcmp(t.s, prefix, n) == 0) {
        t.s += n;
        t.n -= n;
    }
    return t;
}

const struct json *tool_args(struct toolparse *p, size_t *i, const char *close) {
    struct tool_fence fence;
    size_t k = tool_fence_open(p, tool_ws(p, *i), &fence);
    if (k == SIZE_MAX) return NULL;
    const bool empty = *close && tool_at(p, tool_ws(p, k), close);
    const struct json *v = empty ? json_new(&p->arena, JSON_OBJ) : value_before(p, &k, close);
    const size_t end = v ? tool_fence_close(p, k, &fence) : SIZE_MAX;
    if (end == SIZE_MAX) return NULL;
    *i = end;
    v = tool_arguments(p, v);
    if (v) skip(p, i, close);
    return v;
}

/* Parses the string at *i and moves past it. False: no string, or an incomplete one. */
static bool string_at(struct toolparse *p, size_t *i, struct text *out) {
    const struct json *v = json_at(p, i);
    out->s = json_strn(v, &out->n);
    return out->s != NULL;
}

bool tool_is_no_call(const struct toolparse *p, struct text name) {
    return (tool_is(name, "directly_answer") || tool_is(name, "directly-answer")) &&
           !tool_declared(p, name);
}

/* Returns whether t is one of the names; the list ends in NULL. */
static bool is_among(struct text t, const char *const *names) {
    while (*names && !tool_is(t, *names)) names++;
    return *names != NULL;
}

/* Finds the arguments of {"name": N, "arguments": {...}, ...}, of that object as {"function":
 * {...}}, or of {N: {...}} in syntaxes that write this form. Also returns false if the arguments
 * precede the name. */
bool tool_head_object(struct toolparse *p, size_t at, struct text *name, size_t *from) {
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
        if (object && (name->s == key.s || is_among(key, tool_arg_members))) {
            *from = k;
            return name->s != NULL && !tool_is_no_call(p, *name);
        }
        if (!is_among(key, tool_name_members) ? !json_at(p, &k) : !string_at(p, &k, name))
            return false;
        k = tool_ws(p, k);
        if (!tool_at(p, k, ",")) return false;
    }
}

bool tool_head_hermes(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    at = tool_list_at(p, at, NULL);
    return at != SIZE_MAX && tool_head_object(p, at, name, from);
}

bool tool_head_llama(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    static const char tag[] = "<|python_tag|>";
    const bool tagged = tool_at(p, at, tag);
    return tool_head_object(p, tagged ? at + sizeof tag - 1 : at, name, from) &&
           (tagged || !p->tools || tool_declared(p, *name));
}

/* Returns whether v, which follows no tag, is a call and not an answer in JSON: its name is that of
 * a declared tool or, if the tools are unknown, it has arguments. */
static bool is_bare_call(const struct toolparse *p, const struct json *v) {
    const struct json *inner = json_get(v, "function");
    struct text name;
    if (json_type(inner) == JSON_OBJ) v = inner;
    name.s = json_strn(json_get(v, "name"), &name.n);
    if (!name.s || p->tools) return name.s && tool_declared(p, name);
    for (const char *const *m = tool_arg_members; *m; m++)
        if (json_get(v, *m)) return true;
    return false;
}

/* Parses one JSON call at *i; records an object that is not a call as a problem. False: no complete
 * JSON value. */
bool tool_one_object(struct toolparse *p, size_t *i) {
    const struct json *v = value_before(p, i, p->f->named.close ? p->f->named.close : "");
    if (!v) return false;
    if (!tool_add_object(p, v)) tool_problem(p, "an entry of the list of calls is not a call");
    return true;
}

/* Adds the call v or, if v is a list, the calls in it. False: v is not a call. */
static bool add_calls(struct toolparse *p, const struct json *v) {
    if (json_type(v) != JSON_ARR) return tool_add_object(p, v);
    for (v = json_first(v); v; v = json_next(v))
        if (!tool_add_object(p, v)) tool_problem(p, "an entry of the list of calls is not a call");
    return true;
}

/* Returns whether too little text has arrived at i to know if lit follows there. */
static bool is_open(const struct toolparse *p, size_t i, const char *lit) {
    i = tool_ws(p, i);
    return !p->ended && i + tool_partial(p, i, lit) >= p->in.len;
}

/* Moves *i past the tag that closes the calls, and past any text before it. */
static void close_calls(struct toolparse *p, size_t *i, const char *close) {
    const size_t k = tool_ws(p, *i), end = tool_find(p, k, close);
    if (end != SIZE_MAX && end != k && end < tool_marker(p, k)) {
        const struct text t = tool_text(p, k, end);
        tool_problem(p, "what follows a call in its tag is not one: %.*s", tool_len(t), t.s);
        *i = end;
    }
    skip(p, i, close);
}

/* Moves *i past an optional closing fence. False: more text is needed. */
static bool end_fence(const struct toolparse *p, size_t *i, struct tool_fence *f) {
    const size_t end = tool_fence_close(p, *i, f);
    if (end == SIZE_MAX) return false;
    if (end > *i) f->n = 0;
    *i = end;
    return true;
}

bool tool_json_calls(struct toolparse *p, size_t *i, const char *close) {
    struct tool_fence fence;
    size_t k = tool_fence_open(p, tool_ws(p, *i), &fence);
    bool any = false;
    if (k == SIZE_MAX) return false;
    for (;;) {
        size_t at = k;
        const struct json *v = value_before(p, &at, close);
        if (!v || !add_calls(p, v)) break;
        any = true;
        k = at;
        if (!end_fence(p, &k, &fence)) return false;
        *i = k;
        if (!*close) return true;
        if (is_open(p, k, close)) return false;
        k = tool_ws(p, k);
        k = tool_ws(p, k + tool_at(p, k, ","));
        if (is_open(p, k, close)) return false;
        if (!tool_at(p, k, "{") && !tool_at(p, k, "[")) break;
        if (!p->ended && tool_find(p, k, close) == SIZE_MAX) return false;
    }
    if (any) close_calls(p, i, close);
    return any;
}

size_t tool_list_at(const struct toolparse *p, size_t at, struct tool_fence *fence) {
    struct tool_fence none;
    at = tool_ws(p, at + strlen(p->f->named.open ? p->f->named.open : PY_CALLS));
    at = tool_fence_open(p, at, fence ? fence : &none);
    return at == SIZE_MAX ? at : tool_ws(p, at);
}

/* Parses calls at *i that are written in the XML tags of other models. False: no complete call. */
static bool other_tags(struct toolparse *p, size_t *i) {
    const struct toolfmt *own = p->f;
    p->f = toolfmt_find("qwen-xml");
    const bool ok = tool_parse_tags(p, i);
    p->f = own;
    return ok;
}

bool tool_parse_hermes(struct toolparse *p, size_t *i) {
    const char *open = p->f->named.open;
    size_t k = *i + strlen(open);
    if (!p->own_form && strcmp(open, "<tool_call>") == 0 && tool_at(p, tool_ws(p, k), "<function="))
        return other_tags(p, i);
    if (!tool_json_calls(p, &k, p->f->named.close)) return false;
    *i = k;
    return true;
}

bool tool_list_elements(struct toolparse *p, size_t *i, tool_one *one) {
    for (size_t k = *i;; k = *i) {
        *i = k = tool_ws(p, k);
        if (tool_at(p, k, "]") || tool_at(p, k, ",")) {
            *i = k + 1;
            if (p->in.data[k] == ']') return true;
        } else if (one(p, &k) && k > *i) {
            *i = k;
        } else {
            return false;
        }
    }
}

bool tool_list(struct toolparse *p, size_t *i, tool_one *one, struct tool_fence *fence,
               const char *close) {
    const int before = p->n_calls;
    size_t k = *i + 1;
    if (tool_list_elements(p, &k, one)) {
        if (!end_fence(p, &k, fence)) return false;
        skip(p, &k, close);
    } else {
        if (!p->ended || p->n_calls == before) return false;
        tool_problem(p, "the list of calls breaks off after %d", p->n_calls - before);
        p->broken = true;
        close_calls(p, &k, close);
    }
    *i = k;
    return true;
}

bool tool_parse_list(struct toolparse *p, size_t *i) {
    struct tool_fence fence;
    size_t k = tool_list_at(p, *i, &fence);
    if (k != SIZE_MAX && tool_at(p, k, "[")) {
        if (!tool_list(p, &k, tool_one_object, &fence, p->f->named.close)) return false;
        *i = k;
        return true;
    }
    const struct json *v = k == SIZE_MAX ? NULL : value_before(p, &k, p->f->named.close);
    if (!v || !add_calls(p, v)) return false;
    if (!end_fence(p, &k, &fence)) return false;
    skip(p, &k, p->f->named.close);
    *i = k;
    return true;
}

/* Parses the head of a call written as: open NAME sep {json} close. False: incomplete. */
bool tool_head_named(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    const struct tool_named *t = &p->f->named;
    at += strlen(t->open);
    const size_t sep = tool_find(p, at, t->sep);
    if (sep == SIZE_MAX || sep - at > 500) return false;
    *name = tool_name(p, at, sep);
    const char *mid = t->behind_id, *id = mid ? memmem(name->s, name->n, mid, strlen(mid)) : NULL;
    if (id) { /* the id precedes the name */
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
    if (!tool_head_named(p, *i, &name, &k) || !(v = tool_args(p, &k, p->f->named.close)))
        return false;
    skip(p, &k, "<|tool_calls_section_end|>");
    skip(p, &k, "<|tool_call_section_end|>");
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Parses the head of a call written as NAME[CALL_ID]ID[ARGS]{json}. False: incomplete. */
static bool mistral_head(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    const size_t args = tool_find(p, at, "[ARGS]"), id = tool_find(p, at, "[CALL_ID]");
    const size_t end = id < args ? id : args, brace = tool_find(p, at, "{");
    if (brace < end && brace > at) { /* NAME{json}, as some versions write it */
        *from = brace;
        *name = tool_name(p, at, brace);
        return name->n > 0 && name->n < 100 && tool_declared(p, *name);
    }
    if (args == SIZE_MAX || end - at > 500) return false;
    *from = args + strlen("[ARGS]");
    *name = tool_name(p, at, end);
    return name->n > 0;
}

bool tool_head_mistral(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    return mistral_head(p, at + strlen("[TOOL_CALLS]"), name, from);
}

/* Returns whether another name with arguments is at k, after a call. *open: more text is needed to
 * decide. */
static bool mistral_more(const struct toolparse *p, size_t k, bool *open) {
    const size_t from = k;
    while (k < p->in.len && !tool_is_ws(p->in.data[k]) && !strchr("[]<{}\",", p->in.data[k])) k++;
    *open = is_open(p, k, "[ARGS]") || is_open(p, k, "[CALL_ID]");
    return k > from && (tool_at(p, k, "[ARGS]") || tool_at(p, k, "[CALL_ID]"));
}

bool tool_parse_mistral(struct toolparse *p, size_t *i) {
    size_t k = *i + strlen("[TOOL_CALLS]");
    bool any = false, open = false;
    const size_t list = tool_ws(p, k); /* the older form, a JSON list */
    if (strchr("[{`~", list < p->in.len ? p->in.data[list] : '{')) return tool_parse_list(p, i);
    do {
        struct text name;
        const struct json *v;
        if (!mistral_head(p, k, &name, &k) || !(v = tool_args(p, &k, ""))) break;
        tool_add(p, name, v);
        any = true;
        *i = k;
        k = tool_ws(p, k);
    } while (mistral_more(p, k, &open));
    return any && !open;
}

/* Parses the head of a DeepSeek call. V3.1 writes NAME sep {json}; V3 and R1 write "function" sep
 * NAME, a newline and a fenced JSON block. False: incomplete. */
bool tool_head_deepseek(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    struct tool_fence fence;
    size_t k = at;
    skip(p, &k, DS_CALLS);
    k = tool_ws(p, k);
    if (!tool_at(p, k, DS_CALL)) return false;
    k += strlen(DS_CALL);
    const size_t sep = tool_find(p, k, DS_SEP);
    if (sep == SIZE_MAX || sep - k > 500) return false;
    *name = tool_name(p, k, sep);
    k = sep + strlen(DS_SEP);
    if (tool_is(*name, "function") && !tool_at(p, tool_ws(p, k), "{")) {
        const size_t mark = tool_find(p, k, "```"), brace = tool_find(p, k, "{");
        const size_t end = mark < brace ? mark : brace;
        if (end == SIZE_MAX || end - k > 500) return false;
        *name = tool_name(p, k, end);
        k = end;
    }
    *from = tool_fence_open(p, tool_ws(p, k), &fence);
    return name->n > 0 && *from != SIZE_MAX;
}

bool tool_parse_deepseek(struct toolparse *p, size_t *i) {
    struct text name;
    const struct json *v;
    size_t k;
    if (!tool_head_deepseek(p, *i, &name, &k) || !(v = tool_args(p, &k, DS_CALL_END))) return false;
    skip(p, &k, "```"); /* tool_head_deepseek() parsed the opening fence */
    skip(p, &k, DS_CALL_END);
    skip(p, &k, DS_CALLS_END);
    tool_add(p, name, v);
    *i = k;
    return true;
}

/* Returns whether the object at i, which a limit may have cut off, begins with the name of a tool
 * that was not declared. */
static bool begins_other(struct toolparse *p, size_t i) {
    struct text key, name;
    i = tool_ws(p, i + 1);
    if (!p->tools || !string_at(p, &i, &key) || !tool_is(key, "name")) return false;
    i = tool_ws(p, i);
    if (!tool_at(p, i, ":")) return false;
    i++;
    return string_at(p, &i, &name) && !tool_declared(p, name);
}

enum { SPACED = 256 }; /* maximum length of the beginning of a call with white space */
enum spaced { SPACED_NO, SPACED_MAYBE, SPACED_YES };

/* Returns whether an object with white space after its brace begins at i and names a declared tool,
 * or the type "function"; SPACED_MAYBE: more text is needed. */
static enum spaced spaced_at(const struct toolparse *p, size_t i) {
    static const char *const keys[] = {"\"name\"", "\"type\""};
    size_t k = tool_ws(p, i + 1), key = 0;
    if (k == i + 1) return k < p->in.len ? SPACED_NO : SPACED_MAYBE;
    while (key < 2 && !tool_at(p, k, keys[key])) key++;
    if (key == 2)
        return k + tool_partial(p, k, keys[0]) < p->in.len &&
                       k + tool_partial(p, k, keys[1]) < p->in.len
                   ? SPACED_NO
                   : SPACED_MAYBE;
    k = tool_ws(p, k + strlen(keys[key]));
    if (k < p->in.len && p->in.data[k] != ':') return SPACED_NO;
    if (k < p->in.len) k = tool_ws(p, k + 1);
    if (k < p->in.len && p->in.data[k] != '"') return SPACED_NO;
    const size_t end = k < p->in.len ? tool_find(p, k + 1, "\"") : SIZE_MAX;
    if ((end == SIZE_MAX ? p->in.len : end) - i > SPACED) return SPACED_NO;
    if (end == SIZE_MAX) return SPACED_MAYBE;
    const struct text value = tool_text(p, k + 1, end);
    return (key ? tool_is(value, "function") : tool_declared(p, value) != NULL) ? SPACED_YES
                                                                                : SPACED_NO;
}

size_t tool_spaced_partial(const struct toolparse *p, size_t from) {
    if (!p->f->bare || p->no_calls || !p->tools) return 0;
    if (p->in.len - from > SPACED) from = p->in.len - SPACED;
    for (size_t i = from; i < p->in.len; i++)
        if (p->in.data[i] == '{' && spaced_at(p, i) == SPACED_MAYBE) return p->in.len - i;
    return 0;
}

size_t tool_next_spaced(const struct toolparse *p, size_t i) {
    if (!p->f->bare || !p->tools) return SIZE_MAX;
    while ((i = tool_find(p, i, "{")) != SIZE_MAX && spaced_at(p, i) != SPACED_YES) i++;
    return i;
}

/* Parses calls of the form {"name": N, "parameters": {..}}, or <|python_tag|>NAME.call(k="v") for
 * built-in tools. False: no complete call. */
bool tool_parse_llama(struct toolparse *p, size_t *i) {
    static const char tag[] = "<|python_tag|>";
    size_t k = *i;
    const bool tagged = tool_at(p, k, tag);
    const struct json *v;
    if (tagged) {
        k = tool_ws(p, k + sizeof tag - 1);
        if (k >= p->in.len || p->in.data[k] != '{') {
            *i = k;
            return tool_parse_python(p, i);
        }
    }
    v = value_at(p, &k);
    if (!tagged && (v ? !is_bare_call(p, v) : p->limited && begins_other(p, *i))) {
        p->answer_to = v ? k : p->in.len;
        return false;
    }
    if (!tool_add_object(p, v)) return false;
    skip(p, &k, ";");
    *i = k;
    return true;
}
