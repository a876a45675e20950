// SPDX-License-Identifier: MIT
/* chat/tool_tags.c - parser of calls whose parameters are raw text between tags (Qwen, Seed,
 * MiniMax, DeepSeek's DSML, MiniCPM, GLM, Muse Glimmer). Values are not escaped, and a closing tag
 * may be part of a value, so a value ends at the first closing tag that is followed by another
 * parameter or the end of the call. */
#include "chat/tool_int.h"

#include <string.h>

enum { NAME_MAX_LEN = 500, CLOSING = 48 /* text needed to decide whether a call ends */ };
enum is_end { NO_END, UNKNOWN_END, IS_END };

/* Closing tags of the wrappers that all families put around calls. */
static const char *const closes[] = {
    "</tool_call>",           "</seed:tool_call>",         "</minimax:tool_call>",
    "</atem:function_calls>", "</" DSML "function_calls>", "</" DSML "tool_calls>",
    "</tool_calls>",          "</tool_calls:opensource>",  M3_GUARD "</tool_call>",
    "</" DSML " calls>",      "</" GCML "tool_calls>",     "</dots_function_call>",
    K3_CLOSE("tools")};

const char *tool_wrapper_close(const struct toolfmt *f) {
    static const char *const pairs[][2] = {{"<|open|>", "<|close|>"}, {"<", "</"}};
    for (size_t i = 0; i < COUNT_OF(pairs) && f->marker[0]; i++) {
        const size_t n = strlen(pairs[i][0]), m = strlen(pairs[i][1]);
        if (strncmp(f->marker[0], pairs[i][0], n) != 0) continue;
        for (size_t k = 0; k < COUNT_OF(closes); k++)
            if (strncmp(closes[k], pairs[i][1], m) == 0 &&
                strcmp(closes[k] + m, f->marker[0] + n) == 0)
                return closes[k];
    }
    return NULL;
}

/* Returns whether key is a parameter of fn, or fn is not declared. */
static bool is_parameter(struct toolparse *p, struct text fn, struct text key) {
    return !tool_declared(p, fn) || tool_schema(p, fn, key) || tool_takes_other(p, fn, key);
}

/* Returns whether a call begins at i. If tools were declared, it must be a call of one of them. */
static enum is_end begins_call(const struct toolparse *p, size_t i) {
    const struct tool_tags *t = &p->f->tags;
    if (!tool_at(p, i, t->fn_open)) {
        i = tool_wrapper(p, i);
        if (!p->ended && i + tool_partial(p, i, t->fn_open) >= p->in.len) return UNKNOWN_END;
        if (!tool_at(p, i, t->fn_open)) return NO_END;
    }
    size_t from = i + strlen(t->fn_open), to = from;
    while (to < p->in.len && to - from < NAME_MAX_LEN && !strchr("<>\n", p->in.data[to])) to++;
    if (to == p->in.len && !p->ended) return UNKNOWN_END;
    const struct text name = tool_attr_name(p, tool_text(p, from, to));
    return name.n && (!p->tools || tool_declared(p, name)) ? IS_END : NO_END;
}

/* Returns whether another call, the end of the turn or the end of the text follows i. */
static enum is_end call_ends(const struct toolparse *p, size_t i) {
    const size_t k = tool_ws(p, i);
    if (tool_wrapper(p, k) > k) return begins_call(p, k);
    if (tool_skip_frames(p, k) > k) return IS_END;
    if (p->in.len < k + CLOSING && !p->ended) return UNKNOWN_END;
    return k >= p->in.len ? IS_END : NO_END;
}

/* Returns whether the closing tag before i ends the value of a parameter of fn: it does if another
 * parameter of fn or the end of the call follows; otherwise it may be part of the value. sure: the
 * tag is where templates write it, so it ends the value if any tag of the syntax follows. */
static enum is_end closes_value(struct toolparse *p, struct text fn, size_t i, bool sure) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = tool_ws(p, i), end;
    if (tool_at(p, k, t->par_open)) {
        k += strlen(t->par_open);
        if (sure) return IS_END;
        end = tool_find(p, k, t->par_name_end);
        if (end == SIZE_MAX) return p->in.len - k > NAME_MAX_LEN || p->ended ? NO_END : UNKNOWN_END;
        return is_parameter(p, fn, tool_text(p, k, end)) ? IS_END : NO_END;
    }
    if (tool_at(p, k, t->fn_close)) {
        k = tool_ws(p, k + strlen(t->fn_close));
        return sure || tool_wrapper_end(p, k) > k ? IS_END : call_ends(p, k);
    }
    end = tool_wrapper_end(p, k); /* in case the function's closing tag is missing */
    return end > k ? call_ends(p, end) : NO_END;
}

