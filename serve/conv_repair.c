// SPDX-License-Identifier: MIT
/* serve/conv_repair.c - the repair steps for conversations, and the check for system text that a
 * prompt lacks. */
#include "serve/conv_repair.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "serve/ask.h"
#include "template/jinja.h"
#include "text/utf8.h"

static bool has_calls(const struct json *m) {
    return json_len(json_get(m, "tool_calls")) > 0;
}

/* Returns a shallow copy of an object, so that its members can be replaced. */
static struct json *copy_of(struct arena *a, const struct json *obj) {
    struct json *out = json_new(a, JSON_OBJ);
    for (const struct json *x = json_first(obj); x; x = json_next(x))
        json_put(a, out, json_name(x), strlen(json_name(x)), x);
    return out;
}

static void put_text(struct arena *a, struct json *obj, const char *name, const char *s) {
    json_put(a, obj, name, strlen(name), json_new_str(a, s, strlen(s)));
}

static struct json *new_message(struct arena *a, const char *role, const char *text) {
    struct json *m = json_new(a, JSON_OBJ);
    put_text(a, m, "role", role);
    put_text(a, m, "content", text);
    return m;
}

/* Returns a copy of m with the content a + b, separated by an empty line if both are non-empty. */
static struct json *with_content(struct arena *mem, const struct json *m, const char *a,
                                 const char *b) {
    struct json *out = copy_of(mem, m);
    struct buf text = {0};
    buf_fmt(&text, "%s%s%s", a, *a && *b ? "\n\n" : "", b);
    put_text(mem, out, "content", text.data);
    buf_release(&text);
    return out;
}

/* ---- steps: copy messages from `in` to `out`; return whether anything changed ---- */

/* Returns a copy of the call whose arguments are a valid object. Sets *changed if they were not. */
static struct json *mended_call(struct arena *a, const struct json *call, bool *changed) {
    const struct json *fn = json_get(call, "function"), *args = json_get(fn, "arguments");
    const char *s = json_str(args);
    struct json *j = NULL, *out = copy_of(a, call), *f = copy_of(a, fn);
    struct err ignored;
    if (s && json_parse_mend(&j, s, strlen(s), "arguments", &ignored)) j = NULL;
    if (s && json_type(j) != JSON_OBJ) {
        struct json *object = json_new(a, JSON_OBJ);
        put_text(a, object, "arguments", s);
        json_put(a, f, "arguments", strlen("arguments"), object);
        *changed = true;
    }
    json_free(j);
    json_put(a, out, "function", strlen("function"), f);
    return out;
}

