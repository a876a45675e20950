// SPDX-License-Identifier: MIT
/* template/chat_ends.c - detection of the tokens that end an answer.
 *
 * After an assistant's text, a template writes the token that the model was trained to emit there
 * to end its turn. Templates without such a token (GLM) rely on the token that begins the next
 * turn, which the model emits instead. Tool calls may end with a different token than plain
 * answers. A token between the reasoning and the content of one message does not end it, even if it
 * looks like an end token (for example <|end|> in gpt-oss). */
#include "template/chat_ends.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/mem.h"

/* ---- probes ---------------------------------------------------------------------------------- */

/* Words that appear in no template. */
#define ASKED "Qaskel"
#define THOUGHT "Thonqua"
#define SAID "Anvorn"
#define VALUE "Velmik"
#define LATER "Zepquil"

#define USER "{\"role\":\"user\",\"content\":\"" ASKED "\"}"
#define ANSWER ",{\"role\":\"assistant\",\"content\":\"" SAID "\"}"
#define THINKING                                                                                   \
    "\"reasoning_content\":\"" THOUGHT "\",\"reasoning\":\"" THOUGHT "\",\"thinking\":\"" THOUGHT  \
    "\""
#define ONE_CALL(id)                                                                               \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"find_it\",\"arguments\":{"  \
    "\"key\":\"" VALUE "\"}}}"
#define CALL "\"tool_calls\":[" ONE_CALL("callabcd1") "]"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"find_it\",\"description\":"        \
    "\"Finds\",\"parameters\":{\"type\":\"object\",\"properties\":{\"key\":{\"type\":\"string\","  \
    "\"description\":\"Key\"}},\"required\":[\"key\"]}}}]"
#define CALLING ",{\"role\":\"assistant\",\"content\":\"\"," CALL "}"

static const char asked[] = USER;
static const char answered[] = USER ANSWER;
static const char answered_on[] = USER ANSWER ",{\"role\":\"user\",\"content\":\"" LATER "\"}";
static const char thought[] =
    USER ",{\"role\":\"assistant\",\"content\":\"" SAID "\"," THINKING "}";
static const char thought_calling[] =
    USER ",{\"role\":\"assistant\",\"content\":\"\"," THINKING "," CALL "}";
static const char called[] = USER CALLING;
static const char called_twice[] =
    USER ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" ONE_CALL(
        "callabcd1") "," ONE_CALL("callabcd2") "]}";
static const char called_on[] =
    USER CALLING ",{\"role\":\"tool\",\"tool_call_id\":\"callabcd1\",\"name\":\"find_it\","
                 "\"content\":\"" LATER "\"}";

/* Appends messages. parts: write each content as a list of parts. */
static void put_messages(const char *messages, bool parts, struct buf *out) {
    static const char key[] = "\"content\":\"",
                      part[] = "\"content\":[{\"type\":\"text\",\"text\":\"";
    const char *s = messages;
    for (const char *at; parts && (at = strstr(s, key)) != NULL;) {
        const char *text = at + sizeof key - 1, *end = strchr(text, '"');
        const bool empty = end == text; /* message with a call: no parts */
        buf_add(out, s, (size_t)(at - s));
        buf_fmt(out, "%s%.*s%s", empty ? "\"content\":[" : part, (int)(end - text), text,
                empty ? "]" : "\"}]");
        s = end + 1;
    }
    buf_str(out, s);
}

/* Renders messages with contents in one shape, after a system message if the template requires one.
 * False: the template fails. */
static bool render_shape(const struct chat *c, const char *messages, bool tools, bool invite,
                         bool parts, struct buf *out) {
    static const char *const first[] = {"", "{\"role\":\"system\",\"content\":\"Be brief.\"},"};
    int rc = -1;
    for (size_t i = 0; i < COUNT_OF(first) && rc; i++) {
        struct err ignored;
        struct buf conv = {0};
        buf_str(&conv, "{\"messages\":[");
        put_messages(first[i], parts, &conv);
        put_messages(messages, parts, &conv);
        buf_fmt(&conv, "]%s}", tools ? "," TOOLS : "");
        buf_reset(out);
        rc = chat_render_text(c, conv.data, conv.len, NULL, invite, out, &ignored);
        buf_release(&conv);
    }
    return rc == 0 && out->data;
}

