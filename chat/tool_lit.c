// SPDX-License-Identifier: MIT
/* chat/tool_lit.c - calls in other notations: Python calls and literals, and Gemma 4's own. */
#include "chat/tool_int.h"

#include <string.h>

static const struct json *word(struct toolparse *p, size_t *i) {
    static const struct {
        const char *text;
        int what; /* 0 none, 1 true, 2 false */
    } words[] = {{"None", 0}, {"null", 0}, {"True", 1}, {"true", 1}, {"False", 2}, {"false", 2}};
    for (size_t k = 0; k < COUNT_OF(words); k++) {
        if (!tool_at(p, *i, words[k].text)) continue;
        *i += strlen(words[k].text);
        return words[k].what == 0 ? json_new(&p->arena, JSON_NULL)
                                  : json_new_bool(&p->arena, words[k].what == 1);
    }
    return NULL;
}

static const struct json *number(struct toolparse *p, size_t *i) {
    size_t used;
    if (*i >= p->in.len || !strchr("-0123456789", p->in.data[*i])) return NULL;
    const struct json *v = tool_json(p, tool_text(p, *i, p->in.len), &used);
    if (v) *i += used;
    return v;
}

static const struct json *py_string(struct toolparse *p, size_t *i) {
    static const char map[] = "n\nt\tr\r\\\\''\"\"";
    const char q = p->in.data[*i];
    struct buf text = {0};
    size_t k = *i + 1;
    buf_str(&text, "");
    for (; k < p->in.len && p->in.data[k] != q; k++) {
        char ch = p->in.data[k];
        const char *hit = NULL;
        for (size_t n = 0; ch == '\\' && k + 1 < p->in.len && map[n]; n += 2)
            if (map[n] == p->in.data[k + 1]) hit = &map[n + 1];
        if (hit) k++;
        buf_chr(&text, hit ? *hit : ch);
    }
    const struct json *v = NULL;
    if (k < p->in.len) v = tool_str(p, (struct text){text.data, text.len});
    buf_release(&text);
    *i = k + 1;
    return v;
}

/* Returns a value as the name of a member, as Python writes it into JSON. */
static bool as_name(const struct json *v, struct text *name) {
    static const char *const truth[] = {"false", "true"};
    const enum json_type t = json_type(v);
    name->s = t == JSON_STR    ? json_str(v)
              : t == JSON_NUM  ? json_num_text(v)
              : t == JSON_BOOL ? truth[json_bool(v, false)]
                               : "null";
    name->n = strlen(name->s);
    return t != JSON_ARR && t != JSON_OBJ;
}

static const struct json *literal(struct toolparse *p, size_t *i, int depth);

static const struct json *items(struct toolparse *p, size_t *i, char close, int depth) {
    const bool dict = close == '}';
    size_t k = tool_ws(p, *i + 1);
    struct json *all = json_new(&p->arena, dict ? JSON_OBJ : JSON_ARR);
    while (k < p->in.len && p->in.data[k] != close) {
        struct text name;
        const struct json *key = dict ? literal(p, &k, depth + 1) : NULL, *v;
        if (dict) {
            k = tool_ws(p, k);
            if (!key || !as_name(key, &name) || k >= p->in.len || p->in.data[k] != ':') return NULL;
            k = tool_ws(p, k + 1);
        }
        if (!(v = literal(p, &k, depth + 1))) return NULL;
        if (dict)
            tool_put(p, all, name, v);
        else
            json_push(&p->arena, all, v);
        k = tool_ws(p, k);
        if (k < p->in.len && p->in.data[k] == ',')
            k = tool_ws(p, k + 1);
        else if (k >= p->in.len || p->in.data[k] != close)
            return NULL;
    }
    if (k >= p->in.len) return NULL;
    *i = k + 1;
    return all;
}

/* Reads a Python literal at *i and moves behind it; NULL when there is none. */
static const struct json *literal(struct toolparse *p, size_t *i, int depth) {
    *i = tool_ws(p, *i);
    if (*i >= p->in.len || depth > TOOL_DEPTH) return NULL;
    const char ch = p->in.data[*i];
    if (ch == '\'' || ch == '"') return py_string(p, i);
    if (ch == '[') return items(p, i, ']', depth);
    if (ch == '(') return items(p, i, ')', depth);
    if (ch == '{') return items(p, i, '}', depth);
    const struct json *w = word(p, i);
    return w ? w : number(p, i);
}

