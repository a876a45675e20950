// SPDX-License-Identifier: MIT
/* serve/conv.c - conversion of OpenAI chat messages to a conversation for templates: one text per
 * message, only roles that templates know, reasoning as reasoning_content. Tool definitions are
 * copied unchanged. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/images.h"
#include "serve/custom_tools.h"
#include "serve/images.h"
#include "serve/places.h"
#include "serve/reply.h"

/* Text and reasoning of a message. */
struct said {
    struct buf text, thought;
};

static void add_line(struct buf *out, const char *s) {
    buf_fmt(out, "%s%s", out->len && !images_at_end(out) ? "\n" : "", s);
}

/* Appends the reasoning of a content part: a string or a list of parts. */
static int say_thought(const struct json *p, const char *path, struct buf *out, struct fault *f) {
    const struct json *v = ask_either(p, "thinking", "text");
    if (v && !json_str(v) && json_type(v) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "thinking: must be a string or a list of parts");
    if (json_str(v)) add_line(out, json_str(v));
    for (const struct json *x = json_type(v) == JSON_ARR ? json_first(v) : NULL; x;
         x = json_next(x))
        if (json_str(json_get(x, "text"))) add_line(out, json_str(json_get(x, "text")));
    return 0;
}

/* Returns whether s is in the NULL-terminated list. */
static bool is_one_of(const char *s, const char *const *list) {
    while (*list && strcmp(s, *list) != 0) list++;
    return *list != NULL;
}

/* Appends one content part of a message. Parts of other types are rejected, except in tool results,
 * over which the client has no control: there a note replaces them, and images that the model
 * cannot see. */
static int content_part(struct ask *a, const struct json *p, const char *role, const char *path,
                        struct said *out, struct fault *f) {
    static const char *const texts[] = {"text", "input_text", "output_text", "refusal", NULL},
                             *const thoughts[] = {"thinking", "reasoning", NULL};
    const char *type = json_str(json_get(p, "type"));
    const char *text = json_str(p) ? json_str(p) : json_str(json_get(p, "text"));
    if (type && strcmp(type, "refusal") == 0) text = json_str(json_get(p, "refusal"));
    if (type && strcmp(role, "assistant") == 0 && is_one_of(type, thoughts))
        return say_thought(p, path, &out->thought, f);
    if (chat_image_is(p) && (a->sees || strcmp(role, "tool") != 0))
        return images_read(a, p, path, &out->text, f);
    if (type && !is_one_of(type, texts)) {
        if (strcmp(role, "tool") != 0)
            return fault_set(f, 400, NULL, path, "parts of type '%.40s' are not supported, only %s",
                             type, images_kinds(a));
        buf_fmt(&out->text, "%s[%.40s omitted]", out->text.len ? "\n" : "", type);
        ask_warn(a, type);
        return 0;
    }
    if (!text) return fault_set(f, 400, NULL, path, "a part with text is required");
    add_line(&out->text, text);
    return 0;
}

/* Collects the content of a message: a string or a list of parts. */
static int content_of(struct ask *a, const struct json *v, const char *role, const char *path,
                      struct said *out, struct fault *f) {
    char at[160];
    int i = 0;
    if (json_str(v)) buf_str(&out->text, json_str(v));
    if (json_str(v) || json_type(v) == JSON_NULL) return 0;
    if (json_type(v) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "must be a string or a list of parts");
    for (const struct json *p = json_first(v); p; p = json_next(p), i++) {
        snprintf(at, sizeof at, "%.120s[%d]", path, i);
        TRY(content_part(a, p, role, at, out, f));
    }
    return 0;
}

/* Returns the name that templates use for a role in a request; NULL: unknown role. */
static const char *role_of(const char *role) {
    static const char *const known[][2] = {{"system", "system"}, {"developer", "system"},
                                           {"user", "user"},     {"assistant", "assistant"},
                                           {"tool", "tool"},     {"function", "tool"}};
    for (size_t i = 0; role && i < COUNT_OF(known); i++)
        if (strcmp(role, known[i][0]) == 0) return known[i][1];
    return NULL;
}

/* Returns the member `custom` of a call of a custom tool; NULL: c is a call of a function. */
static const struct json *custom_of(const struct json *c) {
    const struct json *custom = json_get(c, "custom");
    const bool whole = json_str(json_get(custom, "name")) && json_str(json_get(custom, "input"));
    return whole ? custom : NULL;
}