/* Renders messages with contents as strings, or as lists of parts if the template prints only
 * those. False: the template fails. */
static bool render_as(const struct chat *c, const char *messages, bool tools, bool invite,
                      struct buf *out) {
    for (int parts = 0; parts < 2; parts++)
        if (render_shape(c, messages, tools, invite, parts, out) && strstr(out->data, ASKED))
            return true;
    return render_shape(c, messages, tools, invite, false, out);
}

/* Renders messages. Passes tools if the messages contain calls or the template fails without tools.
 * False: the template fails. */
static bool render(const struct chat *c, const char *messages, struct buf *out) {
    const bool calls = strstr(messages, VALUE) != NULL;
    return (!calls && render_as(c, messages, false, false, out)) ||
           render_as(c, messages, true, false, out);
}

/* Returns whether the template opens an answer even without add_generation_prompt. */
static bool always_invites(const struct chat *c) {
    struct buf a = {0}, b = {0};
    const bool same =
        render(c, asked, &a) &&
        (render_as(c, asked, false, true, &b) || render_as(c, asked, true, true, &b)) &&
        strcmp(a.data, b.data) == 0;
    buf_release(&a);
    buf_release(&b);
    return same;
}

/* Returns the offset just after the last occurrence of a word; -1: none. */
static int64_t after_last(const struct buf *b, const char *word) {
    int64_t at = -1;
    for (const char *s = b->data; (s = strstr(s, word)) != NULL; s += strlen(word))
        at = s + strlen(word) - b->data;
    return at;
}

/* ---- tokens of renderings -------------------------------------------------------------------- */

struct marks {
    const struct chat *chat;
    struct tok *t;
    struct ids inside; /* special tokens between the reasoning and the content of an answer */
    struct ids before; /* special tokens between its reasoning and its calls */
    bool invites;      /* the template opens an answer after every conversation */
};

static bool has_id(const struct ids *a, int32_t id) {
    for (int64_t i = 0; i < a->n; i++)
        if (a->v[i] == id) return true;
    return false;
}

/* Returns whether the token's text has only whitespace; true if it is empty. */
static bool is_blank_token(const struct tok *t, int32_t id) {
    struct buf b = {0};
    bool is = true;
    tok_decode(t, id, true, &b);
    for (size_t i = 0; i < b.len; i++) is = is && memchr(" \t\r\n", b.data[i], 4);
    buf_release(&b);
    return is;
}

/* Returns whether a token can only come from the template: a special or an added token, not one
 * that merges produce. */
static bool special(const struct tok *t, int32_t id) {
    return tok_role(t, id) == TT_CONTROL || (tok_role(t, id) == TT_USER && !is_blank_token(t, id));
}

/* Replaces *out by the tokens of a text, recognizing special tokens; empty on error. */
static void encode_text(const struct tok *t, const char *s, size_t n, struct ids *out) {
    struct err ignored;
    out->n = 0;
    (void)tok_encode(t, s, n, true, false, out, &ignored);
}

/* Returns the end token among the special tokens at the start of s: the first one known to end
 * answers; otherwise the last one if `all` is set and no text follows, else the first one. -1:
 * none. */
static int64_t end_of(const struct marks *m, const char *s, size_t n, bool all) {
    struct ids ids = {0};
    int64_t first = -1, last = -1, known = -1, i = 0;
    encode_text(m->t, s, n, &ids);
    for (; i < ids.n && (special(m->t, ids.v[i]) || is_blank_token(m->t, ids.v[i])); i++) {
        const int32_t id = ids.v[i];
        if (!special(m->t, id) || id == tok_special(m->t, TS_BOS) || has_id(&m->inside, id)) {
            if (tok_is_eog(m->t, id) && known < 0) known = id;
            continue;
        }
        if (first < 0) first = id;
        if (tok_is_eog(m->t, id) && known < 0) known = id;
        last = id;
    }
    const int64_t end = known >= 0 ? known : all && i == ids.n ? last : first;
    ids_release(&ids);
    return end;
}