/* Writes an id of nine letters and digits, derived from another id. */
static void nine_of(const char *id, char out[10]) {
    static const char all[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t h = hash_u64(id, strlen(id));
    for (int i = 0; i < 9; i++, h /= 62) out[i] = all[h % 62];
    out[9] = 0;
}

/* Returns whether an id can stay as it is: nine letters and digits, or a model's own form with
 * ':'. */
static bool id_stays(const char *id) {
    size_t n = 0;
    while ((id[n] >= '0' && id[n] <= '9') || ((id[n] | 32) >= 'a' && (id[n] | 32) <= 'z')) n++;
    return (n == 9 && !id[n]) || strchr(id, ':');
}

/* Replaces the id in member `name` of obj, unless it can stay. A missing id is derived from
 * `number`. */
static void put_nine(struct arena *a, struct json *obj, const char *name, int number,
                     bool *changed) {
    const char *id = json_str(json_get(obj, name));
    char nine[10], count[16];
    snprintf(count, sizeof count, "#%d", number);
    if (id && id_stays(id)) return;
    nine_of(id ? id : count, nine);
    put_text(a, obj, name, nine);
    *changed = true;
}

/* Replaces content that is null or missing by an empty string. Returns whether anything changed. */
static bool step_null(struct arena *a, const struct json *in, struct json *out) {
    bool changed = false;
    for (const struct json *m = json_first(in); m; m = json_next(m)) {
        const bool none = json_type(json_get(m, "content")) == JSON_NULL;
        json_push(a, out, none ? with_content(a, m, "", "") : m);
        changed |= none;
    }
    return changed;
}

/* Replaces ids of calls and results by nine letters and digits. Returns whether anything
 * changed. */
static bool step_ids(struct arena *a, const struct json *in, struct json *out) {
    bool changed = false;
    int n_calls = 0, n_results = 0;
    for (const struct json *m = json_first(in); m; m = json_next(m)) {
        struct json *copy = copy_of(a, m), *calls = json_new(a, JSON_ARR);
        for (const struct json *c = json_first(json_get(m, "tool_calls")); c; c = json_next(c)) {
            struct json *call = copy_of(a, c);
            put_nine(a, call, "id", n_calls++, &changed);
            json_push(a, calls, call);
        }
        if (has_calls(m)) json_put(a, copy, "tool_calls", strlen("tool_calls"), calls);
        if (msg_is(m, "tool")) put_nine(a, copy, "tool_call_id", n_results++, &changed);
        json_push(a, out, copy);
    }
    return changed;
}

/* Replaces the id of call number `number` of the tool `name`, unless the id names it already. */
static void put_numbered(struct arena *a, struct json *obj, const char *member, const char *name,
                         int number, bool *changed) {
    const char *id = json_str(json_get(obj, member));
    struct buf b = {0};
    if (!name || (id && strchr(id, ':'))) return;
    buf_fmt(&b, "functions.%s:%d", name, number);
    put_text(a, obj, member, b.data);
    buf_release(&b);
    *changed = true;
}

/* Returns the position in `calls` of the one that the result m answers; nth: how many results of
 * these calls come before m, for results without an id. -1: it is not known. */
static int call_of(const struct json *calls, const struct json *m, int nth) {
    const char *id = json_str(json_get(m, "tool_call_id"));
    int k = 0;
    if (!id) return nth < json_len(calls) ? nth : -1;
    for (const struct json *c = json_first(calls); c; c = json_next(c), k++) {
        const char *other = json_str(json_get(c, "id"));
        if (other && strcmp(other, id) == 0) return k;
    }
    return -1;
}

/* Replaces ids of calls and of their results by "functions.NAME:NUMBER", as Kimi writes calls.
 * Returns whether anything changed. */
static bool step_numbers(struct arena *a, const struct json *in, struct json *out) {
    const struct json *calls = NULL; /* the last ones */
    bool changed = false;
    int n = 0, first = 0, n_results = 0; /* first: the number of the first of them */
    for (const struct json *m = json_first(in); m; m = json_next(m)) {
        struct json *copy = copy_of(a, m), *list = json_new(a, JSON_ARR);
        if (has_calls(m)) calls = json_get(m, "tool_calls"), first = n, n_results = 0;
        for (const struct json *c = json_first(json_get(m, "tool_calls")); c; c = json_next(c)) {
            struct json *call = copy_of(a, c);
            put_numbered(a, call, "id", json_str(json_get(json_get(c, "function"), "name")), n++,
                         &changed);
            json_push(a, list, call);
        }
        if (has_calls(m)) json_put(a, copy, "tool_calls", strlen("tool_calls"), list);
        const int k = msg_is(m, "tool") ? call_of(calls, m, n_results++) : -1;
        const struct json *c = k < 0 ? NULL : json_first(calls);
        for (int i = 0; i < k; i++) c = json_next(c);
        put_numbered(a, copy, "tool_call_id", json_str(json_get(json_get(c, "function"), "name")),
                     first + k, &changed);
        json_push(a, out, copy);
    }
    return changed;
}

/* Wraps arguments that are not an object: {"arguments": text}. Returns whether anything changed. */
static bool step_arguments(struct arena *a, const struct json *in, struct json *out) {
    bool changed = false;
    for (const struct json *m = json_first(in); m; m = json_next(m)) {
        struct json *copy = copy_of(a, m), *calls = json_new(a, JSON_ARR);
        for (const struct json *c = json_first(json_get(m, "tool_calls")); c; c = json_next(c))
            json_push(a, calls, mended_call(a, c, &changed));
        if (has_calls(m)) json_put(a, copy, "tool_calls", strlen("tool_calls"), calls);
        json_push(a, out, copy);
    }
    return changed;
}

/* Merges the system messages before the first answer into one at the start. Later ones become user
 * messages where they are, since moving them to the start would change a prefix that has already
 * been computed. Returns whether anything changed. */
static bool step_system(struct arena *a, const struct json *in, struct json *out) {
    struct buf text = {0};
    bool changed = false, answered = false;
    int i = 0, n = 0;
    for (const struct json *m = json_first(in); m && !msg_is(m, "assistant"); m = json_next(m))
        if (msg_is(m, "system") && *msg_text(m))
            buf_fmt(&text, "%s%s", n++ ? "\n\n" : "", msg_text(m));
    if (text.len) json_push(a, out, new_message(a, "system", text.data));
    for (const struct json *m = json_first(in); m; m = json_next(m), i++) {
        answered |= msg_is(m, "assistant");
        if (!msg_is(m, "system"))
            json_push(a, out, m);
        else if (answered)
            json_push(a, out, new_message(a, "user", msg_text(m)));
        changed |= msg_is(m, "system") && i > 0;
    }
    buf_release(&text);
    return changed;
}

/* Returns whether message b can be merged with the message a before it: both are the user's, or
 * both are the assistant's and a has no calls. */
static bool joins(const struct json *a, const struct json *b) {
    return (msg_is(a, "user") && msg_is(b, "user")) ||
           (msg_is(a, "assistant") && msg_is(b, "assistant") && !has_calls(a));
}

/* Merges adjacent messages of the same role. Members other than the content come from the last one.
 * Returns whether anything changed. */
static bool step_neighbours(struct arena *a, const struct json *in, struct json *out) {
    bool changed = false;
    for (const struct json *m = json_first(in); m; m = json_next(m)) {
        struct buf before = {0};
        for (; json_next(m) && joins(m, json_next(m)); m = json_next(m)) {
            if (*msg_text(m)) buf_fmt(&before, "%s%s", before.len ? "\n\n" : "", msg_text(m));
            changed = true;
        }
        json_push(a, out, before.len ? with_content(a, m, before.data, msg_text(m)) : m);
        buf_release(&before);
    }
    return changed;
}

/* Inserts an assistant message between tool calls or results and a user message that follows them
 * directly. Returns whether anything changed. */
static bool step_results(struct arena *a, const struct json *in, struct json *out) {
    bool changed = false;
    for (const struct json *m = json_first(in); m; m = json_next(m)) {
        json_push(a, out, m);
        if (!msg_is(m, "tool") && !has_calls(m)) continue;
        if (!msg_is(json_next(m), "user")) continue;
        json_push(a, out, new_message(a, "assistant", "..."));
        changed = true;
    }
    return changed;
}

/* Inserts an empty user message if an assistant message comes first or there are only system
 * messages. Returns whether anything changed. */
static bool step_first(struct arena *a, const struct json *in, struct json *out) {
    const struct json *m = json_first(in);
    for (; m && msg_is(m, "system"); m = json_next(m)) json_push(a, out, m);
    const bool changed = !m || !msg_is(m, "user");
    if (changed) json_push(a, out, new_message(a, "user", ""));
    for (; m; m = json_next(m)) json_push(a, out, m);
    return changed;
}

/* Prepends the system message to the first user message. Returns whether anything changed. */
static bool step_no_system(struct arena *a, const struct json *in, struct json *out) {
    const struct json *m = json_first(in);
    const char *text = m && msg_is(m, "system") ? msg_text(m) : NULL;
    bool put = !text;
    if (text) m = json_next(m);
    for (; m; m = json_next(m)) {
        const bool here = !put && msg_is(m, "user");
        json_push(a, out, here ? with_content(a, m, text, msg_text(m)) : m);
        put |= here;
    }
    if (!put) json_push(a, out, new_message(a, "user", text));
    return text != NULL;
}

/* Appends the text of messages with calls to their reasoning, for templates that allow only one of
 * both (gpt-oss). Returns whether anything changed. */
static bool step_thought(struct arena *a, const struct json *in, struct json *out) {
    static const char name[] = "reasoning_content";
    bool changed = false;
    for (const struct json *m = json_first(in); m; m = json_next(m)) {
        const char *thought = json_str(json_get(m, name)), *text = msg_text(m);
        const bool both = has_calls(m) && thought && *thought && *text;
        const struct json *all = both ? with_content(a, m, thought, text) : NULL;
        struct json *copy = both ? with_content(a, m, "", "") : NULL;
        if (both) json_put(a, copy, name, sizeof name - 1, json_get(all, "content"));
        json_push(a, out, both ? copy : m);
        changed |= both;
    }
    return changed;
}

static const struct {
    const char *what;
    bool (*run)(struct arena *a, const struct json *in, struct json *out);
} steps[MEND_STEPS] = {
    [MEND_NULL] = {"content that is null", step_null},
    [MEND_IDS] = {"ids of calls", step_ids},
    [MEND_ARGUMENTS] = {"arguments that are not an object", step_arguments},
    [MEND_SYSTEM] = {"system messages after the first", step_system},
    [MEND_NEIGHBOURS] = {"messages of one role in a row", step_neighbours},
    [MEND_RESULTS] = {"a user message after calls", step_results},
    [MEND_FIRST] = {"no user message at the start", step_first},
    [MEND_THOUGHT] = {"text along with reasoning and calls", step_thought},
    [MEND_NO_SYSTEM] = {"a system message, moved into the first user turn", step_no_system},
    [MEND_NUMBERS] = {"ids of calls", step_numbers},
};

char *conv_repair_conv(const char *conv, enum conv_repair_step step, const char **what) {
    const struct json *j;
    struct arena a;
    struct buf b = {0};
    static const struct json_opts mend = {.mend = true};
    struct err ignored;
    arena_init(&a);
    *what = steps[step].what;
    if (json_parse_in(&j, &a, conv, strlen(conv), &mend, "conversation", NULL, &ignored) == 0) {
        struct json *out = json_new(&a, JSON_OBJ), *messages = json_new(&a, JSON_ARR);
        if (steps[step].run(&a, json_get(j, "messages"), messages)) {
            json_put(&a, out, "messages", strlen("messages"), messages);
            if (json_get(j, "tools"))
                json_put(&a, out, "tools", strlen("tools"), json_get(j, "tools"));
            json_write_spaced(&b, out);
        }
    }
    arena_release(&a);
    return b.data ? buf_take(&b) : NULL;
}

/* ---- finding text that a template leaves out ---- */

/* Parses a conversation into the arena and returns it; NULL: it has no system message. */
static const struct json *with_system(struct arena *a, const char *conv) {
    const struct json *j = NULL;
    static const struct json_opts mend = {.mend = true};
    struct err ignored;
    if (!strstr(conv, "\"system\"")) return NULL; /* a cheap test, enough for most conversations */
    return json_parse_in(&j, a, conv, strlen(conv), &mend, "conversation", NULL, &ignored) ? NULL
                                                                                           : j;
}

/* Returns the text of a system message without surrounding whitespace; *n 0: empty. */
static const char *system_text(const struct json *m, size_t *n) {
    const char *s = msg_is(m, "system") ? msg_text(m) : "";
    const size_t lead = utf8_white_span(s, strlen(s));
    *n = strlen(s) - lead;
    *n -= utf8_white_before(s + lead, *n);
    return s + lead;
}

/* Returns whether the prompt contains bytes of message i's content. */
static bool has_bytes(const struct jinja_spans *s, int i) {
    char path[48];
    const int n = snprintf(path, sizeof path, "messages[%d].content", i);
    for (int k = 0; k < s->n; k++)
        if (strncmp(s->origin[s->v[k].origin].path, path, (size_t)n) == 0) return true;
    return false;
}

bool conv_repair_shown(const char *conv, const struct jinja_spans *spans) {
    struct arena a;
    bool all = true;
    int i = 0;
    arena_init(&a);
    const struct json *m = json_first(json_get(with_system(&a, conv), "messages"));
    for (; m && all; m = json_next(m), i++) {
        size_t n;
        (void)system_text(m, &n);
        all = !n || has_bytes(spans, i);
    }
    arena_release(&a);
    return all;
}

char *conv_repair_probe(const char *conv, struct buf *words) {
    struct arena a;
    struct buf b = {0};
    int n_words = 0;
    arena_init(&a);
    const struct json *j = with_system(&a, conv);
    struct json *out = json_new(&a, JSON_OBJ), *list = json_new(&a, JSON_ARR);
    for (const struct json *m = json_first(json_get(j, "messages")); m; m = json_next(m)) {
        char word[40];
        size_t n;
        (void)system_text(m, &n);
        snprintf(word, sizeof word, "Qx%dsystemtext%dxQ", n_words, n_words);
        json_push(&a, list, n ? with_content(&a, m, word, "") : m);
        if (n) buf_fmt(words, "%s\n", word);
        n_words += n > 0;
    }
    json_put(&a, out, "messages", strlen("messages"), list);
    if (json_get(j, "tools")) json_put(&a, out, "tools", strlen("tools"), json_get(j, "tools"));
    if (n_words) json_write_spaced(&b, out);
    arena_release(&a);
    return b.data ? buf_take(&b) : NULL;
}