/* Validates a message's tool calls; returns 0 or the fault's HTTP status. */
static int calls_ok(const struct json *calls, const char *path, struct fault *f) {
    char at[160];
    int i = 0;
    for (const struct json *c = json_first(calls); c; c = json_next(c), i++) {
        const struct json *fn = json_get(c, "function"), *args = json_get(fn, "arguments");
        snprintf(at, sizeof at, "%.100s.tool_calls[%d]", path, i);
        if (custom_of(c)) continue;
        if (!json_str(json_get(fn, "name")))
            return fault_set(f, 400, NULL, at, "a function with a name is required");
        if (!json_str(args) && json_type(args) != JSON_OBJ && json_type(args) != JSON_NULL)
            return fault_set(f, 400, NULL, at, "arguments: must be an object, or JSON text of one");
    }
    return 0;
}

/* Writes the name and arguments of a call. Missing or empty arguments become an empty object. */
static void put_function(struct jw *w, const struct json *fn) {
    const struct json *args = json_get(fn, "arguments");
    jw_obj(w, "function");
    ask_copy(w, "name", fn, "name");
    if (json_type(args) == JSON_NULL || ask_is_empty(args))
        jw_str(w, "arguments", "{}");
    else
        ask_copy(w, "arguments", fn, "arguments");
    jw_end(w);
}

/* Writes calls in the form that templates expect. The input of a custom tool becomes the argument
 * `input`. */
static void put_calls(struct jw *w, const struct json *calls) {
    jw_arr(w, "tool_calls");
    for (const struct json *c = json_first(calls); c; c = json_next(c)) {
        const struct json *custom = custom_of(c);
        struct buf args = {0};
        jw_obj(w, NULL);
        ask_copy(w, "id", c, "id");
        jw_str(w, "type", "function");
        if (custom) {
            custom_tool_arguments(json_str(json_get(custom, "input")), &args);
            jw_obj(w, "function");
            jw_copy(w, "name", json_get(custom, "name"));
            jw_str(w, "arguments", args.data);
            jw_end(w);
        } else {
            put_function(w, json_get(c, "function"));
        }
        jw_end(w);
        buf_release(&args);
    }
    jw_end(w);
}

/* Writes a call given in the older form `function_call`, which has no id. */
static void put_old_call(struct jw *w, const struct json *call) {
    jw_arr(w, "tool_calls");
    jw_obj(w, NULL);
    jw_str(w, "type", "function");
    put_function(w, call);
    jw_end(w);
    jw_end(w);
}

/* Names of the reasoning of an assistant message; the first with text counts. */
static const char *const reasons[] = {"reasoning_content", "reasoning", "thinking"};

/* Validates a message's reasoning and its call in the older form `function_call`. */
static int extras_ok(const struct json *m, const char *path, struct fault *f) {
    const struct json *old = ask_get(m, "function_call");
    for (size_t i = 0; i < COUNT_OF(reasons); i++) {
        const struct json *v = ask_get(m, reasons[i]);
        if (v && !json_str(v) && !ask_is_empty(v))
            return fault_set(f, 400, NULL, path, "its reasoning must be a string");
    }
    if (old && !ask_is_empty(old) && !json_str(json_get(old, "name")))
        return fault_set(f, 400, NULL, path, "function_call: must be an object with a name");
    return 0;
}

/* Writes the name of a tool result: its own, or else that of the call in `asked` with its id. Many
 * clients leave it out, but some templates print it. */
static void put_name(struct jw *w, const struct json *m, struct places *asked) {
    const struct placement *p = places_find(asked, json_str(json_get(m, "tool_call_id")), 0);
    if (ask_get(m, "name")) {
        ask_copy(w, "name", m, "name");
    } else if (p) {
        const struct json *custom = custom_of(p->item);
        ask_copy(w, "name", custom ? custom : json_get(p->item, "function"), "name");
    }
}

/* Writes a message in normalized form, with the text and reasoning in *said. asked: the calls
 * before it. */
static void put_message(struct jw *w, const struct json *m, const char *role,
                        const struct said *said, struct places *asked) {
    const struct json *calls = json_get(m, "tool_calls"), *old = json_get(m, "function_call");
    const char *thought = said->thought.data;
    for (size_t k = 0; k < COUNT_OF(reasons) && !(thought && *thought); k++)
        thought = json_str(json_get(m, reasons[k]));
    jw_obj(w, NULL);
    jw_str(w, "role", role);
    const bool null = json_type(json_get(m, "content")) == JSON_NULL; /* or absent */
    if (null && strcmp(role, "assistant") == 0)
        jw_null(w, "content");
    else
        jw_str(w, "content", said->text.data ? said->text.data : "");
    if (thought && *thought) jw_str(w, "reasoning_content", thought);
    if (json_len(calls) > 0)
        put_calls(w, calls);
    else if (json_str(json_get(old, "name")))
        put_old_call(w, old);
    ask_copy(w, "tool_call_id", m, "tool_call_id");
    if (strcmp(role, "tool") == 0)
        put_name(w, m, asked);
    else
        ask_copy(w, "name", m, "name");
    jw_end(w);
}

