// SPDX-License-Identifier: MIT
/* chat/tool_lit.c - calls in other notations: Python calls and literals, and Gemma 4's own. */
#include "chat/tool_int.h"

#include <string.h>

enum { MAX_LITERAL_DEPTH = 100 };

static bool word(const struct toolparse *p, size_t *i, struct jval *out) {
    static const struct {
        const char *text;
        int what; /* 0 none, 1 true, 2 false */
    } words[] = {{"None", 0}, {"null", 0}, {"True", 1}, {"true", 1}, {"False", 2}, {"false", 2}};
    for (size_t k = 0; k < COUNT_OF(words); k++) {
        if (!tool_at(p, *i, words[k].text)) continue;
        *i += strlen(words[k].text);
        *out = words[k].what == 0 ? jv_none() : jv_bool(words[k].what == 1);
        return true;
    }
    return false;
}

static bool number(struct toolparse *p, size_t *i, struct jval *out) {
    size_t used;
    if (*i >= p->in.len || !strchr("-0123456789", p->in.data[*i]) || !p->in.data[*i]) return false;
    if (!jjson_prefix(&p->c, p->in.data + *i, p->in.len - *i, &used, out)) return false;
    *i += used;
    return true;
}

static bool py_string(struct toolparse *p, size_t *i, struct jval *out) {
    char q = p->in.data[*i];
    size_t k = *i + 1, m = jx_mark(&p->c);
    for (; k < p->in.len && p->in.data[k] != q; k++) {
        char ch = p->in.data[k];
        if (ch == '\\' && k + 1 < p->in.len) {
            static const char map[] = "n\nt\tr\r\\\\''\"\"";
            const char *hit = NULL;
            for (size_t n = 0; map[n]; n += 2)
                if (map[n] == p->in.data[k + 1]) hit = &map[n + 1];
            if (hit) {
                ch = *hit;
                k++;
            }
        }
        jx_add(&p->c, &ch, 1);
    }
    *out = jx_take(&p->c, m);
    if (k >= p->in.len) return false;
    *i = k + 1;
    return true;
}

static bool literal(struct toolparse *p, size_t *i, struct jval *out, int depth);

static bool items(struct toolparse *p, size_t *i, struct jval *out, char close, int depth) {
    bool dict = close == '}';
    size_t k = tool_ws(p, *i + 1);
    *out = dict ? jv_dict(&p->c, 0) : jv_list(&p->c, 0);
    while (k < p->in.len && p->in.data[k] != close) {
        struct jval key, v;
        if (dict) {
            if (!literal(p, &k, &key, depth + 1)) return false;
            k = tool_ws(p, k);
            if (k >= p->in.len || p->in.data[k] != ':' || key.tag == JT_LIST || key.tag == JT_DICT)
                return false;
            k = tool_ws(p, k + 1);
        }
        if (!literal(p, &k, &v, depth + 1)) return false;
        if (dict) {
            jdict_set(&p->c, out->u.dict, key, v);
        } else {
            jlist_add(&p->c, out->u.list, v);
        }
        k = tool_ws(p, k);
        if (k < p->in.len && p->in.data[k] == ',') {
            k = tool_ws(p, k + 1);
        } else if (k >= p->in.len || p->in.data[k] != close) {
            return false;
        }
    }
    if (k >= p->in.len) return false;
    *i = k + 1;
    return true;
}

static bool literal(struct toolparse *p, size_t *i, struct jval *out, int depth) {
    *i = tool_ws(p, *i);
    if (*i >= p->in.len || depth > MAX_LITERAL_DEPTH) return false;
    char ch = p->in.data[*i];
    if (ch == '\'' || ch == '"') return py_string(p, i, out);
    if (ch == '[') return items(p, i, out, ']', depth);
    if (ch == '(') return items(p, i, out, ')', depth);
    if (ch == '{') return items(p, i, out, '}', depth);
    return word(p, i, out) || number(p, i, out);
}

bool tool_literal(struct toolparse *p, size_t *i, struct jval *out) {
    return literal(p, i, out, 0);
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
    struct jval args = jv_dict(&p->c, 0), v;
    if (k == from || k >= p->in.len || p->in.data[k] != '(') return false;
    if (to - from > 5 && memcmp(p->in.data + to - 5, ".call", 5) == 0) to -= 5;
    struct jval name = jv_copy(&p->c, p->in.data + from, to - from);
    k = tool_ws(p, k + 1);
    while (k < p->in.len && p->in.data[k] != ')') {
        size_t key = k, key_end = identifier(p, k, "");
        k = tool_ws(p, key_end);
        if (key_end == key || k >= p->in.len || p->in.data[k] != '=') return false;
        k++;
        if (!literal(p, &k, &v, 0)) return false;
        jdict_set(&p->c, args.u.dict, jv_copy(&p->c, p->in.data + key, key_end - key), v);
        k = tool_ws(p, k);
        if (k < p->in.len && p->in.data[k] == ',') k = tool_ws(p, k + 1);
    }
    if (k >= p->in.len) return false;
    *i = k + 1;
    tool_add(p, name, args);
    return true;
}

