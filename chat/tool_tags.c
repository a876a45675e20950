// SPDX-License-Identifier: MIT
/* chat/tool_tags.c - calls whose parameters are raw text between tags (Qwen, Seed, MiniMax,
 * DeepSeek's DSML, MiniCPM, GLM). Values are not escaped, so a value ends at the first closing tag
 * that is followed by another parameter or the end of the call: a closing tag alone may be part of
 * the text. */
#include "chat/tool_int.h"

#include <string.h>

static bool followed(const struct toolparse *p, size_t i) {
    const struct tool_tags *t = &p->f->tags;
    i = tool_ws(p, i);
    return tool_at(p, i, t->par_open) || tool_at(p, i, t->fn_close);
}

enum { NAME_MAX_LEN = 500, CLOSING = 48 /* bytes that show whether a call ends here */ };
enum is_end { NO_END, UNKNOWN_END, IS_END };

/* Tells whether key is a parameter of fn, as far as tools are known. */
static bool is_parameter(struct toolparse *p, struct text fn, struct text key) {
    return !tool_declared(p, fn) || tool_schema(p, fn, key);
}

/* Tells whether a closing tag that does not begin a line ends its value: when another parameter of
 * the tool follows it after i, or the end of the whole call. Else it may be part of the text. */
static enum is_end ends_inline(struct toolparse *p, struct text fn, size_t i) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = tool_ws(p, i);
    if (tool_at(p, k, t->par_open)) {
        k += strlen(t->par_open);
        const size_t end = tool_find(p, k, t->par_name_end);
        if (end == SIZE_MAX) return p->in.len - k > NAME_MAX_LEN || p->ended ? NO_END : UNKNOWN_END;
        return is_parameter(p, fn, tool_text(p, k, end)) ? IS_END : NO_END;
    }
    k = tool_ws(p, k + strlen(t->fn_close));
    if (tool_wrapper_end(p, k) > k || tool_wrapper(p, k) > k) return IS_END;
    if (p->in.len < k + CLOSING && !p->ended) return UNKNOWN_END;
    return tool_skip_frames(p, k) > k || k >= p->in.len ? IS_END : NO_END;
}

size_t tool_value_end(struct toolparse *p, size_t i, struct text fn, size_t *next) {
    const struct tool_tags *t = &p->f->tags;
    const size_t n = strlen(t->par_close);
    const bool lines = t->newline && i > 0 && p->in.data[i - 1] == '\n';
    size_t found = SIZE_MAX;
    for (size_t at = tool_find(p, i, t->par_close); at != SIZE_MAX;
         at = tool_find(p, at + 1, t->par_close)) {
        if (!followed(p, at + n)) continue;
        const bool line = at == i || p->in.data[at - 1] == '\n';
        const enum is_end end = !lines || line ? IS_END : ends_inline(p, fn, at + n);
        if (end == UNKNOWN_END) return SIZE_MAX;
        if (found == SIZE_MAX || end == IS_END) found = at;
        if (end == IS_END) break;
        if (!p->ended) found = SIZE_MAX; /* it is the end only when no other one comes */
    }
    if (found == SIZE_MAX) return found;
    *next = found + n;
    return t->newline && found > i && p->in.data[found - 1] == '\n' ? found - 1 : found;
}

static struct text unquoted(struct text t) {
    t = tool_strip(t);
    if (t.n >= 2 && (t.s[0] == '"' || t.s[0] == '\'') && t.s[t.n - 1] == t.s[0]) {
        t.s++;
        t.n -= 2;
    }
    return t;
}

/* Returns NAME of `<parameter name="NAME" string="true">`. `raw` is DSML's flag: 1 text, 0 JSON, -1
 * absent. */
static struct text attr_name(struct text t, int *raw) {
    static const char flag[] = "\" string=\"";
    const char *at = memmem(t.s, t.n, flag, sizeof flag - 1);
    *raw = -1;
    if (!at) return unquoted(t);
    *raw = memmem(at, t.n - (size_t)(at - t.s), "true", 4) != NULL;
    t.n = (size_t)(at - t.s) + 1;
    return unquoted(t);
}

static struct text without_cdata(struct text t) {
    static const char open[] = "<![CDATA[", close[] = "]]>";
    const struct text s = tool_strip(t);
    const size_t a = sizeof open - 1, b = sizeof close - 1;
    if (s.n < a + b || memcmp(s.s, open, a) != 0 || memcmp(s.s + s.n - b, close, b) != 0) return t;
    return (struct text){s.s + a, s.n - a - b};
}

/* Reports a value that holds the opening tag of another parameter: its own may not be closed. */
static void holds_tag(struct toolparse *p, struct text fn, struct text key, struct text value,
                      const struct json *args) {
    const struct tool_tags *t = &p->f->tags;
    const char *at = memmem(value.s, value.n, t->par_open, strlen(t->par_open));
    if (!at || !tool_declared(p, fn)) return;
    const size_t from = (size_t)(at - p->in.data) + strlen(t->par_open);
    const size_t end = tool_find(p, from, t->par_name_end);
    if (end == SIZE_MAX || end - from > NAME_MAX_LEN) return;
    const struct text name = unquoted(tool_text(p, from, end));
    if (tool_schema(p, fn, name) && !json_getn(args, name.s, name.n))
        tool_problem(p, "the value of '%.*s' holds the tag of '%.*s': it may not be closed",
                     tool_len(key), key.s, tool_len(name), name.s);
}