/* Validates message i and writes it in normalized form. asked: the calls before it. */
static int write_message(struct ask *a, struct jw *w, const struct json *m, int i,
                         struct places *asked, struct fault *f) {
    struct said said = {{0}, {0}};
    char path[64];
    snprintf(path, sizeof path, "messages[%d]", i);
    if (json_type(m) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    const char *role = role_of(json_str(json_get(m, "role")));
    if (!role) {
        snprintf(path, sizeof path, "messages[%d].role", i);
        return fault_set(f, 400, NULL, path,
                         "must be system, developer, user, assistant, tool or function");
    }
    const struct json *calls = json_get(m, "tool_calls");
    if (calls && json_type(calls) != JSON_NULL && json_type(calls) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "tool_calls: must be a list");
    TRY(calls_ok(calls, path, f));
    if (strcmp(role, "assistant") == 0) TRY(extras_ok(m, path, f));
    snprintf(path, sizeof path, "messages[%d].content", i);
    const struct json *content = json_get(m, "content");
    const int rc = content_of(a, content, role, path, &said, f);
    if (!rc) put_message(w, m, role, &said, asked);
    for (const struct json *p = json_type(content) == JSON_ARR ? json_first(content) : NULL; p;
         p = json_next(p))
        ask_mark(a, strcmp(role, "system") == 0 && i == 0 ? -1 : i, json_get(p, "cache_control"));
    ask_mark(a, i, json_get(m, "cache_control"));
    buf_release(&said.text);
    buf_release(&said.thought);
    return rc;
}

static bool is_result(const struct json *m) {
    const char *role = role_of(json_str(json_get(m, "role")));
    return role && strcmp(role, "tool") == 0;
}

enum { MOST_RESULTS = 256 }; /* limit on consecutive tool results that are sorted */
struct result {
    const struct json *m;
    int i, rank;
};
/* Fills r with message i, which is m. If m is a tool result, also adds the results that directly
 * follow it, and puts them all in the order of their calls, because clients send results as they
 * complete, and many templates print no ids. Returns the number of messages. */
static int in_order(struct places *calls, const struct json *m, int i, struct result *r) {
    int n = 1;
    r[0] = (struct result){m, i, 0};
    if (!is_result(m)) return n;
    for (n = 0; m && n < MOST_RESULTS && is_result(m); m = json_next(m), i++) {
        const struct placement *p = places_find(calls, json_str(json_get(m, "tool_call_id")), 0);
        const int rank = p ? p->at : INT_MAX;
        int at = n++;
        for (; at > 0 && r[at - 1].rank > rank; at--) r[at] = r[at - 1];
        r[at] = (struct result){m, i, rank};
    }
    return n;
}

/* Fills the index with the calls of message m; *calls is emptied first. */
static void index_calls(struct places *calls, const struct json *m) {
    int at = 0;
    places_clear(calls);
    for (const struct json *c = json_first(json_get(m, "tool_calls")); c; c = json_next(c))
        places_add(calls, json_str(json_get(c, "id")), c, at++);
}

/* Returns whether m, the last message, is marked as the start of the answer (`prefix`,
 * `partial`). */
static bool is_begun(const struct json *m) {
    const char *role = json_str(json_get(m, "role"));
    return role && strcmp(role, "assistant") == 0 &&
           (json_bool(json_get(m, "prefix"), false) || json_bool(json_get(m, "partial"), false));
}

int chat_conv(struct ask *a, const struct json *messages, struct fault *f) {
    struct buf out = {0};
    struct jw w;
    int i = 0, rc = 0;
    if (json_type(messages) != JSON_ARR || !json_first(messages))
        return fault_set(f, 400, NULL, "messages", "must be a list of messages");
    jw_init(&w, &out, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    struct places calls = {0}; /* calls of the previous assistant message */
    for (const struct json *m = json_first(messages); m && !rc;) {
        struct result r[MOST_RESULTS];
        const int n = in_order(&calls, m, i, r);
        for (int k = 0; k < n && !rc; k++) rc = write_message(a, &w, r[k].m, r[k].i, &calls, f);
        for (int k = 1; k < n; k++) m = json_next(m);
        if (!json_next(m) && is_begun(m)) a->go_on = true;
        if (!is_result(m)) index_calls(&calls, m);
        m = json_next(m);
        i += n;
    }
    jw_end(&w);
    if (a->tools) jw_raw(&w, "tools", a->tools);
    jw_end(&w);
    if (!rc) {
        free(a->conv);
        a->conv = buf_take(&out);
    }
    buf_release(&out);
    places_release(&calls);
    return rc;
}
