// SPDX-License-Identifier: MIT
/* serve/conv.c - messages of OpenAI's chat to the conversation that templates read (reply.h): one
 * text per message, roles that templates know, reasoning under its name. Tool definitions and
 * calls stay as they came. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "serve/custom.h"
#include "serve/reply.h"

/* Appends the texts of content: a text, or a list of parts. */
static int content_text(const struct json *v, const char *path, struct buf *out, struct fault *f) {
    char at[160];
    int i = 0;
    if (json_str(v)) buf_str(out, json_str(v));
    if (json_str(v) || json_type(v) == JSON_NULL) return 0;
    if (json_type(v) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "a text or a list of parts is needed");
    for (const struct json *p = json_first(v); p; p = json_next(p), i++) {
        const char *type = json_str(json_get(p, "type"));
        const char *text = json_str(json_get(p, "text"));
        if (type && strcmp(type, "refusal") == 0) text = json_str(json_get(p, "refusal"));
        snprintf(at, sizeof at, "%.120s[%d]", path, i);
        if (type && strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0 &&
            strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0)
            return fault_set(f, 400, NULL, at, "parts of type '%.40s' are not read here, only text",
                             type);
        if (!text) return fault_set(f, 400, NULL, at, "a part with a text is needed");
        if (i) buf_str(out, "\n");
        buf_str(out, text);
    }
    return 0;
}

static const char *role_of(const char *role) {
    static const char *const known[][2] = {{"system", "system"}, {"developer", "system"},
                                           {"user", "user"},     {"assistant", "assistant"},
                                           {"tool", "tool"},     {"function", "tool"}};
    for (size_t i = 0; role && i < COUNT_OF(known); i++)
        if (strcmp(role, known[i][0]) == 0) return known[i][1];
    return NULL;
}

static int calls_ok(const struct json *calls, const char *path, struct fault *f) {
    char at[160];
    int i = 0;
    for (const struct json *c = json_first(calls); c; c = json_next(c), i++) {
        const struct json *fn = json_get(c, "function"), *args = json_get(fn, "arguments");
        snprintf(at, sizeof at, "%.100s.tool_calls[%d]", path, i);
        const struct json *custom = json_get(c, "custom");
        if (json_str(json_get(custom, "name")) && json_str(json_get(custom, "input"))) continue;
        if (!json_str(json_get(fn, "name")))
            return fault_set(f, 400, NULL, at, "a function with a name is needed");
        if (!json_str(args) && json_type(args) != JSON_OBJ)
            return fault_set(f, 400, NULL, at, "arguments are needed, JSON text of an object");
    }
    return 0;
}

/* Writes calls as templates know them: the text of a custom tool becomes the argument `input`. */
static void put_calls(struct jw *w, const struct json *calls) {
    jw_arr(w, "tool_calls");
    for (const struct json *c = json_first(calls); c; c = json_next(c)) {
        const struct json *custom = json_get(c, "custom");
        struct buf args = {0};
        if (!custom) {
            ask_put(w, NULL, c);
            continue;
        }
        custom_arguments(json_str(json_get(custom, "input")), &args);
        jw_obj(w, NULL);
        ask_copy(w, "id", c, "id");
        jw_str(w, "type", "function");
        jw_obj(w, "function");
        jw_copy(w, "name", json_get(custom, "name"));
        jw_str(w, "arguments", args.data);
        jw_end(w);
        jw_end(w);
        buf_release(&args);
    }
    jw_end(w);
}

static int one_message(struct jw *w, const struct json *m, int i, struct fault *f) {
    static const char *const thoughts[] = {"reasoning_content", "reasoning", "thinking"};
    struct buf text = {0};
    char path[64];
    snprintf(path, sizeof path, "messages[%d]", i);
    if (json_type(m) != JSON_OBJ) return fault_set(f, 400, NULL, path, "an object is needed");
    const char *role = role_of(json_str(json_get(m, "role")));
    if (!role) {
        snprintf(path, sizeof path, "messages[%d].role", i);
        return fault_set(f, 400, NULL, path,
                         "one of system, developer, user, assistant, tool, function is needed");
    }
    const struct json *calls = json_get(m, "tool_calls");
    if (calls && json_type(calls) != JSON_NULL && json_type(calls) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "tool_calls: a list is needed");
    TRY(calls_ok(calls, path, f));
    snprintf(path, sizeof path, "messages[%d].content", i);
    const int rc = content_text(json_get(m, "content"), path, &text, f);
    if (rc) {
        buf_release(&text);
        return rc;
    }
    jw_obj(w, NULL);
    jw_str(w, "role", role);
    jw_str(w, "content", text.data ? text.data : "");
    for (size_t k = 0; k < COUNT_OF(thoughts); k++) {
        const char *t = json_str(json_get(m, thoughts[k]));
        if (!t || !*t) continue;
        jw_str(w, "reasoning_content", t);
        break;
    }
    if (json_len(calls) > 0) put_calls(w, calls);
    ask_copy(w, "tool_call_id", m, "tool_call_id");
    ask_copy(w, "name", m, "name");
    jw_end(w);
    buf_release(&text);
    return 0;
}

int chat_conv(struct ask *a, const struct json *messages, struct fault *f) {
    struct buf out = {0};
    struct jw w;
    int i = 0, rc = 0;
    if (json_type(messages) != JSON_ARR || !json_first(messages))
        return fault_set(f, 400, NULL, "messages", "a list of messages is needed");
    jw_init(&w, &out, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    for (const struct json *m = json_first(messages); m && !rc; m = json_next(m), i++)
        rc = one_message(&w, m, i, f);
    jw_end(&w);
    if (a->tools) jw_raw(&w, "tools", a->tools);
    jw_end(&w);
    if (!rc) {
        free(a->conv);
        a->conv = buf_take(&out);
    }
    buf_release(&out);
    return rc;
}
