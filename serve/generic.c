// SPDX-License-Identifier: MIT
/* serve/generic.c - generic tool calling: writes tools and calls as text, and finds out what a
 * template renders. */
#include "serve/generic.h"

#include <string.h>

#include "base/ctx.h"
#include "serve/ask.h"

static void put_message(struct jw *w, const char *role, const struct buf *text) {
    jw_obj(w, NULL);
    jw_str(w, "role", role);
    jw_strn(w, "content", text->data ? text->data : "", text->len);
    jw_end(w);
}

/* ---- text ---- */

/* Appends instructions and the definitions of the tools; nothing if there are no tools. */
static void say_tools(const struct json *tools, struct buf *out) {
    if (!json_first(tools)) return;
    if (out->len) buf_str(out, "\n\n");
    buf_str(out, "# Tools\n\nYou can call functions. Each line is the definition of one, in JSON:\n"
                 "<tools>\n");
    for (const struct json *t = json_first(tools); t; t = json_next(t)) {
        json_write_spaced(out, t);
        buf_chr(out, '\n');
    }
    buf_str(out,
            "</tools>\n\nTo call a function, write its name and its arguments as a JSON object "
            "between <tool_call> and </tool_call>:\n<tool_call>\n{\"name\": \"the function's "
            "name\", \"arguments\": {\"the argument's name\": \"its value\"}}\n</tool_call>\n"
            "Several calls may follow one another. Their results come between <tool_response> "
            "and </tool_response>.");
}

/* Appends the calls as <tool_call> blocks. */
static void say_calls(const struct json *calls, struct buf *out) {
    for (const struct json *c = json_first(calls); c; c = json_next(c)) {
        const struct json *f = json_get(c, "function"), *args = json_get(f, "arguments");
        const char *text = json_str(args), *name = json_str(json_get(f, "name"));
        struct json *j = NULL;
        struct err ignored;
        buf_fmt(out, "%s<tool_call>\n{\"name\": ", out->len ? "\n" : "");
        json_quote(out, name ? name : "", name ? strlen(name) : 0);
        buf_str(out, ", \"arguments\": ");
        if (text && json_parse_mend(&j, text, strlen(text), "arguments", &ignored) == 0) args = j;
        if (args)
            json_write_spaced(out, args);
        else
            buf_str(out, "{}");
        buf_str(out, "}\n</tool_call>");
        json_free(j);
    }
}

/* Writes an assistant message whose text includes its calls. */
static void put_answer(struct jw *w, const struct json *m) {
    struct buf text = {0};
    buf_str(&text, msg_text(m));
    say_calls(json_get(m, "tool_calls"), &text);
    jw_obj(w, NULL);
    jw_str(w, "role", "assistant");
    jw_strn(w, "content", text.data, text.len);
    ask_copy(w, "reasoning_content", m, "reasoning_content");
    jw_end(w);
    buf_release(&text);
}

/* Writes the results that start at message m, and a user message directly after them, as one
 * message. Returns the last message used. */
static const struct json *put_results(struct jw *w, const struct json *m) {
    struct buf text = {0};
    const struct json *last = m;
    for (; m && msg_is(m, "tool"); last = m, m = json_next(m))
        buf_fmt(&text, "%s<tool_response>\n%s\n</tool_response>", text.len ? "\n" : "",
                msg_text(m));
    if (m && msg_is(m, "user")) {
        if (*msg_text(m)) buf_fmt(&text, "\n\n%s", msg_text(m));
        last = m;
    }
    put_message(w, "user", &text);
    buf_release(&text);
    return last;
}

/* Writes messages for a template without tools: as system, user and assistant text. */
static void put_messages(struct jw *w, const struct json *list, const struct json *tools) {
    const struct json *m = json_first(list);
    const bool system = m && msg_is(m, "system");
    struct buf text = {0};
    if (system) buf_str(&text, msg_text(m));
    say_tools(tools, &text);
    if (text.len) put_message(w, "system", &text);
    for (m = system ? json_next(m) : m; m; m = json_next(m)) {
        if (json_first(json_get(m, "tool_calls")))
            put_answer(w, m);
        else if (msg_is(m, "tool"))
            m = put_results(w, m);
        else
            ask_put(w, NULL, m);
    }
    buf_release(&text);
}