/* Returns the offset of lit at or after i and before `to`; SIZE_MAX: not found. Reads no further.
 */
static size_t find_before(const struct toolparse *p, size_t i, size_t to, const char *lit) {
    const size_t n = strlen(lit), end = to < p->in.len && p->in.len - to > n ? to + n : p->in.len;
    const char *hit = i < to && i < end ? memmem(p->in.data + i, end - i, lit, n) : NULL;
    const size_t at = hit ? (size_t)(hit - p->in.data) : SIZE_MAX;
    return at < to ? at : SIZE_MAX;
}

/* Counts the occurrences of lit in [i, to). */
static int64_t count_of(const struct toolparse *p, size_t i, size_t to, const char *lit) {
    const char *s = p->in.data + i, *const end = p->in.data + to;
    int64_t n = 0;
    for (; s < end && (s = memmem(s, (size_t)(end - s), lit, strlen(lit))); s++) n++;
    return n;
}

/* Returns the closing tag that ends the value at i or, if none certainly does, the first that may;
 * SIZE_MAX: none. Tags of a call that the value quotes do not end it. *is: how certain the result
 * is. */
static size_t closing_tag(struct toolparse *p, size_t i, struct text fn, enum is_end *is) {
    const struct tool_tags *t = &p->f->tags;
    const size_t n = strlen(t->par_close);
    const bool lines = t->newline && i > 0 && p->in.data[i - 1] == '\n';
    size_t first = SIZE_MAX, at = i, counted = i;
    int64_t depth = 0; /* calls that the value has opened and not closed */
    *is = NO_END;
    for (; (at = tool_find(p, at, t->par_close)) != SIZE_MAX; at++) {
        const bool line = at == i || p->in.data[at - 1] == '\n', sure = !lines || line;
        depth += count_of(p, counted, at, t->fn_open) - count_of(p, counted, at, t->fn_close);
        counted = at;
        if (depth < 0) depth = 0;
        *is = depth ? NO_END : closes_value(p, fn, at + n, sure);
        if (*is != NO_END) return at;
        const size_t k = tool_ws(p, at + n);
        const bool may = tool_at(p, k, t->par_open) || tool_at(p, k, t->fn_close);
        if (may && first == SIZE_MAX) first = at;
    }
    return first;
}

/* Finds the end of the call in [i, to), which ends a value at i without a closing tag. Ends of
 * calls quoted in the value do not count. SIZE_MAX: none. */
static size_t call_closed(const struct toolparse *p, size_t i, size_t to, enum is_end *is) {
    const struct tool_tags *t = &p->f->tags;
    const char *wrap = tool_wrapper_close(p->f);
    size_t whole = SIZE_MAX, from = i;
    int64_t depth = 0;
    for (;;) {
        size_t at = find_before(p, i, to, t->fn_close),
               w = wrap ? find_before(p, i, to, wrap) : SIZE_MAX;
        const bool fn = at <= w;
        if (w < at) at = w;
        *is = NO_END;
        if (at == SIZE_MAX || at >= to) return whole;
        depth += count_of(p, from, at, t->fn_open);
        from = at;
        i = fn ? at + strlen(t->fn_close) : at;
        const size_t end = tool_wrapper_end(p, i);
        const bool last = p->limited && tool_ws(p, end) >= p->in.len; /* more was to come */
        if (depth <= 0 && !last) *is = call_ends(p, end);
        if (*is != NO_END) return at;
        if (depth <= 0 && p->ended && !p->limited && whole == SIZE_MAX && fn && end > i) whole = at;
        depth -= fn && depth > 0;
        if (!fn) i += strlen(wrap);
    }
}

/* Finds, in the value [i, to), the opening tag of another parameter of fn that is not closed there.
 * If there is one, the closing tag at `to` belongs to that parameter and the value lacks its own.
 * SIZE_MAX: none. */
static size_t next_parameter(struct toolparse *p, size_t i, size_t to, struct text fn) {
    const struct tool_tags *t = &p->f->tags;
    if (!tool_declared(p, fn)) return SIZE_MAX;
    for (size_t at = i; (at = find_before(p, at, to, t->par_open)) < to; at++) {
        const size_t from = at + strlen(t->par_open),
                     end = find_before(p, from, to, t->par_name_end);
        if (end >= to || end - from > NAME_MAX_LEN) continue;
        const size_t k = tool_ws(p, end + strlen(t->par_name_end));
        if (t->val_open ? !tool_at(p, k, t->val_open) : at > i && p->in.data[at - 1] != '\n')
            continue;
        if (!tool_schema(p, fn, tool_attr_name(p, tool_text(p, from, end)))) continue;
        const bool open = count_of(p, at, to, t->par_open) > count_of(p, at, to, t->par_close);
        return open ? at : SIZE_MAX;
    }
    return SIZE_MAX;
}