static size_t identifier(const struct toolparse *p, size_t i, const char *also) {
    while (i < p->in.len) {
        char ch = p->in.data[i];
        bool ok = ch == '_' || (ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') ||
                  (ch && strchr(also, ch));
        if (!ok) break;
        i++;
    }
    return i;
}

static bool py_call(struct toolparse *p, size_t *i) {
    size_t from = tool_ws(p, *i), k = identifier(p, from, ".-"), to = k;
    struct json *args = json_new(&p->arena, JSON_OBJ);
    const struct json *v;
    if (k == from || k >= p->in.len || p->in.data[k] != '(') return false;
    if (to - from > 5 && memcmp(p->in.data + to - 5, ".call", 5) == 0) to -= 5;
    const struct text name = tool_text(p, from, to);
    k = tool_ws(p, k + 1);
    while (k < p->in.len && p->in.data[k] != ')') {
        size_t key = k, key_end = identifier(p, k, "");
        k = tool_ws(p, key_end);
        if (key_end == key || k >= p->in.len || p->in.data[k] != '=') return false;
        k++;
        if (!(v = literal(p, &k, 0))) return false;
        tool_put(p, args, tool_text(p, key, key_end), v);
        k = tool_ws(p, k);
        if (k < p->in.len && p->in.data[k] == ',') k = tool_ws(p, k + 1);
    }
    if (k >= p->in.len) return false;
    *i = k + 1;
    tool_add(p, name, args);
    return true;
}

bool tool_one_python(struct toolparse *p, size_t *i) {
    return py_call(p, i);
}

bool tool_cut_python(struct toolparse *p, size_t at, size_t *cut, struct buf *end,
                     size_t *n_close) {
    static const char *const opens[] = {PY_CALLS, "<|python_tag|>"};
    size_t k = at;
    for (size_t m = 0; m < COUNT_OF(opens); m++)
        if (tool_at(p, at, opens[m])) k += strlen(opens[m]);
    k = identifier(p, tool_ws(p, k), ".-");
    if (!tool_at(p, k, "(")) return false;
    *cut = k = tool_ws(p, k + 1);
    *n_close = 1;
    buf_chr(end, ')');
    for (;;) {
        k = tool_ws(p, identifier(p, k, ""));
        if (!tool_at(p, k, "=")) return true;
        k++;
        if (!literal(p, &k, 0) || k >= p->in.len || !strchr(" \t\r\n,)", p->in.data[k]))
            return true;
        *cut = k;
        k = tool_ws(p, k);
        if (!tool_at(p, k, ",")) return true;
        k = tool_ws(p, k + 1);
    }
}

/* Reads calls of the form <|tool_call_start|>[f(k='v'), g()]<|tool_call_end|>, or one bare call. */
bool tool_parse_python(struct toolparse *p, size_t *i) {
    static const char open[] = PY_CALLS, close[] = "<|tool_call_end|>";
    size_t k = tool_at(p, *i, open) ? *i + sizeof open - 1 : *i;
    k = tool_ws(p, k);
    bool list = k < p->in.len && p->in.data[k] == '[';
    const int before = p->n_calls;
    if (list) k++;
    do {
        if (list && tool_ws(p, k) < p->in.len && p->in.data[tool_ws(p, k)] == ']') break;
        if (!py_call(p, &k)) {
            p->n_calls = before;
            return false;
        }
        k = tool_ws(p, k);
    } while (list && k < p->in.len && p->in.data[k] == ',' && k++ < p->in.len);
    k = tool_ws(p, k);
    if (list && k < p->in.len && p->in.data[k] == ']') k++;
    if (tool_at(p, tool_ws(p, k), close)) k = tool_ws(p, k) + sizeof close - 1;
    *i = k;
    return true;
}

/* ---- Gemma 4 --------------------------------------------------------------------------------- */
static const char quote[] = "<|\"|>";
enum { QUOTE = sizeof quote - 1 };

/* Reads a text. It ends at the first quote token that a separator follows, since it may hold the
 * quote token itself. */
static bool gemma_string(struct toolparse *p, size_t *i, struct text *out) {
    size_t from = *i + QUOTE;
    for (size_t at = tool_find(p, from, quote); at != SIZE_MAX; at = tool_find(p, at + 1, quote)) {
        size_t next = at + QUOTE;
        const size_t sep = tool_ws(p, next);
        if (sep >= p->in.len || !strchr(",}]:", p->in.data[sep])) continue;
        if (tool_find(p, from, quote) != at) tool_problem(p, "a text holds its own quote token");
        *out = tool_text(p, from, at);
        *i = next;
        return true;
    }
    return false;
}

/* Reads the name of a member and its colon. Some models put it into quotes, as JSON does. */
static bool gemma_key(struct toolparse *p, size_t *i, struct text *key) {
    if (tool_at(p, *i, quote)) {
        if (!gemma_string(p, i, key)) return false;
    } else {
        const size_t colon = tool_find(p, *i, ":");
        if (colon == SIZE_MAX) return false;
        *key = tool_strip(tool_text(p, *i, colon));
        if (key->n > 1 && key->s[0] == '"' && key->s[key->n - 1] == '"')
            *key = (struct text){key->s + 1, key->n - 2};
        *i = colon;
    }
    *i = tool_ws(p, *i);
    if (!tool_at(p, *i, ":")) return false;
    ++*i;
    return true;
}

static const struct json *gemma_value(struct toolparse *p, size_t *i, int depth);

static const struct json *gemma_object(struct toolparse *p, size_t *i, int depth) {
    size_t k = tool_ws(p, *i + 1);
    struct json *all = json_new(&p->arena, JSON_OBJ);
    while (k < p->in.len && p->in.data[k] != '}') {
        struct text key;
        if (!gemma_key(p, &k, &key)) return NULL;
        const struct json *v = gemma_value(p, &k, depth + 1);
        if (!v) return NULL;
        tool_put(p, all, key, v);
        k = tool_ws(p, k);
        if (k < p->in.len && p->in.data[k] == ',') k = tool_ws(p, k + 1);
    }
    if (k >= p->in.len) return NULL;
    *i = k + 1;
    return all;
}

static const struct json *gemma_list(struct toolparse *p, size_t *i, int depth) {
    size_t k = tool_ws(p, *i + 1);
    struct json *all = json_new(&p->arena, JSON_ARR);
    while (k < p->in.len && p->in.data[k] != ']') {
        const struct json *v = gemma_value(p, &k, depth + 1);
        if (!v) return NULL;
        json_push(&p->arena, all, v);
        k = tool_ws(p, k);
        if (k < p->in.len && p->in.data[k] == ',') k = tool_ws(p, k + 1);
    }
    if (k >= p->in.len) return NULL;
    *i = k + 1;
    return all;
}

static const struct json *gemma_value(struct toolparse *p, size_t *i, int depth) {
    struct text text;
    *i = tool_ws(p, *i);
    if (*i >= p->in.len || depth > TOOL_DEPTH) return NULL;
    if (tool_at(p, *i, quote)) return gemma_string(p, i, &text) ? tool_str(p, text) : NULL;
    if (p->in.data[*i] == '"') return py_string(p, i);
    if (p->in.data[*i] == '{') return gemma_object(p, i, depth);
    if (p->in.data[*i] == '[') return gemma_list(p, i, depth);
    const struct json *w = word(p, i);
    return w ? w : number(p, i);
}

/* Reads calls of the form <|tool_call>call:NAME{key:value,...}<tool_call|>. */
bool tool_parse_gemma(struct toolparse *p, size_t *i) {
    static const char open[] = "<|tool_call>call:", close[] = "<tool_call|>";
    static const char *const next[] = {"call:", ",call:", "\ncall:"};
    size_t from = *i + sizeof open - 1, k;
    bool again = true;
    if (!tool_at(p, *i, open)) return false;
    while (again) { /* models write several calls into one tag */
        k = tool_find(p, from, "{");
        if (k == SIZE_MAX || k == from || k - from > 500) return false;
        const struct text name = tool_text(p, from, k);
        const struct json *args = gemma_object(p, &k, 0);
        if (!args) return false;
        tool_add(p, name, args);
        again = false;
        for (size_t m = 0; m < COUNT_OF(next) && !again; m++) {
            if (!p->ended && k + tool_partial(p, k, next[m]) >= p->in.len) return false;
            again = tool_at(p, k, next[m]);
            if (again) from = k + strlen(next[m]);
        }
    }
    if (tool_at(p, k, close)) k += sizeof close - 1;
    *i = k;
    return true;
}

bool tool_cut_gemma(struct toolparse *p, size_t at, size_t *cut, struct buf *end, size_t *n_close) {
    struct text key;
    size_t k = tool_find(p, at, "{");
    if (k == SIZE_MAX) return false;
    *cut = ++k;
    *n_close = 1;
    buf_chr(end, '}');
    for (;;) {
        k = tool_ws(p, k);
        if (!gemma_key(p, &k, &key) || !gemma_value(p, &k, 1)) return true;
        const size_t value = k;
        k = tool_ws(p, k);
        if (!tool_at(p, k, ",") && !tool_at(p, k, "}")) return true;
        *cut = value;
        if (!tool_at(p, k, ",")) return true;
        k++;
    }
}
