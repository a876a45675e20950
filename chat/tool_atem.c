// SPDX-License-Identifier: MIT
/* chat/tool_atem.c - message headers of Muse Glimmer (ATEM). A header names its recipient,
 * " to=NAME<|message|>": "self" for reasoning, "user" or no name for content, otherwise a tool. The
 * call that follows is parsed as tags; its header is a frame. In a message to "user", a call is
 * text until the message ends or the next header. Models sometimes switch recipients without ending
 * the message, so a header counts wherever a word may begin. */
#include "chat/tool_int.h"

#include <string.h>

#include "base/mem.h"

enum { NAME_BYTES = 200 /* longest recipient */ };
static const char to[] = "to=", message[] = "<|message|>", user[] = "to=user<|message|>";

/* Returns whether a header may begin at i, in text that begins at `from`. */
static bool may_begin(const struct toolparse *p, size_t from, size_t i) {
    return i == from || tool_is_ws(p->in.data[i - 1]) || p->in.data[i - 1] == '>';
}

/* Returns the end of the recipient's name at i. */
static size_t name_end(const struct toolparse *p, size_t i) {
    size_t k = i;
    while (k < p->in.len && k - i <= NAME_BYTES && p->in.data[k] != '<' &&
           !tool_is_ws(p->in.data[k]))
        k++;
    return k;
}

/* Returns the length of the header at i, or 0. */
static size_t header_len(const struct toolparse *p, size_t i) {
    if (!tool_at(p, i, to)) return 0;
    const size_t name = i + strlen(to), k = name_end(p, name);
    return k > name && tool_at(p, k, message) ? k + strlen(message) - i : 0;
}

static size_t atem_frame(const struct toolparse *p, size_t i, size_t n) {
    return n ? n : header_len(p, i);
}

static size_t atem_find(const struct toolparse *p, size_t i) {
    for (size_t at = i; (at = tool_find(p, at, to)) != SIZE_MAX; at++)
        if (may_begin(p, i, at) && header_len(p, at)) return at;
    return SIZE_MAX;
}

/* Returns whether all text from i on is the beginning of lit. */
static bool is_start(const struct toolparse *p, size_t i, const char *lit) {
    const size_t n = p->in.len - i;
    return n < strlen(lit) && memcmp(p->in.data + i, lit, n) == 0;
}

static size_t atem_partial(const struct toolparse *p, size_t from) {
    const size_t len = p->in.len, most = NAME_BYTES + strlen(to) + strlen(message);
    for (size_t at = len - from > most ? len - most : from; at < len; at++) {
        if (p->in.data[at] != *to || !may_begin(p, from, at)) continue;
        if (is_start(p, at, to)) return len - at;
        if (tool_at(p, at, to) && is_start(p, name_end(p, at + strlen(to)), message))
            return len - at;
    }
    return 0;
}

/* Returns the length of what ends a message at i, a header or an end token; 0: neither is there.
 * The text begins at `from`. */
static size_t border_len(const struct toolparse *p, size_t from, size_t i) {
    static const char *const ends[] = {"<|eom|>", "<|eot|>", "<|start|>"};
    for (size_t k = 0; k < COUNT_OF(ends); k++)
        if (tool_at(p, i, ends[k])) return strlen(ends[k]);
    return may_begin(p, from, i) ? header_len(p, i) : 0;
}

/* Returns whether a header that names the user precedes the whitespace before i. */
static bool after_user(const struct toolparse *p, size_t i) {
    while (i > 0 && tool_is_ws(p->in.data[i - 1])) i--;
    return i >= strlen(user) && tool_at(p, i - strlen(user), user);
}

static size_t atem_text_end(const struct toolparse *p, size_t piece, size_t at) {
    bool inside = after_user(p, piece);
    for (size_t i = piece, n; i < at; i += n ? n : 1) {
        n = border_len(p, piece, i);
        if (n) inside = tool_at(p, i, user);
    }
    if (!inside) return 0;
    for (size_t i = at; i < p->in.len; i++)
        if (border_len(p, piece, i)) return i;
    return SIZE_MAX;
}

const struct tool_headers tool_atem_headers = {
    .frame = atem_frame, .find = atem_find, .partial = atem_partial, .text_end = atem_text_end};