/* Adds the special tokens between two words of a rendered answer to *out. */
static void note_inside(const struct marks *m, const char *probe, const char *from, const char *to,
                        struct ids *out) {
    struct buf b = {0};
    struct ids ids = {0};
    if (render(m->chat, probe, &b)) {
        const char *begin = strstr(b.data, from), *end = begin ? strstr(begin, to) : NULL;
        if (end) {
            begin += strlen(from);
            encode_text(m->t, begin, (size_t)(end - begin), &ids);
        }
    }
    for (int64_t i = 0; i < ids.n; i++)
        if (special(m->t, ids.v[i]) && !has_id(out, ids.v[i])) ids_add(out, ids.v[i]);
    ids_release(&ids);
    buf_release(&b);
}

/* ---- ends of texts and calls ----------------------------------------------------------------- */

/* Returns the first non-blank line of s (n bytes), trimmed; *len 0: none. */
static const char *first_line(const char *s, size_t n, size_t *len) {
    const char *const end = s + n, *line;
    while (s < end && strchr(" \t\r\n", *s)) s++;
    for (line = s; s < end && *s != '\n'; s++) continue;
    while (s > line && strchr(" \t\r", s[-1])) s--;
    *len = (size_t)(s - line);
    return line;
}

/* Registers a stop text for templates that end turns with ordinary tokens: the text that closes the
 * answer or, without such a text, the beginning of the next turn. Plain words are not used, since
 * answers may contain them. */
static void find_end_text(struct marks *m) {
    enum { LEAST = 3, MOST = 64 };
    struct buf b = {0};
    size_t n = 0;
    const char *s = NULL, *next;
    int64_t at;
    if (!m->invites && render(m->chat, answered, &b) && (at = after_last(&b, SAID)) >= 0)
        s = first_line(b.data + at, b.len - (size_t)at, &n);
    if (!n && render(m->chat, answered_on, &b) && (at = after_last(&b, SAID)) >= 0 &&
        (next = strstr(b.data + at, LATER)) != NULL) {
        s = first_line(b.data + at, (size_t)(next - b.data - at), &n);
        if (n && s > b.data + at && s[-1] == '\n') s--, n++; /* on its own line */
    }
    bool marks = false;
    for (size_t i = 0; i < n; i++) marks = marks || (s[i] && strchr("<>[]{}|#:=*", s[i]));
    if (marks && n >= LEAST && n <= MOST) tok_set_end_text(m->t, s, n);
    buf_release(&b);
}

/* Finds the token that ends an answer by rendering one, and sets it as TS_EOT. */
static void find_turn_end(struct marks *m) {
    struct buf b = {0};
    int64_t end = -1, at = render(m->chat, answered, &b) ? after_last(&b, SAID) : -1;
    if (at >= 0) end = end_of(m, b.data + at, b.len - (size_t)at, !m->invites);
    const bool invitation = m->invites && !tok_is_eog(m->t, end); /* may be an invitation */
    if ((end < 0 || invitation) && render(m->chat, answered_on, &b) &&
        (at = after_last(&b, SAID)) >= 0) {
        const char *next = strstr(b.data + at, LATER);
        const int64_t mark =
            next ? end_of(m, b.data + at, (size_t)(next - b.data - at), false) : -1;
        if (mark >= 0) end = mark;
    }
    if (end >= 0)
        tok_set_turn_end(m->t, TS_EOT, end);
    else
        find_end_text(m);
    buf_release(&b);
}

/* Returns the first known end token in s; -1: none. */
static int64_t known_end(const struct marks *m, const char *s, size_t n) {
    struct ids ids = {0};
    int64_t end = -1;
    encode_text(m->t, s, n, &ids);
    for (int64_t i = 0; i < ids.n && end < 0; i++)
        if (tok_is_eog(m->t, ids.v[i])) end = ids.v[i];
    ids_release(&ids);
    return end;
}

/* Returns the length of the common prefix of `one`, a conversation that ends with a call, and
 * `both`, the same with the tool's answer. The white space or invitation at the end of `one` is
 * ignored. SIZE_MAX: they differ before that. */
static size_t common(const struct marks *m, const struct buf *one, const struct buf *both) {
    size_t n = one->len, same = 0;
    while (n > 0 && strchr(" \t\r\n", one->data[n - 1])) n--;
    while (same < n && same < both->len && one->data[same] == both->data[same]) same++;
    if (same == n || !m->invites) return same == n ? n : SIZE_MAX;
    while (same > 0 && !strchr("<[", one->data[same]) && !strchr("> ]\n", one->data[same - 1]))
        same--;
    return same;
}

