// SPDX-License-Identifier: MIT
/* chat/tool_inkling.c - message headers of Inkling. A message begins with <|message_model|>, which
 * may be the end of the prompt, and a token for its kind. In that of a call the tool's name
 * precedes the token: NAME<|content_invoke_tool_json|>{"name": NAME, "args": {..}}<|end_message|>.
 * The name before the token is a frame: the call itself names the tool again. */
#include "chat/tool_int.h"

#include <string.h>

enum { NAME_BYTES = 200 /* longest name */ };

static bool is_name_char(char c) {
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == ':';
}

/* Returns the end of the name at i. */
static size_t name_end(const struct toolparse *p, size_t i) {
    size_t k = i;
    while (k < p->in.len && k - i < NAME_BYTES && is_name_char(p->in.data[k])) k++;
    return k;
}

/* Returns whether a name may begin at i: at the start of the text, or after a token. */
static bool may_begin(const struct toolparse *p, size_t i) {
    return i == 0 || p->in.data[i - 1] == '>';
}

/* Returns the length of the name at i that precedes a call's token, or 0. */
static size_t inkling_frame(const struct toolparse *p, size_t i, size_t n) {
    if (n || !may_begin(p, i)) return n;
    const size_t end = name_end(p, i);
    return tool_at(p, end, INVOKE_JSON) ? end - i : 0;
}

static size_t inkling_find(const struct toolparse *p, size_t i) {
    for (size_t at = i; (at = tool_find(p, at, INVOKE_JSON)) != SIZE_MAX; at++) {
        size_t k = at;
        while (k > i && at - k < NAME_BYTES && is_name_char(p->in.data[k - 1])) k--;
        if (k < at && may_begin(p, k)) return k;
    }
    return SIZE_MAX;
}

static size_t inkling_partial(const struct toolparse *p, size_t from) {
    const size_t len = p->in.len, most = NAME_BYTES + strlen(INVOKE_JSON);
    for (size_t at = len - from > most ? len - most : from; at < len; at++) {
        if (!may_begin(p, at) || !is_name_char(p->in.data[at])) continue;
        const size_t end = name_end(p, at), n = len - end;
        if (n < strlen(INVOKE_JSON) && memcmp(p->in.data + end, INVOKE_JSON, n) == 0)
            return len - at;
    }
    return 0;
}

const struct tool_headers tool_inkling_headers = {
    .frame = inkling_frame, .find = inkling_find, .partial = inkling_partial};