char *generic_conv(const char *conv, bool hidden) {
    struct json *j = NULL;
    struct buf out = {0};
    struct jw w;
    struct err ignored;
    if (json_parse_mend(&j, conv, strlen(conv), "conversation", &ignored)) return NULL;
    const struct json *list = json_get(j, "messages"), *tools = json_get(j, "tools");
    bool any = json_len(tools) > 0;
    for (const struct json *m = json_first(list); m && hidden && !any; m = json_next(m))
        any = msg_is(m, "tool") || json_len(json_get(m, "tool_calls")) > 0;
    if (any) {
        jw_init(&w, &out, false);
        jw_obj(&w, NULL);
        jw_arr(&w, "messages");
        put_messages(&w, list, tools);
        jw_end(&w);
        jw_end(&w);
    }
    json_free(j);
    return any ? buf_take(&out) : NULL;
}

/* ---- probes of a template ---- */

#define TOOL                                                                                       \
    "{\"type\": \"function\", \"function\": {\"name\": \"%s\", \"description\": \"d\", "           \
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": "                   \
    "\"string\", \"description\": \"d\"}}, \"required\": [\"a\"]}}}"

/* Renders the conversation `messages` with a tool called `name`. Returns whether that succeeds. */
static bool renders(const struct chat *c, const char *messages, const char *name, struct buf *out) {
    struct buf conv = {0};
    struct err ignored;
    struct ctx_cost few = {.most = CHAT_PROBE_STEPS}, *before = ctx_cost_enter(&few);
    buf_fmt(&conv, "{\"messages\": [%s], \"tools\": [" TOOL "]}", messages, name);
    const bool ok = chat_render_text(c, conv.data, conv.len, NULL, true, out, &ignored) == 0;
    ctx_cost_enter(before);
    buf_release(&conv);
    return ok;
}

bool generic_shows_tools(const struct chat *c) {
    static const char user[] = "{\"role\": \"user\", \"content\": \"x\"}",
                      both[] = "{\"role\": \"system\", \"content\": \"x\"}, {\"role\": \"user\", "
                               "\"content\": \"x\"}",
                      name[] = "qx_probed_tool";
    struct buf a = {0}, b = {0};
    const bool alone = renders(c, user, name, &a), system = renders(c, both, name, &b);
    const bool shown = (alone && memmem(a.data, a.len, name, sizeof name - 1)) ||
                       (system && memmem(b.data, b.len, name, sizeof name - 1));
    const bool unknown = !alone && !system; /* the template needs something that the probe lacks */
    buf_release(&a);
    buf_release(&b);
    return shown || unknown;
}

/* Returns whether two renderings differ only in that one prints null and the other true, which
 * shows that the template prints the value without testing it. */
static bool writes_out(const struct buf *null, const struct buf *truth) {
    static const char *const words[][2] = {{"None", "True"}, {"null", "true"}};
    const char *a = null->data, *b = truth->data;
    while (*a && *b) {
        size_t i = 0;
        if (*a == *b) {
            a++, b++;
            continue;
        }
        while (i < COUNT_OF(words) &&
               (strncmp(a, words[i][0], 4) != 0 || strncmp(b, words[i][1], 4) != 0))
            i++;
        if (i == COUNT_OF(words)) return false;
        a += 4, b += 4;
    }
    return *a == *b;
}

static const char with_call[] =
    "{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": %s, "
    "\"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": "
    "\"qx_called\", \"arguments\": {\"a\": \"qx_value\"}}}]}, {\"role\": \"tool\", "
    "\"tool_call_id\": "
    "\"call00001\", \"name\": \"qx_called\", \"content\": \"qx_result\"}";

/* Renders a conversation whose assistant message has a call and `content`, which is JSON. Returns
 * whether that succeeds. */
static bool renders_content(const struct chat *c, const char *content, struct buf *out) {
    struct buf text = {0};
    buf_fmt(&text, with_call, content);
    const bool ok = renders(c, text.data, "qx_called", out);
    buf_release(&text);
    return ok;
}

bool generic_hides_calls(const struct chat *c) {
    struct buf out = {0};
    const bool ok = renders_content(c, "\"\"", &out);
    const bool shown = out.data && strstr(out.data, "qx_value") && strstr(out.data, "qx_result");
    buf_release(&out);
    return !ok || !shown;
}

bool generic_keeps_null(const struct chat *c) {
    struct buf null = {0}, empty = {0}, truth = {0};
    bool keeps = renders_content(c, "null", &null);
    if (keeps && renders_content(c, "\"\"", &empty))
        keeps = null.len != empty.len || memcmp(null.data, empty.data, null.len) != 0;
    if (keeps && renders_content(c, "true", &truth)) keeps = !writes_out(&null, &truth);
    buf_release(&null);
    buf_release(&empty);
    buf_release(&truth);
    return keeps;
}