/* Returns the control token that begins the tool's turn, unless it begins answers as well. -1: not
 * found. */
static int64_t begins_result(const struct marks *m, const struct buf *one, const struct buf *both) {
    struct ids ids = {0}, head = {0};
    const size_t n = common(m, one, both);
    int64_t end = -1;
    if (n != SIZE_MAX && both->len > n) {
        const char *user = strstr(one->data, ASKED), *value = user ? strstr(user, VALUE) : NULL;
        const char *result = strstr(both->data + n, LATER);
        if (value) encode_text(m->t, user, (size_t)(value - user), &head);
        if (value && result)
            encode_text(m->t, both->data + n, (size_t)(result - both->data) - n, &ids);
    }
    for (int64_t i = 0; i < ids.n && end < 0; i++)
        if (tok_role(m->t, ids.v[i]) == TT_CONTROL && !has_id(&head, ids.v[i]) &&
            !has_id(&m->inside, ids.v[i]) && !has_id(&m->before, ids.v[i]) &&
            ids.v[i] != tok_special(m->t, TS_BOS))
            end = ids.v[i];
    ids_release(&ids);
    ids_release(&head);
    return end;
}

/* Returns the control token at the end of a rendered call, unless each of two calls has one. */
static int64_t closes_calls(const struct marks *m, const struct buf *one) {
    struct ids ids = {0};
    struct buf two = {0};
    int64_t end = -1, from = after_last(one, VALUE);
    encode_text(m->t, one->data + from, one->len - (size_t)from, &ids);
    while (ids.n > 0 && is_blank_token(m->t, ids.v[ids.n - 1])) ids.n--;
    if (ids.n > 0 && tok_role(m->t, ids.v[ids.n - 1]) == TT_CONTROL) end = ids.v[ids.n - 1];
    if (has_id(&m->inside, (int32_t)end) || has_id(&m->before, (int32_t)end)) end = -1;
    if (end >= 0 && render(m->chat, called_twice, &two)) {
        const char *first = strstr(two.data, VALUE);
        ids.n = 0;
        if (first)
            encode_text(m->t, first, (size_t)(two.data + after_last(&two, VALUE) - first), &ids);
        if (has_id(&ids, (int32_t)end)) end = -1;
    }
    ids_release(&ids);
    buf_release(&two);
    return end;
}

/* Finds the token that ends a tool call by rendering one, and sets it as TS_EOM. */
static void find_call_end(struct marks *m) {
    struct buf one = {0}, both = {0};
    int64_t at = render(m->chat, called, &one) ? after_last(&one, VALUE) : -1, end = -1;
    if (at >= 0) {
        end = known_end(m, one.data + at, one.len - (size_t)at);
        if (end < 0 && !always_invites(m->chat)) end = closes_calls(m, &one);
        if (end < 0 && render(m->chat, called_on, &both)) end = begins_result(m, &one, &both);
    }
    if (end >= 0) tok_set_turn_end(m->t, TS_EOM, end);
    buf_release(&one);
    buf_release(&both);
}

void chat_find_ends(const struct chat *c, struct tok *t) {
    struct marks m = {.chat = c, .t = t};
    struct ctx_cost few = {.most = CHAT_PROBE_STEPS}, *before = ctx_cost_enter(&few);
    m.invites = always_invites(c);
    note_inside(&m, thought, THOUGHT, SAID, &m.inside);
    note_inside(&m, thought_calling, THOUGHT, VALUE, &m.before);
    for (int64_t i = 0; i < m.inside.n; i++) tok_not_end(t, m.inside.v[i]);
    find_turn_end(&m);
    find_call_end(&m);
    ctx_cost_enter(before);
    ids_release(&m.inside);
    ids_release(&m.before);
}

void chat_find_ends_gguf(const struct gguf *g, struct tok *t) {
    struct chat *c;
    struct err ignored;
    if (chat_from_gguf(&c, g, t, &ignored)) return;
    chat_find_ends(c, t);
    chat_free(c);
}