/* <|tool_call_start|>[f(k='v'), g()]<|tool_call_end|>, or one bare call. */
bool tool_parse_python(struct toolparse *p, size_t *i) {
    static const char open[] = "<|tool_call_start|>", close[] = "<|tool_call_end|>";
    size_t k = tool_at(p, *i, open) ? *i + sizeof open - 1 : *i;
    k = tool_ws(p, k);
    bool list = k < p->in.len && p->in.data[k] == '[';
    uint32_t before = p->calls.u.list->n;
    if (list) k++;
    do {
        if (list && tool_ws(p, k) < p->in.len && p->in.data[tool_ws(p, k)] == ']') break;
        if (!py_call(p, &k)) {
            p->calls.u.list->n = before;
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

/* A text ends at the quote token that a separator follows: the text may hold the token itself. */
static bool gemma_string(struct toolparse *p, size_t *i, struct jval *out) {
    size_t from = *i + QUOTE;
    for (size_t at = tool_find(p, from, quote); at != SIZE_MAX; at = tool_find(p, at + 1, quote)) {
        size_t next = at + QUOTE;
        if (next >= p->in.len || !strchr(",}]:", p->in.data[next])) continue;
        if (tool_find(p, from, quote) != at) tool_problem(p, "a text holds its own quote token");
        *out = jv_copy(&p->c, p->in.data + from, at - from);
        *i = next;
        return true;
    }
    return false;
}

static bool gemma_value(struct toolparse *p, size_t *i, struct jval *out, int depth);

static bool gemma_object(struct toolparse *p, size_t *i, struct jval *out, int depth) {
    size_t k = *i + 1;
    *out = jv_dict(&p->c, 0);
    while (k < p->in.len && p->in.data[k] != '}') {
        struct jval key, v;
        if (tool_at(p, k, quote)) {
            if (!gemma_string(p, &k, &key)) return false;
        } else {
            size_t colon = tool_find(p, k, ":");
            if (colon == SIZE_MAX) return false;
            key = jv_copy(&p->c, p->in.data + k, colon - k);
            k = colon;
        }
        if (k >= p->in.len || p->in.data[k] != ':') return false;
        k++;
        if (!gemma_value(p, &k, &v, depth + 1)) return false;
        jdict_set(&p->c, out->u.dict, key, v);
        if (k < p->in.len && p->in.data[k] == ',') k++;
    }
    if (k >= p->in.len) return false;
    *i = k + 1;
    return true;
}

static bool gemma_value(struct toolparse *p, size_t *i, struct jval *out, int depth) {
    *i = tool_ws(p, *i);
    if (*i >= p->in.len || depth > MAX_LITERAL_DEPTH) return false;
    if (tool_at(p, *i, quote)) return gemma_string(p, i, out);
    if (p->in.data[*i] == '{') return gemma_object(p, i, out, depth);
    if (p->in.data[*i] != '[') return word(p, i, out) || number(p, i, out);
    size_t k = *i + 1;
    *out = jv_list(&p->c, 0);
    while (k < p->in.len && p->in.data[k] != ']') {
        struct jval v;
        if (!gemma_value(p, &k, &v, depth + 1)) return false;
        jlist_add(&p->c, out->u.list, v);
        if (k < p->in.len && p->in.data[k] == ',') k++;
    }
    if (k >= p->in.len) return false;
    *i = k + 1;
    return true;
}

/* <|tool_call>call:NAME{key:value,...}<tool_call|> */
bool tool_parse_gemma(struct toolparse *p, size_t *i) {
    static const char open[] = "<|tool_call>call:", close[] = "<tool_call|>";
    size_t from = *i + sizeof open - 1, k;
    struct jval args;
    if (!tool_at(p, *i, open)) return false;
    k = tool_find(p, from, "{");
    if (k == SIZE_MAX || k == from || k - from > 500) return false;
    struct jval name = jv_copy(&p->c, p->in.data + from, k - from);
    if (!gemma_object(p, &k, &args, 0)) return false;
    if (tool_at(p, k, close)) k += sizeof close - 1;
    tool_add(p, name, args);
    *i = k;
    return true;
}