static bool parameter(struct toolparse *p, size_t *i, struct text fn, struct json *args) {
    const struct tool_tags *t = &p->f->tags;
    size_t from = *i + strlen(t->par_open), name_end = tool_find(p, from, t->par_name_end), next,
           used;
    int raw;
    if (name_end == SIZE_MAX) return false;
    const struct text key = attr_name(tool_text(p, from, name_end), &raw);
    size_t start = name_end + strlen(t->par_name_end);
    if (t->newline && start < p->in.len && p->in.data[start] == '\n') start++;
    size_t end = tool_value_end(p, start, fn, &next);
    if (end == SIZE_MAX) return false;
    const struct text text = tool_text(p, start, end > start ? end : start);
    const struct json *v = NULL;
    if (raw == 1) v = tool_str(p, text);
    if (raw == 0) v = tool_json(p, text, &used);
    if (!v) v = tool_typed(p, tool_schema(p, fn, key), key, without_cdata(text));
    tool_put(p, args, key, v);
    holds_tag(p, fn, key, text, args);
    *i = next;
    return true;
}

size_t tool_wrapper(const struct toolparse *p, size_t i) {
    for (int m = 0; m < TOOL_MARKERS && p->f->marker[m]; m++)
        if (tool_at(p, i, p->f->marker[m])) return tool_ws(p, i + strlen(p->f->marker[m]));
    return i;
}

size_t tool_wrapper_end(const struct toolparse *p, size_t i) {
    static const char *const closes[] = {"</tool_call>",
                                         "</seed:tool_call>",
                                         "</minimax:tool_call>",
                                         "</" DSML "function_calls>",
                                         "</" DSML "tool_calls>",
                                         "</tool_calls>",
                                         "</tool_calls:opensource>",
                                         M3_GUARD "</tool_call>"};
    size_t after = tool_ws(p, i);
    for (size_t m = 0; m < COUNT_OF(closes); m++)
        if (tool_at(p, after, closes[m])) return after + strlen(closes[m]);
    return i;
}

bool tool_parse_tags(struct toolparse *p, size_t *i) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = *i;
    if (!tool_at(p, k, t->fn_open)) k = tool_wrapper(p, k);
    if (!tool_at(p, k, t->fn_open)) return false;
    size_t from = k + strlen(t->fn_open), end = tool_find(p, from, t->fn_name_end);
    if (end == SIZE_MAX || end == from || end - from > 500) return false;
    const struct text name = unquoted(tool_text(p, from, end));
    struct json *args = json_new(&p->arena, JSON_OBJ);
    k = tool_ws(p, end + strlen(t->fn_name_end));
    while (tool_at(p, k, t->par_open)) {
        if (!parameter(p, &k, name, args)) return false;
        k = tool_ws(p, k);
    }
    if (!tool_at(p, k, t->fn_close)) return false;
    tool_add(p, name, args);
    *i = tool_wrapper_end(p, k + strlen(t->fn_close));
    return true;
}

/* Reads calls of the form <tool_call>NAME <arg_key>K</arg_key> <arg_value>V</arg_value> ...
 * </tool_call>. The name ends at white space or a tag; Hunyuan 3 writes a separator behind it, and
 * one wrapper around all calls. */
bool tool_parse_glm(struct toolparse *p, size_t *i) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = *i;
    if (!tool_at(p, k, t->fn_open)) k = tool_wrapper(p, k);
    if (!tool_at(p, k, t->fn_open)) return false;
    size_t from = k + strlen(t->fn_open);
    for (k = from; k < p->in.len && p->in.data[k] != '<' && p->in.data[k] != '\n';) k++;
    const struct text name = tool_strip(tool_text(p, from, k));
    struct json *args = json_new(&p->arena, JSON_OBJ);
    if (!name.n || name.n > 500 || name.s[0] == '{') return false;
    k = tool_ws(p, k);
    if (*t->fn_name_end && tool_at(p, k, t->fn_name_end))
        k = tool_ws(p, k + strlen(t->fn_name_end));
    while (tool_at(p, k, t->par_open)) {
        size_t key_from = k + strlen(t->par_open), key_to = tool_find(p, key_from, t->par_name_end),
               next;
        if (key_to == SIZE_MAX) return false;
        size_t v = tool_ws(p, key_to + strlen(t->par_name_end));
        if (!tool_at(p, v, t->val_open)) return false;
        v += strlen(t->val_open);
        size_t end = tool_value_end(p, v, name, &next);
        if (end == SIZE_MAX) return false;
        const struct text key = tool_text(p, key_from, key_to), value = tool_text(p, v, end);
        tool_put(p, args, key, tool_typed(p, tool_schema(p, name, key), key, value));
        holds_tag(p, name, key, value, args);
        k = tool_ws(p, next);
    }
    if (!tool_at(p, k, t->fn_close)) return false;
    *i = tool_wrapper_end(p, k + strlen(t->fn_close));
    tool_add(p, name, args);
    return true;
}