size_t tool_value_end(struct toolparse *p, size_t i, struct text fn, size_t *next) {
    const struct tool_tags *t = &p->f->tags;
    enum is_end is, closed;
    size_t at = closing_tag(p, i, fn, &is);
    /* A tag that may be the end counts only if no later tag certainly is. */
    if (is == NO_END && (!p->ended || p->limited)) at = SIZE_MAX;
    const size_t early = call_closed(p, i, at, &closed);
    if (early < at && closed == UNKNOWN_END) return SIZE_MAX;
    if (early >= at && (is == UNKNOWN_END || at == SIZE_MAX)) return SIZE_MAX;
    *next = at == SIZE_MAX ? at : at + strlen(t->par_close);
    if (early < at) *next = at = early;
    const size_t other = next_parameter(p, i, at, fn);
    if (other != SIZE_MAX) *next = at = other;
    const bool line = t->newline || *next == at;
    return line && at > i && p->in.data[at - 1] == '\n' ? at - 1 : at;
}

/* Returns the text without white space around it and one pair of equal quotes. */
static struct text strip_quotes(struct text t) {
    t = tool_strip(t);
    if (t.n >= 2 && (t.s[0] == '"' || t.s[0] == '\'') && t.s[t.n - 1] == t.s[0]) {
        t.s++;
        t.n -= 2;
    }
    return t;
}

int tool_flag(const struct toolparse *p, struct text *t) {
    /* models also write DSML's flag in syntaxes without one */
    const bool own = p->f->tags.flag != NULL;
    const char *flag = own ? p->f->tags.flag : TEXT_FLAG,
               *is_text = own ? p->f->tags.is_text : "true";
    const char *at = memmem(t->s, t->n, flag, strlen(flag));
    if (!at) return -1;
    const char *word = at + strlen(flag);
    const size_t rest = t->n - (size_t)(word - t->s);
    t->n = (size_t)(at - t->s) + 1;
    return memmem(word, rest, is_text, strlen(is_text)) != NULL;
}

/* Returns the text inside <![CDATA[ ]]>, or t unchanged. */
static struct text without_cdata(struct text t) {
    static const char open[] = "<![CDATA[", close[] = "]]>";
    const struct text s = tool_strip(t);
    const size_t a = sizeof open - 1, b = sizeof close - 1;
    if (s.n < a + b || memcmp(s.s, open, a) != 0 || memcmp(s.s + s.n - b, close, b) != 0) return t;
    return (struct text){s.s + a, s.n - a - b};
}

struct text tool_attr_name(const struct toolparse *p, struct text t) {
    const char *more = p->f->tags.counter;
    const char *at = more ? memmem(t.s, t.n, more, strlen(more)) : NULL;
    if (at) t.n = (size_t)(at - t.s) + 1;
    tool_flag(p, &t);
    return strip_quotes(t);
}

/* Returns whether a parameter's closing tag ends at i. */
static bool is_closed(const struct toolparse *p, size_t i) {
    const size_t n = strlen(p->f->tags.par_close);
    return i >= n && tool_at(p, i - n, p->f->tags.par_close);
}

/* Reports a value whose closing tag is missing before `next`, or that contains another parameter's
 * opening tag, which suggests that its closing tag is missing. */
static void check_value(struct toolparse *p, struct text fn, struct text key, struct text value,
                        size_t next, const struct json *args) {
    const struct tool_tags *t = &p->f->tags;
    if (!is_closed(p, next))
        tool_problem(p, "parameter '%.*s' was not closed", tool_len(key), key.s);
    const char *at = memmem(value.s, value.n, t->par_open, strlen(t->par_open));
    if (!at || !tool_declared(p, fn)) return;
    const size_t from = (size_t)(at - p->in.data) + strlen(t->par_open);
    const size_t end = tool_find(p, from, t->par_name_end);
    if (end == SIZE_MAX || end - from > NAME_MAX_LEN) return;
    const struct text name = tool_attr_name(p, tool_text(p, from, end));
    if (tool_schema(p, fn, name) && !json_getn(args, name.s, name.n))
        tool_problem(p, "the value of '%.*s' holds the tag of '%.*s': it may not be closed",
                     tool_len(key), key.s, tool_len(name), name.s);
}

/* Parses one parameter at *i, converts it according to the schema of fn, adds it to args and moves
 * *i past it. False: incomplete. */
