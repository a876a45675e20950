// SPDX-License-Identifier: MIT
/* chat/tool_fence.c - recognition of Markdown fences, and of other model families' tags, around
 * calls: ```json, ~~~, `...`, <tools>. The call parsers skip them and parse their contents. */
#include "chat/tool_int.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { WORD_MAX = 16 };

/* Info strings (language names) of fences around JSON, without '_' and '-'. */
static const char *const words[] = {
    "",         "json",     "jsonc",     "json5",        "jsonl",         "xml",
    "text",     "txt",      "plain",     "plaintext",    "tool",          "tools",
    "toolcall", "toolcode", "toolcalls", "tooluse",      "function",      "functions",
    "call",     "action",   "calls",     "functioncall", "functioncalls", "toolrequest"};

/* Tags that other families put around calls; models mix them up. */
static const char *const tags[] = {"<tool_call>", "<function_call>", "<tools>",
                                   "<tool>",      "<functioncall>",  "<response>",
                                   "<json>",      "<JSON>",          "<xml>"};

/* Returns how often ch repeats from position i on. */
static size_t run_of(const struct toolparse *p, size_t i, char ch) {
    size_t n = 0;
    while (i + n < p->in.len && p->in.data[i + n] == ch) n++;
    return n;
}

/* Returns whether the byte may be part of a fence's language. */
static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-+.", c));
}

/* Returns whether s, of n bytes, is the info string of a fence around JSON or, with `open`, the
 * start of such a string. */
static bool is_word(const char *s, size_t n, bool open) {
    char w[WORD_MAX];
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '_' || s[i] == '-') continue;
        if (len == sizeof w) return false;
        w[len++] = s[i];
    }
    for (size_t k = 0; k < COUNT_OF(words); k++) {
        const size_t m = strlen(words[k]);
        if ((open ? m >= len : m == len) && strncasecmp(words[k], w, len) == 0) return true;
    }
    return false;
}

/* Returns the position after an opening fence of backticks or tildes at i: three or more of them,
 * or one or two if a bracket follows on the same line. Returns i if there is no fence. */
static size_t marks(const struct toolparse *p, size_t i, struct tool_fence *f) {
    const char ch = p->in.data[i];
    const size_t n = run_of(p, i, ch), word = i + n;
    size_t k = word;
    if (ch != '`' && ch != '~') return i;
    while (n >= 3 && k < p->in.len && in_word(p->in.data[k])) k++;
    const size_t end = k;
    const bool any = p->f->parse == tool_parse_python; /* python, tool_code, ... */
    if (!any && !is_word(p->in.data + word, end - word, k == p->in.len)) return i;
    while (k < p->in.len && tool_is_ws(p->in.data[k]) && p->in.data[k] != '\n') k++;
    if (k == p->in.len) return p->ended ? i : SIZE_MAX;
    const bool body = strchr("{[<", p->in.data[k]) != NULL;
    if (!body && (p->in.data[k] != '\n' || n < 3)) return i;
    *f = (struct tool_fence){.ch = ch, .n = n};
    return body ? k : k + 1;
}

size_t tool_fence_open(const struct toolparse *p, size_t i, struct tool_fence *f) {
    *f = (struct tool_fence){.n = 0};
    if (i >= p->in.len) return i;
    for (size_t k = 0; k < COUNT_OF(tags); k++) {
        if (!p->ended && i + tool_partial(p, i, tags[k]) >= p->in.len) return SIZE_MAX;
        if (!tool_at(p, i, tags[k])) continue;
        *f = (struct tool_fence){.tag = tags[k], .n = 1};
        return i + strlen(tags[k]);
    }
    return marks(p, i, f);
}

size_t tool_fence_close(const struct toolparse *p, size_t i, const struct tool_fence *f) {
    const size_t k = tool_ws(p, i);
    if (f->tag) {
        char close[24];
        snprintf(close, sizeof close, "</%s", f->tag + 1);
        if (tool_at(p, k, close)) return k + strlen(close);
        return !p->ended && k + tool_partial(p, k, close) >= p->in.len ? SIZE_MAX : i;
    }
    const size_t n = f->n ? run_of(p, k, f->ch) : 0;
    if (f->n && n < f->n) return !p->ended && k + n == p->in.len ? SIZE_MAX : i;
    return f->n ? k + f->n : i;
}

/* Returns whether a fence that opens in the lines [from, to) is still open at their end. */
static bool is_open(const struct toolparse *p, size_t from, size_t to) {
    bool open = false;
    for (size_t end; from < to; from = end + 1) {
        const char *eol = memchr(p->in.data + from, '\n', to - from);
        end = eol ? (size_t)(eol - p->in.data) : to;
        while (from < end && p->in.data[from] == ' ') from++;
        open ^= run_of(p, from, '`') >= 3 || run_of(p, from, '~') >= 3;
    }
    return open;
}

size_t tool_fence_before(const struct toolparse *p, size_t from, size_t to, struct tool_fence *f) {
    const char *s = p->in.data;
    size_t k = to, n = 0;
    *f = (struct tool_fence){.n = 0};
    while (k > from && tool_is_ws(s[k - 1])) k--;
    while (k > from && in_word(s[k - 1])) k--;
    const char ch = k > from ? s[k - 1] : 0;
    while (k > from && s[k - 1] == ch) k--, n++;
    while (k > from && (s[k - 1] == ' ' || s[k - 1] == '\t')) k--;
    if ((ch != '`' && ch != '~') || n < 3 || (k > from && s[k - 1] != '\n')) return to;
    if (is_open(p, from, k)) return to; /* the line closes a fence */
    *f = (struct tool_fence){.ch = ch, .n = n};
    return k;
}
