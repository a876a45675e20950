// SPDX-License-Identifier: MIT
/* chat/tool_harmony.c - parser of gpt-oss messages (the harmony format). A header has these parts
 * in any order: [<|start|>assistant] <|channel|>NAME, to=RECIPIENT, <|constrain|>TYPE, and words
 * such as "json". Then come <|message|> and the text. A header with a recipient begins a call. */
#include "chat/tool_int.h"

#include <string.h>

enum {
    HEADER = 300, /* longest header in bytes */
    WORDS = 40    /* maximum bytes of plain words between two parts */
};
static const char message[] = "<|message|>", to[] = "to=";

/* Returns the start of the last special token before i, at most HEADER bytes back, or SIZE_MAX. */
static size_t token_before(const struct toolparse *p, size_t i) {
    const size_t first = i > HEADER ? i - HEADER : 0;
    while (i > first)
        if (tool_at(p, --i, "<|")) return i;
    return SIZE_MAX;
}

static bool is_letter(char c) {
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Returns whether a part of a header begins at i, or may once more text arrives. */
static bool header_continues(const struct toolparse *p, size_t i) {
    static const char *const parts[] = {message, "<|constrain|>", "<|channel|>", to};
    bool ok = false;
    for (size_t k = 0; k < COUNT_OF(parts); k++)
        ok = ok || tool_at(p, i, parts[k]) ||
             (!p->ended && i + tool_partial(p, i, parts[k]) >= p->in.len);
    return ok;
}

/* Returns the end of the plain words at i if another part of the header follows them, otherwise
 * i. */
static size_t words_end(const struct toolparse *p, size_t i) {
    size_t k = i;
    while (k < p->in.len && k - i < WORDS && !tool_at(p, k, to) &&
           (is_letter(p->in.data[k]) || tool_is_ws(p->in.data[k])))
        k++;
    return header_continues(p, k) ? k : i;
}

/* Returns the length of the header token (such as <|channel|>) at i, or 0. */
static size_t token_at(const struct toolparse *p, size_t i) {
    static const char *const tokens[] = {"<|start|>", "<|channel|>", "<|constrain|>"};
    for (size_t k = 0; k < COUNT_OF(tokens); k++)
        if (tool_at(p, i, tokens[k])) return strlen(tokens[k]);
    return 0;
}

/* Returns whether the "to=" at `at` names a header's recipient. Sets *head to the header's
 * start. */
static bool in_header(const struct toolparse *p, size_t at, size_t *head) {
    size_t next = *head = at, k;
    if (at > 0 && !tool_is_ws(p->in.data[at - 1]) && p->in.data[at - 1] != '>') return false;
    while ((k = token_before(p, next)) != SIZE_MAX && token_at(p, k)) {
        if (words_end(p, k + token_at(p, k)) != next) break;
        next = k;
        if (!tool_at(p, k, "<|constrain|>")) *head = k;
        if (tool_at(p, k, "<|start|>")) break;
    }
    return *head < at || tool_skip_frames(p, 0) >= at;
}

static size_t next_call(const struct toolparse *p, size_t i) {
    size_t head, at = tool_find(p, i, to);
    while (at != SIZE_MAX && !in_header(p, at, &head)) at = tool_find(p, at + 1, to);
    return at == SIZE_MAX || head < i ? at : head;
}

static size_t skip_header(const struct toolparse *p, size_t i) {
    const size_t msg = tool_find(p, i, message);
    return msg == SIZE_MAX || msg - i > HEADER ? i : msg + strlen(message);
}

/* Returns the length of the n-byte frame at i together with the header words that follow it. */
static size_t harmony_frame(const struct toolparse *p, size_t i, size_t n) {
    if (!n) return 0;
    if (p->no_calls && skip_header(p, i) > i) return skip_header(p, i) - i;
    return token_at(p, i) ? words_end(p, i + n) - i : n;
}

const struct tool_headers tool_harmony_headers = {
    .call = next_call, .frame = harmony_frame, .skip = skip_header};

/* Finds a call's header after `at`; sets its name and where the arguments start. False if
 * incomplete. */
bool tool_head_harmony(struct toolparse *p, size_t at, struct text *name, size_t *from) {
    const size_t msg = tool_find(p, at, message), recipient = tool_find(p, at, to);
    if (msg == SIZE_MAX || msg - at > HEADER || recipient > msg) return false;
    size_t k = recipient + strlen(to);
    const size_t begin = k;
    while (k < msg && p->in.data[k] != '<' && !tool_is_ws(p->in.data[k])) k++;
    *name = tool_name(p, begin, k);
    *from = msg + strlen(message);
    return name->n > 0;
}

bool tool_parse_harmony(struct toolparse *p, size_t *i) {
    struct text name;
    const struct json *v;
    size_t k;
    if (!tool_head_harmony(p, *i, &name, &k) || !(v = tool_args(p, &k, "<|call|>"))) return false;
    tool_add(p, name, v);
    *i = k;
    return true;
}