static bool parse_parameter(struct toolparse *p, size_t *i, struct text fn, struct json *args) {
    const struct tool_tags *t = &p->f->tags;
    size_t from = *i + strlen(t->par_open), name_end = tool_find(p, from, t->par_name_end), next,
           used;
    if (name_end == SIZE_MAX) return false;
    struct text tag = tool_text(p, from, name_end);
    const struct text key = tool_attr_name(p, tag);
    const int raw = tool_flag(p, &tag);
    size_t start = name_end + strlen(t->par_name_end);
    if (t->newline && start < p->in.len && p->in.data[start] == '\n') start++;
    size_t end = tool_value_end(p, start, fn, &next);
    if (end == SIZE_MAX) return false;
    const struct text text = tool_text(p, start, end > start ? end : start);
    const struct json *v = NULL;
    if (raw == 1) v = tool_str(p, text);
    if (raw == 0) v = tool_json(p, text, &used);
    if (!v) v = tool_typed(p, tool_any_schema(p, fn, key), key, without_cdata(text));
    tool_put(p, args, key, v);
    check_value(p, fn, key, text, next, args);
    *i = next;
    return true;
}

size_t tool_wrapper(const struct toolparse *p, size_t i) {
    for (int m = 0; m < TOOL_MARKERS && p->f->marker[m]; m++)
        if (tool_at(p, i, p->f->marker[m])) return tool_ws(p, i + strlen(p->f->marker[m]));
    return i;
}

size_t tool_wrapper_end(const struct toolparse *p, size_t i) {
    size_t after = tool_ws(p, i);
    for (size_t m = 0; m < COUNT_OF(closes); m++)
        if (tool_at(p, after, closes[m])) return after + strlen(closes[m]);
    return i;
}

/* Moves *i from the end of the last parameter to the end of the call. False: the call does not end
 * there. */
static bool end_call(struct toolparse *p, size_t *i, struct text name) {
    const struct tool_tags *t = &p->f->tags;
    const bool closed = tool_at(p, *i, t->fn_close);
    const size_t k = *i + (closed ? strlen(t->fn_close) : 0), end = tool_wrapper_end(p, k);
    if (!closed && end == k) return false;
    if (!closed) tool_problem(p, "the call of '%.*s' was not closed", tool_len(name), name.s);
    *i = end;
    return true;
}

/* Parses JSON calls at k inside this syntax's wrapper at *i, and moves *i past them. False: no such
 * calls; *i is unchanged. */
static bool json_in_wrapper(struct toolparse *p, size_t *i, size_t k) {
    const char *close = tool_wrapper_close(p->f);
    const size_t at = tool_ws(p, k);
    if (p->own_form || !close || k == *i || at >= p->in.len || !strchr("{[`~", p->in.data[at]))
        return false;
    if (!tool_json_calls(p, &k, close)) return false;
    *i = k;
    return true;
}

bool tool_parse_tags(struct toolparse *p, size_t *i) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = *i;
    if (!tool_at(p, k, t->fn_open)) k = tool_wrapper(p, k);
    if (!tool_at(p, k, t->fn_open)) return json_in_wrapper(p, i, k);
    size_t from = k + strlen(t->fn_open), end = tool_find(p, from, t->fn_name_end);
    if (end == SIZE_MAX || end == from || end - from > 500) return false;
    const struct text name = tool_attr_name(p, tool_text(p, from, end));
    struct json *args = json_new(&p->arena, JSON_OBJ);
    k = tool_ws(p, end + strlen(t->fn_name_end));
    while (tool_at(p, k, t->par_open)) {
        if (!parse_parameter(p, &k, name, args)) return false;
        k = tool_ws(p, k);
    }
    if (!end_call(p, &k, name)) return false;
    tool_add(p, name, args);
    *i = k;
    return true;
}

/* Parses calls of the form <tool_call>NAME <arg_key>K</arg_key> <arg_value>V</arg_value> ...
 * </tool_call>. The name ends at whitespace or a tag. Hunyuan 3 adds a separator after it and puts
 * a single wrapper around all calls. False: incomplete. */
bool tool_parse_glm(struct toolparse *p, size_t *i) {
    const struct tool_tags *t = &p->f->tags;
    size_t k = *i;
    if (!tool_at(p, k, t->fn_open)) k = tool_wrapper(p, k);
    if (!tool_at(p, k, t->fn_open)) return false;
    size_t from = k + strlen(t->fn_open);
    if (json_in_wrapper(p, i, from)) return true;
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
        tool_put(p, args, key, tool_typed(p, tool_any_schema(p, name, key), key, value));
        check_value(p, name, key, value, next, args);
        k = tool_ws(p, next);
    }
    if (!end_call(p, &k, name)) return false;
    tool_add(p, name, args);
    *i = k;
    return true;
}
