// SPDX-License-Identifier: MIT
/* chat/tool_lit.c - parsers of calls in notations other than JSON and tags: Python calls and
 * literals, and Gemma 4's notation. */
#include "chat/tool_int.h"

#include <string.h>

#include "text/utf8.h"

/* Returns whether the byte may be part of a Python name. */
static bool in_name(char c) {
    return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Returns the end of the name at i; the bytes of `also` count as part of a name. */
static size_t identifier_end(const struct toolparse *p, size_t i, const char *also) {
    while (i < p->in.len &&
           (in_name(p->in.data[i]) || (p->in.data[i] && strchr(also, p->in.data[i]))))
        i++;
    return i;
}

/* Parses None, True, False or the JSON words at *i; NULL leaves *i unchanged. */
static const struct json *parse_word(struct toolparse *p, size_t *i) {
    static const struct {
        const char *text;
        int what; /* 0: none, 1: true, 2: false */
    } words[] = {{"None", 0}, {"null", 0}, {"True", 1}, {"true", 1}, {"False", 2}, {"false", 2}};
    for (size_t k = 0; k < COUNT_OF(words); k++) {
        if (!tool_at(p, *i, words[k].text)) continue;
        if (identifier_end(p, *i, "") > *i + strlen(words[k].text)) continue;
        *i += strlen(words[k].text);
        return words[k].what == 0 ? json_new(&p->arena, JSON_NULL)
                                  : json_new_bool(&p->arena, words[k].what == 1);
    }
    return NULL;
}

/* Converts a Python number to JSON: 1_000, +1, .5, 1., 0xff. False: not a number. */
static bool as_json_number(const char *s, size_t n, struct buf *out) {
    const bool minus = n && *s == '-';
    size_t k = minus || (n && *s == '+');
    if (minus) buf_chr(out, '-');
    const int base = n < k + 3 || s[k] != '0' ? 10
                     : (s[k + 1] | 32) == 'x' ? 16
                     : (s[k + 1] | 32) == 'o' ? 8
                     : (s[k + 1] | 32) == 'b' ? 2
                                              : 10;
    if (base != 10) {
        uint64_t v = 0;
        for (k += 2; k < n; k++) {
            const int c = s[k] | 32, d = c >= 'a' ? c - 'a' + 10 : s[k] - '0';
            if (s[k] == '_') continue;
            if (d < 0 || d >= base || v >> 59) return false;
            v = v * (uint64_t)base + (uint64_t)d;
        }
        buf_fmt(out, "%llu", (unsigned long long)v);
        return true;
    }
    if (k < n && s[k] == '.') buf_chr(out, '0');
    for (; k < n; k++) {
        if (s[k] == '_') continue;
        buf_chr(out, s[k]);
        const bool digit = k + 1 < n && s[k + 1] >= '0' && s[k + 1] <= '9';
        if (s[k] == '.' && !digit) buf_chr(out, '0');
    }
    return true;
}

/* Parses a number in Python's form at *i; NULL leaves *i unchanged. */
static const struct json *parse_number(struct toolparse *p, size_t *i) {
    size_t end = *i;
    struct buf text = {0};
    const struct json *v = NULL;
    if (end >= p->in.len || !strchr("+-.0123456789", p->in.data[end])) return NULL;
    for (end++; end < p->in.len; end++) {
        const char c = p->in.data[end];
        const bool sign = (c == '+' || c == '-') && (p->in.data[end - 1] | 32) == 'e';
        if (!in_name(c) && c != '.' && !sign) break;
    }
    if (end - *i <= 400 && as_json_number(p->in.data + *i, end - *i, &text) && text.len) {
        v = tool_whole_json(p,
                            (struct text){arena_strndup(&p->arena, text.data, text.len), text.len});
        if (json_type(v) != JSON_NUM) v = NULL;
    }
    buf_release(&text);
    if (v) *i = end;
    return v;
}

/* ---- strings ---- */

/* Parses exactly n digits in the given base at s. False: there are fewer before `end`. */
static bool digits(const char *s, const char *end, int n, int base, uint32_t *out) {
    *out = 0;
    if (end - s < n) return false;
    for (; n-- > 0; s++) {
        const int c = *s | 32, d = c >= 'a' && c <= 'f' ? c - 'a' + 10 : *s - '0';
        if (d < 0 || d >= base || (c < 'a' && (*s < '0' || *s > '9'))) return false;
        *out = *out * (uint32_t)base + (uint32_t)d;
    }
    return true;
}

/* Decodes the escape sequence at s, which is after the backslash, into out. Returns its length; 0:
 * it is not an escape, so the backslash is part of the text. */
static size_t escape(const char *s, const char *end, bool json, struct buf *out) {
    static const char map[] = "n\nt\tr\r\\\\''\"\"b\bf\fa\av\v";
    static const struct {
        char name;
        int n, base;
    } codes[] = {{'x', 2, 16}, {'U', 8, 16}, {'u', 4, 16}};
    uint32_t cp, low;
    char text[4];
    for (size_t k = 0; s < end && map[k]; k += 2)
        if (map[k] == *s) return buf_chr(out, map[k + 1]), 1;
    if (s < end && *s == '\n') return 1; /* line continuation */
    if (s < end && json && *s == '/') return buf_chr(out, '/'), 1;
    if (s < end && *s == '0' && !digits(s + 1, end, 1, 8, &cp))
        return buf_str(out, "\xef\xbf\xbd"), 1;
    for (size_t k = 0; s < end && k < COUNT_OF(codes); k++) {
        size_t n = 1 + (size_t)codes[k].n;
        if (*s != codes[k].name || !digits(s + 1, end, codes[k].n, codes[k].base, &cp)) continue;
        if (cp >= 0xd800 && cp < 0xdc00 && end - s >= 11 && s[5] == '\\' && s[6] == 'u' &&
            digits(s + 7, end, 4, 16, &low) && low >= 0xdc00 && low < 0xe000) {
            cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
            n = 11;
        }
        if (!cp || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) cp = 0xfffd;
        buf_add(out, text, utf8_encode(cp, text));
        return n;
    }
    return 0;
}

/* Parses a string in single or triple quotes at *i and moves past it. raw: backslashes are text.
 * False: not closed. */
static bool py_quoted(struct toolparse *p, size_t *i, bool raw, struct buf *out) {
    const char *s = p->in.data, q = s[*i];
    const char triple[] = {q, q, q, 0};
    const bool three = tool_at(p, *i, triple);
    size_t k = *i + (three ? 3 : 1);
    for (; k < p->in.len; k++) {
        if (three ? tool_at(p, k, triple) : s[k] == q) {
            *i = k + (three ? 3 : 1);
            return true;
        }
        size_t used = 0;
        if (s[k] == '\\' && !raw) used = escape(s + k + 1, s + p->in.len, p->json_text, out);
        if (!used) buf_chr(out, s[k]);
        if (!used && s[k] == '\\' && raw && k + 1 < p->in.len) buf_chr(out, s[++k]);
        k += used;
    }
    return false;
}

/* Returns the offset of a string's opening quote at i, which a prefix may precede, as in r"...";
 * SIZE_MAX: not a string. */
static size_t quote_at(const struct toolparse *p, size_t i, bool *raw) {
    size_t k = i;
    *raw = false;
    for (; k < p->in.len && k - i < 2 && p->in.data[k] && strchr("rRbBuUfF", p->in.data[k]); k++)
        *raw = *raw || (p->in.data[k] | 32) == 'r';
    return k < p->in.len && (p->in.data[k] == '\'' || p->in.data[k] == '"') ? k : SIZE_MAX;
}

/* Parses adjacent strings, which Python joins. */
static const struct json *py_string(struct toolparse *p, size_t *i) {
    struct buf text = {0};
    const struct json *v = NULL;
    bool raw, ok = true;
    size_t at = quote_at(p, *i, &raw);
    buf_str(&text, "");
    while (at != SIZE_MAX && (ok = py_quoted(p, &at, raw, &text))) {
        *i = at;
        at = quote_at(p, tool_ws(p, at), &raw);
    }
    if (ok) v = tool_str(p, (struct text){text.data, text.len});
    buf_release(&text);
    return v;
}

/* Converts a value to a member name, as Python's JSON writer does. False: v is a list or an
 * object. */
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

static const struct json *parse_literal(struct toolparse *p, size_t *i, int depth);

/* Returns whether byte k exists and is ch. */
static bool next_is(const struct toolparse *p, size_t k, char ch) {
    return k < p->in.len && p->in.data[k] == ch;
}

/* Parses an element of a list, tuple, set or dictionary at *k and moves past it. For a dictionary
 * entry sets *key, sets *name to the key, and returns the value. NULL: invalid or incomplete. */
static const struct json *parse_item(struct toolparse *p, size_t *k, bool braces, bool *key,
                                     struct text *name, int depth) {
    const struct json *v = parse_literal(p, k, depth + 1);
    const size_t colon = tool_ws(p, *k);
    *key = v && braces && next_is(p, colon, ':');
    if (!*key) return v;
    if (!as_name(v, name)) return NULL;
    *k = colon + 1;
    return parse_literal(p, k, depth + 1);
}

/* Parses the elements of a list, tuple or dict at *i and moves past `close`. Returns NULL if they
 * are malformed. */
static const struct json *parse_items(struct toolparse *p, size_t *i, char close, int depth) {
    const bool braces = close == '}';
    size_t k = tool_ws(p, *i + 1);
    struct json *dict = NULL, *list = NULL;
    bool comma = false;
    for (; k < p->in.len && p->in.data[k] != close; k = tool_ws(p, k)) {
        struct text name;
        bool key;
        const struct json *v = parse_item(p, &k, braces, &key, &name, depth);
        if (!v || (key ? list != NULL : dict != NULL)) return NULL;
        if (key && !dict) dict = json_new(&p->arena, JSON_OBJ);
        if (!key && !list) list = json_new(&p->arena, JSON_ARR);
        if (key)
            tool_put(p, dict, name, v);
        else
            json_push(&p->arena, list, v);
        k = tool_ws(p, k);
        comma = next_is(p, k, ',');
        if (comma)
            k++;
        else if (!next_is(p, k, close))
            return NULL;
    }
    if (k >= p->in.len) return NULL;
    *i = k + 1;
    if (close == ')' && !comma && json_len(list) == 1)
        return json_first(list); /* just parentheses, not a tuple */
    if (dict || list) return dict ? dict : list;
    return json_new(&p->arena, braces ? JSON_OBJ : JSON_ARR);
}

/* Parses a Python or JSON literal at *i and moves past it. Returns NULL unless it is complete. */
static const struct json *parse_literal(struct toolparse *p, size_t *i, int depth) {
    bool raw;
    *i = tool_ws(p, *i);
    if (*i >= p->in.len || depth > TOOL_DEPTH) return NULL;
    const char ch = p->in.data[*i];
    if (quote_at(p, *i, &raw) != SIZE_MAX) return py_string(p, i);
    if (ch == '[') return parse_items(p, i, ']', depth);
    if (ch == '(') return parse_items(p, i, ')', depth);
    if (ch == '{') return parse_items(p, i, '}', depth);
    const struct json *w = parse_word(p, i);
    return w ? w : parse_number(p, i);
}

const struct json *tool_literal(struct toolparse *p, size_t *i) {
    return parse_literal(p, i, 0);
}

/* Sets *name to the name of the tool's parameter number `at`. False: no such parameter. */
static bool parameter_at(const struct toolparse *p, struct text fn, int64_t at, struct text *name) {
    const struct json *m = json_first(tool_properties(p, tool_declared(p, fn)));
    while (m && at-- > 0) m = json_next(m);
    name->s = m ? json_namen(m, &name->n) : NULL;
    return m != NULL;
}

/* Returns whether v, the only argument of fn, is an object whose members are all named like
 * parameters of fn. */
static bool is_all(struct toolparse *p, struct text fn, const struct json *v) {
    bool all = json_len(v) > 0 && json_type(v) == JSON_OBJ;
    for (const struct json *m = all ? json_first(v) : NULL; m && all; m = json_next(m)) {
        struct text name;
        name.s = json_namen(m, &name.n);
        all = tool_schema(p, fn, name) != NULL;
    }
    return all;
}

/* Adds a positional argument, named after the parameter at its position. False: the function has no
 * such parameter. */
static bool put_unnamed(struct toolparse *p, struct text fn, struct json **args,
                        const struct json *v) {
    struct text name;
    const int64_t at = json_len(*args);
    if (!at && is_all(p, fn, v)) {
        *args = json_new(&p->arena, JSON_OBJ);
        for (const struct json *m = json_first(v); m; m = json_next(m)) {
            name.s = json_namen(m, &name.n);
            tool_put(p, *args, name, m);
        }
        return true;
    }
    if (!parameter_at(p, fn, at, &name)) return false;
    tool_problem(p, "an argument of '%.*s' has no name; it was assigned to '%.*s'", tool_len(fn),
                 fn.s, tool_len(name), name.s);
    tool_put(p, *args, name, v);
    return true;
}

/* Parses one call in Python's syntax at *i, adds it and moves past it. False: no complete call. */
static bool py_call(struct toolparse *p, size_t *i) {
    size_t from = tool_ws(p, *i), k = identifier_end(p, from, ".-"), to = k;
    struct json *args = json_new(&p->arena, JSON_OBJ);
    const struct json *v;
    if (k == from || !next_is(p, k, '(')) return false;
    if (to - from > 5 && memcmp(p->in.data + to - 5, ".call", 5) == 0) to -= 5;
    const struct text name = tool_text(p, from, to);
    for (k = tool_ws(p, k + 1); k < p->in.len && p->in.data[k] != ')'; k = tool_ws(p, k)) {
        const size_t key = k, key_end = identifier_end(p, k, ""), eq = tool_ws(p, key_end);
        const bool named = key_end > key && next_is(p, eq, '=');
        if (named) k = eq + 1;
        if (!(v = parse_literal(p, &k, 0))) return false;
        if (named)
            tool_put(p, args, tool_text(p, key, key_end), v);
        else if (!put_unnamed(p, name, &args, v))
            return false;
        k = tool_ws(p, k);
        if (next_is(p, k, ','))
            k++;
        else if (!next_is(p, k, ')'))
            return false;
    }
    if (k >= p->in.len) return false;
    *i = k + 1;
    tool_add(p, name, args);
    return true;
}

/* Parses one call at *i, in Python's syntax or as JSON. */
bool tool_one_python(struct toolparse *p, size_t *i) {
    return tool_at(p, tool_ws(p, *i), "{") ? tool_one_object(p, i) : py_call(p, i);
}

bool tool_cut_python(struct toolparse *p, size_t at, size_t *cut, struct buf *end,
                     size_t *n_close) {
    const char *const opens[] = {p->f->named.open, "<|python_tag|>"};
    size_t k = at;
    for (size_t m = 0; m < COUNT_OF(opens); m++)
        if (opens[m] && tool_at(p, at, opens[m])) k += strlen(opens[m]);
    k = identifier_end(p, tool_ws(p, k), ".-");
    if (!tool_at(p, k, "(")) return false;
    *cut = k = tool_ws(p, k + 1);
    *n_close = 1;
    buf_chr(end, ')');
    for (;;) {
        k = tool_ws(p, identifier_end(p, k, ""));
        if (!tool_at(p, k, "=")) return true;
        k++;
        if (!parse_literal(p, &k, 0)) return true;
        const size_t after = tool_ws(p, k); /* an adjacent string may follow */
        if (!next_is(p, after, ',') && !next_is(p, after, ')')) return true;
        *cut = k;
        if (!next_is(p, after, ',')) return true;
        k = tool_ws(p, after + 1);
    }
}

bool tool_python_calls(struct toolparse *p, size_t *i) {
    size_t k = tool_ws(p, *i);
    const bool list = next_is(p, k, '[');
    const int before = p->n_calls;
    k += list;
    if (list ? !tool_list_elements(p, &k, tool_one_python) : !tool_one_python(p, &k)) {
        p->n_calls = before;
        return false;
    }
    *i = k;
    return true;
}

bool tool_has_lines(const struct toolfmt *f) {
    return f->parse == tool_parse_python && strcmp(f->written.sep, "\n") == 0;
}

/* Returns the position after white space, commas and comments at i, or that of `close`. */
static size_t py_gap(const struct toolparse *p, size_t i, const char *close) {
    for (;; i++) {
        i = tool_ws(p, i);
        if (next_is(p, i, '#'))
            while (i < p->in.len && p->in.data[i] != '\n' && !tool_at(p, i, close)) i++;
        else if (!next_is(p, i, ','))
            return i;
        if (i >= p->in.len || tool_at(p, i, close)) return i;
    }
}

/* Parses further calls on lines of their own at *i and moves past them. before: number of calls
 * before the first line. False: more text is needed to know whether another call follows. */
static bool py_lines(struct toolparse *p, size_t *i, const char *close, int before) {
    for (size_t k = *i;; *i = k) {
        k = py_gap(p, k, close);
        const size_t name = identifier_end(p, k, ".-");
        if (!p->ended && (name >= p->in.len || k + tool_partial(p, k, close) >= p->in.len))
            return false;
        if (!next_is(p, name, '(') || name == k) {
            if (tool_at(p, k, close))
                *i = k;
            else if (k < p->in.len)
                tool_problem(p, "the list of calls breaks off after %d", p->n_calls - before);
            return true;
        }
        if (tool_one_python(p, &k)) continue;
        if (!p->ended) return false;
        tool_problem(p, "the list of calls breaks off after %d", p->n_calls - before);
        return p->broken = true;
    }
}

/* Parses calls of the form <|tool_call_start|>[f(k='v'), g()]<|tool_call_end|>. Between the
 * markers, a single call without brackets or JSON is also accepted, and in syntaxes with a line for
 * each call, several. False: incomplete. */
bool tool_parse_python(struct toolparse *p, size_t *i) {
    const char *const open = p->f->named.open ? p->f->named.open : PY_CALLS,
                      *const close = p->f->named.close ? p->f->named.close : "<|tool_call_end|>";
    struct tool_fence fence;
    size_t k = tool_ws(p, tool_at(p, *i, open) ? *i + strlen(open) : *i);
    k = tool_fence_open(p, k, &fence);
    if (k == SIZE_MAX) return false;
    k = tool_ws(p, k);
    if (next_is(p, k, '[')) {
        *i = k;
        return tool_list(p, i, tool_one_python, &fence, close);
    }
    const int before = p->n_calls;
    if (!tool_one_python(p, &k)) return false;
    if (tool_has_lines(p->f) && !py_lines(p, &k, close, before)) return false;
    k = tool_fence_close(p, k, &fence);
    if (k == SIZE_MAX) return false;
    if (tool_at(p, tool_ws(p, k), close)) k = tool_ws(p, k) + strlen(close);
    *i = k;
    return true;
}

/* ---- Gemma 4, FunctionGemma ---- */

/* Parses a string. It ends at the first quote token that is followed by a separator, since a string
 * may itself contain quote tokens. False: incomplete. */
static bool gemma_string(struct toolparse *p, size_t *i, struct text *out) {
    const char *const quote = p->f->quote;
    const size_t from = *i + strlen(quote);
    for (size_t at = tool_find(p, from, quote); at != SIZE_MAX; at = tool_find(p, at + 1, quote)) {
        const size_t next = at + strlen(quote);
        const size_t sep = tool_ws(p, next);
        if (sep >= p->in.len || !strchr(",}]:", p->in.data[sep])) continue;
        if (tool_find(p, from, quote) != at) tool_problem(p, "a text holds its own quote token");
        *out = tool_text(p, from, at);
        *i = next;
        return true;
    }
    return false;
}

/* Parses a member's name and colon. Some models quote the name, as in JSON. False: incomplete. */
static bool gemma_key(struct toolparse *p, size_t *i, struct text *key) {
    if (tool_at(p, *i, p->f->quote)) {
        if (!gemma_string(p, i, key)) return false;
    } else {
        const size_t colon = tool_find(p, *i, ":");
        if (colon == SIZE_MAX) return false;
        *key = tool_strip(tool_text(p, *i, colon));
        if (key->n > 1 && strchr("\"'", key->s[0]) && key->s[key->n - 1] == key->s[0])
            *key = (struct text){key->s + 1, key->n - 2};
        *i = colon;
    }
    *i = tool_ws(p, *i);
    if (!tool_at(p, *i, ":")) return false;
    ++*i;
    return true;
}

static const struct json *gemma_value(struct toolparse *p, size_t *i, int depth);

/* Parses an object at *i and moves *i past its closing brace; NULL if incomplete. */
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

/* Parses a list at *i and moves *i past its closing bracket; NULL if incomplete. */
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

/* Parses a value in Gemma's syntax at *i and moves past it. Returns NULL unless it is complete. */
static const struct json *gemma_value(struct toolparse *p, size_t *i, int depth) {
    struct text text;
    *i = tool_ws(p, *i);
    if (*i >= p->in.len || depth > TOOL_DEPTH) return NULL;
    if (tool_at(p, *i, p->f->quote)) return gemma_string(p, i, &text) ? tool_str(p, text) : NULL;
    if (strchr("\"'", p->in.data[*i])) return py_string(p, i);
    if (p->in.data[*i] == '{') return gemma_object(p, i, depth);
    if (p->in.data[*i] == '[') return gemma_list(p, i, depth);
    const struct json *w = parse_word(p, i);
    return w ? w : parse_number(p, i);
}

/* Parses calls of the form <|tool_call>call:NAME{key:value,...}<tool_call|>. False: no complete
 * call. */
bool tool_parse_gemma(struct toolparse *p, size_t *i) {
    static const char name_mark[] = "call:";
    static const char *const next[] = {"call:", ",call:", "\ncall:"};
    const char *const close = p->f->named.close;
    size_t from = tool_ws(p, *i + strlen(p->f->named.open)), k;
    bool again = true;
    if (tool_at(p, from, name_mark)) from += sizeof name_mark - 1;
    while (again) { /* one tag may contain several calls */
        k = tool_find(p, from, "{");
        if (k == SIZE_MAX || k == from || k - from > 500) return false;
        const struct text name = tool_strip(tool_text(p, from, k));
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
    if (tool_at(p, k, close)) k += strlen(close);
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
