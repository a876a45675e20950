// SPDX-License-Identifier: MIT
/* serve/api_responses.c - reader of POST /v1/responses. Answers are written by api_responses_out.c.
 *
 * The items of an assistant turn (reasoning, text, calls) become one message. Its tool results
 * follow in the order of the calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/images.h"
#include "serve/custom_tools.h"
#include "serve/images.h"
#include "serve/places.h"
#include "serve/responses.h"
#include "text/base64.h"
#include "text/utf8.h"

/* Appends the text of a string or a list of parts. In tool results, a note replaces images that the
 * model cannot see, with a warning. */
static int texts(struct ask *a, const struct json *v, const char *path, bool in_result,
                 struct buf *out, struct fault *f) {
    int i = 0;
    if (json_str(v)) buf_str(out, json_str(v));
    if (json_str(v) || json_type(v) == JSON_NULL) return 0;
    const bool one = in_result && chat_image_is(v); /* computer_screenshot */
    if (json_type(v) != JSON_ARR && !one)
        return fault_set(f, 400, NULL, path, "must be a string or a list of parts");
    for (const struct json *p = one ? v : json_first(v); p; p = one ? NULL : json_next(p), i++) {
        const char *type = json_str(json_get(p, "type")), *s = json_str(json_get(p, "text"));
        char at[200];
        snprintf(at, sizeof at, "%.150s[%d]", path, i);
        if (!s) s = json_str(json_get(p, "refusal"));
        if (chat_image_is(p) && (a->sees || !in_result)) {
            TRY(images_read(a, p, at, out, f));
            continue;
        }
        if (!s && in_result && type) {
            buf_fmt(out, "%s[%.40s omitted]", out->len ? "\n" : "", type);
            ask_warn(a, type);
            continue;
        }
        if (!s)
            return fault_set(f, 400, NULL, at, "parts of type '%.40s' are not supported, only %s",
                             type ? type : "", images_kinds(a));
        if (out->len && !images_at_end(out)) buf_str(out, "\n");
        buf_str(out, s);
    }
    return 0;
}

/* The conversation being built. The items of an assistant turn are collected until another message
 * begins. */
struct talk_in {
    struct ask *a;
    struct jw *w;
    struct fault *f;
    struct buf content, thought, calls; /* the current turn */
    bool open;
    struct call_in {
        const char *id;
        char *name;
        int at; /* index of the item */
    } * call;   /* calls of the current turn */
    int64_t n_calls;
    struct places calls_at, results_at;
};

static void put_message(struct jw *w, const char *role, const struct buf *text) {
    jw_obj(w, NULL);
    jw_str(w, "role", role);
    jw_strn(w, "content", text->data ? text->data : "", text->len);
    jw_end(w);
}

/* Writes the results of a turn's calls in the order of the calls, as templates expect. The results
 * may come anywhere after the calls. */
static int put_results(struct talk_in *t) {
    int rc = 0;
    for (int64_t i = 0; i < t->n_calls; i++) {
        const struct call_in *c = &t->call[i];
        const struct placement *p = rc ? NULL : places_find(&t->results_at, c->id, c->at + 1);
        const struct placement *more = p ? places_find(&t->results_at, c->id, p->at + 1) : NULL,
                               *call = more ? places_find(&t->calls_at, c->id, c->at + 1) : NULL;
        char path[64];
        struct buf text = {0};
        snprintf(path, sizeof path, "input[%d]", more ? more->at : 0);
        if (more && (!call || call->at > more->at)) /* otherwise it is that call's result */
            rc = fault_set(t->f, 400, NULL, path, "a second result for the call_id '%.60s'", c->id);
        snprintf(path, sizeof path, "input[%d].output", p ? p->at : 0);
        if (p && !rc) rc = texts(t->a, json_get(p->item, "output"), path, true, &text, t->f);
        if (p && !rc) {
            jw_obj(t->w, NULL);
            jw_str(t->w, "role", "tool");
            jw_str(t->w, "tool_call_id", c->id);
            jw_str(t->w, "name", c->name);
            jw_strn(t->w, "content", text.data ? text.data : "", text.len);
            jw_end(t->w);
        }
        buf_release(&text);
        free(c->name);
    }
    t->n_calls = 0;
    return rc;
}

/* Writes the collected assistant turn and the results of its calls. */
static int end_turn(struct talk_in *t) {
    if (!t->open) return 0;
    jw_obj(t->w, NULL);
    jw_str(t->w, "role", "assistant");
    if (t->calls.len && !t->content.len)
        jw_null(t->w, "content");
    else
        jw_strn(t->w, "content", t->content.data ? t->content.data : "", t->content.len);
    if (t->thought.len) jw_strn(t->w, "reasoning_content", t->thought.data, t->thought.len);
    if (t->calls.len) {
        buf_str(&t->calls, "]");
        jw_raw(t->w, "tool_calls", t->calls.data);
    }
    jw_end(t->w);
    buf_reset(&t->content);
    buf_reset(&t->thought);
    buf_reset(&t->calls);
    t->open = false;
    return put_results(t);
}

/* Writes an item of type "message"; returns 0 or the fault's HTTP status. */
static int write_message_item(struct talk_in *t, const struct json *m, int at, const char *path) {
    const char *role = json_str(json_get(m, "role"));
    char content[64];
    snprintf(content, sizeof content, "input[%d].content", at);
    if (!role) return fault_set(t->f, 400, NULL, path, "a role is required");
    if (strcmp(role, "assistant") == 0) {
        if (t->calls.len) TRY(end_turn(t));
        t->open = true;
        return texts(t->a, json_get(m, "content"), content, false, &t->content, t->f);
    }
    const bool system = strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
    struct buf text = {0};
    if (!system && strcmp(role, "user") != 0)
        return fault_set(t->f, 400, NULL, path,
                         "role: must be user, assistant, system or developer");
    TRY(end_turn(t));
    const int rc = texts(t->a, json_get(m, "content"), content, false, &text, t->f);
    if (!rc) put_message(t->w, system ? "system" : "user", &text);
    buf_release(&text);
    return rc;
}

/* Writes the arguments of a computer_call: its action, or its list of actions. Returns false for
 * other calls. */
static bool computer_arguments(const struct json *m, struct buf *out) {
    const struct json *one = json_get(m, "action"), *many = json_get(m, "actions");
    if (json_type(one) == JSON_OBJ)
        json_write(out, one);
    else if (json_type(many) == JSON_ARR) {
        buf_str(out, "{\"actions\": ");
        json_write(out, many);
        buf_chr(out, '}');
    }
    return out->len > 0;
}

/* Collects a call; all calls of one answer become one message. */
static int write_call_item(struct talk_in *t, const struct json *m, int at, const char *path) {
    const char *id = json_str(json_get(m, "call_id")), *name = json_str(json_get(m, "name")),
               *args = json_str(json_get(m, "arguments")), *input = json_str(json_get(m, "input")),
               *space = json_str(json_get(m, "namespace"));
    struct jw w;
    struct buf b = {0}, text = {0}, full = {0};
    if (ask_get(m, "namespace") && !space)
        return fault_set(t->f, 400, NULL, path, "namespace: must be a string");
    if (computer_arguments(m, &text)) {
        name = "computer";
        args = text.data;
    }
    if (!id || !name || (!args && !input))
        return fault_set(t->f, 400, NULL, path,
                         "call_id, name and arguments are required (custom calls: input)");
    if (!args) custom_tool_arguments(input, &text);
    if (!args) args = text.data;
    if (!*args) args = "{}";
    if (space && *space) buf_fmt(&full, "%s.%s", space, name);
    if (full.len) name = full.data;
    t->open = true;
    t->call = xreallocarray(t->call, (size_t)t->n_calls + 1, sizeof *t->call);
    t->call[t->n_calls++] = (struct call_in){id, xstrdup(name), at};
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "id", id);
    jw_str(&w, "type", "function");
    jw_obj(&w, "function");
    jw_str(&w, "name", name);
    jw_str(&w, "arguments", args);
    jw_end(&w);
    jw_end(&w);
    buf_fmt(&t->calls, "%s%s", t->calls.len ? ", " : "[", b.data);
    buf_release(&b);
    buf_release(&text);
    buf_release(&full);
    return 0;
}

/* Handles a tool result: ends the turn, which writes its results, and checks that this one belongs
 * to a call. */
static int item_output(struct talk_in *t, const struct json *m, int at, const char *path) {
    const char *id = json_str(json_get(m, "call_id"));
    const struct placement *call = places_find(&t->calls_at, id, 0);
    if (!call || call->at > at)
        return fault_set(t->f, 400, NULL, path, "no call before it has the call_id '%.60s'",
                         id ? id : "");
    return end_turn(t);
}

/* Reads reasoning that a client sends back: plain parts, or encrypted_content that this server
 * wrote. */
static int item_reasoning(struct talk_in *t, const struct json *m, int at, const char *path) {
    static const char own[] = "hone1:";
    const char *wrapped = json_str(json_get(m, "encrypted_content"));
    const struct json *parts = json_get(m, "content");
    (void)at;
    if (t->calls.len || t->content.len) TRY(end_turn(t));
    t->open = true;
    if (json_type(parts) != JSON_NULL && !ask_is_empty(parts))
        return texts(t->a, parts, path, false, &t->thought, t->f);
    if (wrapped && strncmp(wrapped, own, sizeof own - 1) == 0) {
        const char *s = wrapped + sizeof own - 1;
        char *text = xmalloc(strlen(s) + 1);
        const int64_t n = base64_decode(s, text, strlen(s) + 1);
        const bool ours =
            n > 0 && !memchr(text, 0, (size_t)n) && utf8_valid_prefix(text, (size_t)n) == (size_t)n;
        if (ours) buf_add(&t->thought, text, (size_t)n); /* other content is not from this server */
        free(text);
    }
    return 0;
}

static const struct item_kind {
    const char *type;
    int (*read)(struct talk_in *t, const struct json *m, int at, const char *path);
} item_kinds[] = {{"message", write_message_item},          {"function_call", write_call_item},
                  {"custom_tool_call", write_call_item},    {"function_call_output", item_output},
                  {"custom_tool_call_output", item_output}, {"reasoning", item_reasoning},
                  {"computer_call", write_call_item},       {"computer_call_output", item_output}};

/* Returns the row of an item's type ("message" if missing); NULL: unknown. */
static const struct item_kind *kind_of(const struct json *m) {
    const char *type = json_str(json_get(m, "type"));
    for (size_t k = 0; k < COUNT_OF(item_kinds); k++)
        if (strcmp(type ? type : "message", item_kinds[k].type) == 0) return &item_kinds[k];
    return NULL;
}

/* Writes item i of the input; ignores unknown types with a warning. */
static int write_item(struct talk_in *t, const struct json *m, int i) {
    const struct item_kind *k = kind_of(m);
    char path[64];
    snprintf(path, sizeof path, "input[%d]", i);
    if (json_type(m) != JSON_OBJ) return fault_set(t->f, 400, NULL, path, "must be an object");
    if (k) return k->read(t, m, i, path);
    const char *type = json_str(json_get(m, "type"));
    if (strcmp(type, "item_reference") == 0)
        return fault_set(t->f, 400, NULL, path, "items are not stored; send the item itself");
    ask_warn(t->a, type);
    return 0;
}

/* Builds the indices of calls and results. */
static void find_places(struct talk_in *t, const struct json *items) {
    int at = 0;
    for (const struct json *m = json_first(items); m; m = json_next(m), at++) {
        const struct item_kind *k = kind_of(m);
        const char *id = json_str(json_get(m, "call_id"));
        if (k && k->read == write_call_item) places_add(&t->calls_at, id, m, at);
        if (k && k->read == item_output) places_add(&t->results_at, id, m, at);
    }
}

/* Writes instructions and input as a conversation in OpenAI's format. */
static int write_conv(struct ask *a, const struct json *j, struct buf *out, struct fault *f) {
    const struct json *input = json_get(j, "input");
    const char *instructions = json_str(json_get(j, "instructions"));
    struct jw w;
    struct talk_in t = {.a = a, .w = &w, .f = f};
    int rc = 0, i = 0;
    if (ask_get(j, "instructions") && !instructions)
        return fault_set(f, 400, NULL, "instructions", "must be a string");
    if (!json_str(input) && json_type(input) != JSON_ARR)
        return fault_set(f, 400, NULL, "input", "must be a string or a list of items");
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    if (instructions && *instructions) {
        const struct buf text = {(char *)(uintptr_t)instructions, strlen(instructions), 0};
        put_message(&w, "system", &text);
    }
    if (json_str(input)) {
        const struct buf text = {(char *)(uintptr_t)json_str(input), strlen(json_str(input)), 0};
        put_message(&w, "user", &text);
    }
    find_places(&t, input);
    for (const struct json *m = json_type(input) == JSON_ARR ? json_first(input) : NULL; m && !rc;
         m = json_next(m), i++)
        rc = write_item(&t, m, i);
    if (!rc) rc = end_turn(&t);
    jw_end(&w);
    if (a->tools) jw_raw(&w, "tools", a->tools);
    jw_end(&w);
    buf_release(&t.content);
    buf_release(&t.thought);
    buf_release(&t.calls);
    for (int64_t k = 0; k < t.n_calls; k++)
        free(t.call[k].name); /* not freed because of an error */
    free(t.call);
    places_release(&t.calls_at);
    places_release(&t.results_at);
    return rc;
}

/* Writes a flat function definition in OpenAI's chat shape. space: its namespace, or NULL. */
static int put_function(struct jw *w, const struct json *t, const char *space, const char *path,
                        struct fault *f) {
    if (ask_get(t, "function")) t = json_get(t, "function"); /* as in the chat API */
    const char *name = json_str(json_get(t, "name"));
    const struct json *parameters = ask_get(t, "parameters");
    struct buf full = {0};
    if (!name || !*name) return fault_set(f, 400, NULL, path, "a name is required");
    if (parameters && json_type(parameters) != JSON_OBJ)
        return fault_set(f, 400, NULL, path, "parameters: must be an object");
    if (space) buf_fmt(&full, "%s.", space);
    buf_str(&full, name);
    jw_obj(w, NULL);
    jw_str(w, "type", "function");
    jw_obj(w, "function");
    jw_str(w, "name", full.data);
    ask_copy(w, "description", t, "description");
    ask_copy(w, "parameters", t, "parameters");
    if (json_bool(json_get(t, "strict"), false)) jw_bool(w, "strict", true);
    jw_end(w);
    jw_end(w);
    buf_release(&full);
    return 0;
}

/* Writes tool definitions. Kinds that the server itself would have to run are dropped, because
 * rejecting them would break clients that always send them. */
static int put_list(struct ask *a, struct jw *w, const struct json *tools, const char *space,
                    int *n, struct fault *f) {
    int i = 0, rc = 0;
    for (const struct json *t = json_first(tools); t && !rc; t = json_next(t), i++) {
        const char *type = json_str(json_get(t, "type")), *name = json_str(json_get(t, "name"));
        char path[64];
        snprintf(path, sizeof path, "tools[%d]", i);
        if (type && strcmp(type, "function") == 0) {
            rc = put_function(w, t, space, path, f);
        } else if (type && strcmp(type, "custom") == 0 && !space) {
            rc = custom_tool_define(a, w, t, path, f);
        } else if (type && strcmp(type, "namespace") == 0 && name && !space) {
            const struct json *list = ask_get(t, "tools");
            if (list && json_type(list) != JSON_ARR)
                return fault_set(f, 400, NULL, path, "tools: must be a list of tools");
            buf_fmt(&a->spaces, "%s\n", name);
            rc = put_list(a, w, list, name, n, f);
            continue;
        } else {
            ask_warn(a, type ? type : path);
            continue;
        }
        ++*n;
    }
    return rc;
}

/* Converts `tools` to OpenAI's format in a->tools, which stays unchanged if `tools` is missing or
 * empty. */
static int put_tools(struct ask *a, const struct json *j, struct fault *f) {
    const struct json *tools = json_get(j, "tools");
    struct buf b = {0};
    struct jw w;
    int n = 0;
    if (json_type(tools) == JSON_NULL) return 0;
    if (json_type(tools) != JSON_ARR)
        return fault_set(f, 400, NULL, "tools", "must be a list of tools");
    jw_init(&w, &b, false);
    jw_arr(&w, NULL);
    const int rc = put_list(a, &w, tools, NULL, &n, f);
    jw_end(&w);
    if (n && !rc) a->tools = buf_take(&b);
    buf_release(&b);
    return rc;
}

/* ---- fields ---- */

/* Reads the reasoning effort, and whether a summary is requested. */
static int read_reasoning(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const struct json *effort = ask_get(v, "effort"), *summary = json_get(v, "summary");
    if (json_type(v) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    if (json_str(summary)) a->api_flags |= RESPONSES_SUMMARY;
    return effort ? ask_read_effort(a, effort, "reasoning.effort", f) : 0;
}
/* Reads the format of the answer and its verbosity. */
static int read_text(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const struct json *format = json_get(v, "format"), *verbosity = ask_get(v, "verbosity");
    struct buf word = {0};
    if (json_type(v) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    if (verbosity && !json_str(verbosity))
        return fault_set(f, 400, NULL, "text.verbosity", "must be a string");
    if (verbosity) {
        json_write(&word, verbosity);
        ask_kwarg(a, "verbosity", word.data);
        buf_release(&word);
    }
    return json_type(format) == JSON_NULL ? 0 : ask_read_format(a, format, "text.format", f);
}
/* Reads whether tools must be called, and which. */
static int read_tool_choice(struct ask *a, const struct json *v, const char *path,
                            struct fault *f) {
    const char *s = json_str(v);
    if (s && strcmp(s, "none") == 0) a->no_calls = true;
    if (s && (strcmp(s, "none") == 0 || strcmp(s, "auto") == 0)) return 0;
    if (s && strcmp(s, "required") == 0) return ask_must_call(a, NULL, path, f);
    const char *type = json_str(json_get(v, "type"));
    const struct json *name = ask_get(v, "name");
    if (!name) name = ask_get(json_get(v, "function"), "name"); /* as in the chat API */
    if (type && strcmp(type, "allowed_tools") == 0) return ask_read_allowed(a, v, path, f);
    if (type && name && (strcmp(type, "function") == 0 || strcmp(type, "custom") == 0))
        return ask_must_call(a, name, path, f);
    return fault_set(f, 400, NULL, path,
                     "must be none, auto, required, or an object with a tool's type and name");
}
/* Reads `parallel_tool_calls`: false allows one call only. */
static int read_parallel(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    a->one_call = !json_bool(v, true);
    return 0;
}
/* Returns 400 unless the value is "disabled". */
static int check_truncation(struct ask *a, const struct json *v, const char *path,
                            struct fault *f) {
    (void)a;
    if (json_str(v) && strcmp(json_str(v), "disabled") == 0) return 0;
    return fault_set(f, 400, NULL, path, "only 'disabled' is supported");
}
/* Returns 400 if a background response is requested. */
static int refuse_background(struct ask *a, const struct json *v, const char *path,
                             struct fault *f) {
    (void)a;
    return json_bool(v, false)
               ? fault_set(f, 400, NULL, path, "background responses are not supported")
               : 0;
}
/* Returns 400 if the request refers to an earlier response, since responses are not stored. */
static int refuse_previous(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    (void)a;
    if (ask_is_empty(v)) return 0;
    return fault_set(f, 400, "previous_response_not_found", path,
                     "responses are not stored; send the items");
}
/* Reads which additional data to include: encrypted reasoning, logprobs. Ignores other words. */
static int read_include(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_ARR) return fault_set(f, 400, NULL, path, "must be a list");
    for (const struct json *s = json_first(v); s; s = json_next(s)) {
        const char *what = json_str(s);
        if (!what) return fault_set(f, 400, NULL, path, "must be a list of strings");
        if (strcmp(what, "reasoning.encrypted_content") == 0) a->api_flags |= RESPONSES_ENCRYPTED;
        if (strcmp(what, "message.output_text.logprobs") == 0 && a->top < 0) a->top = 0;
    }
    return 0;
}
static const struct field fields[] = {
    {"model", FIELD_BY(ask_read_model)},
    {"input", FIELD_LEFT},
    {"instructions", FIELD_LEFT},
    {"tools", FIELD_LEFT},
    {"tool_choice", FIELD_BY(read_tool_choice)},
    {"parallel_tool_calls", FIELD_BY(read_parallel)},
    {"reasoning", FIELD_BY(read_reasoning)},
    {"text", FIELD_BY(read_text)},
    {"max_output_tokens", FIELD(F_INT, n_max, 0, INT32_MAX)},
    {"temperature", FIELD(F_REAL, sample.temp, 0, 100)},
    {"top_p", FIELD(F_REAL, sample.top_p, 0, 1)},
    {"top_k", FIELD(F_COUNT, sample.top_k, -1, INT32_MAX)},
    {"min_p", FIELD(F_REAL, sample.min_p, 0, 1)},
    {"seed", FIELD_BY(ask_read_seed)},
    {"stream", FIELD(F_BOOL, stream, 0, 0)},
    {"include", FIELD_BY(read_include)},
    {"return_progress", FIELD(F_BOOL, progress, 0, 0)},
    {"timings_per_token", FIELD(F_BOOL, timings, 0, 0)},
    {"truncation", FIELD_BY(check_truncation)},
    {"background", FIELD_BY(refuse_background)},
    {"chat_template_kwargs", FIELD_BY(ask_read_kwargs)},
    {"top_logprobs", FIELD_BY(ask_read_top)},
    {"previous_response_id", FIELD_BY(refuse_previous)},
    {"conversation", FIELD_REFUSED("conversations are not stored; send the items")},
    {"prompt", FIELD_REFUSED("stored prompts are not supported")},
    {"store", FIELD_LEFT},
    {"metadata", FIELD_LEFT},
    {"user", FIELD_LEFT},
    {"service_tier", FIELD_LEFT},
    {"safety_identifier", FIELD_LEFT},
    {"prompt_cache_key", FIELD_LEFT},
    {"prompt_cache_retention", FIELD_LEFT},
    {"stream_options", FIELD_LEFT},
    {"client_metadata", FIELD_LEFT},
    {"max_tool_calls", FIELD_LEFT},
    {"preset", FIELD_LEFT},
};

/* Records the request members that the answer repeats. */
static void keep_echo(struct ask *a, const struct json *j) {
    static const char *const names[] = {"instructions", "metadata", "max_output_tokens",
                                        "tool_choice",  "tools",    "parallel_tool_calls",
                                        "reasoning",    "text",     "temperature",
                                        "top_p"};
    static const char *const otherwise[] = {"null",
                                            "{}",
                                            "null",
                                            "\"auto\"",
                                            "[]",
                                            "true",
                                            "{\"effort\":null,\"summary\":null}",
                                            "{\"format\":{\"type\":\"text\"}}",
                                            NULL,
                                            NULL};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct json *v = json_get(j, names[i]);
        buf_fmt(&a->repeat, "%s\"%s\":", i ? "," : "", names[i]);
        if (json_type(v) != JSON_NULL)
            json_write(&a->repeat, v);
        else if (otherwise[i])
            buf_str(&a->repeat, otherwise[i]);
        else
            buf_fmt(&a->repeat, "%.9g", (double)(i == 8 ? a->sample.temp : a->sample.top_p));
    }
}

/* Reads a request to /v1/responses; returns 0 or the fault's HTTP status. */
static int responses_read(struct ask *a, const struct json *j, struct fault *f) {
    static const struct field *const tables[] = {fields};
    const int sizes[] = {(int)COUNT_OF(fields)};
    struct buf out = {0};
    a->complete = true;
    TRY(fields_read(a, j, "", tables, sizes, 1, f));
    TRY(put_tools(a, j, f));
    const int rc = write_conv(a, j, &out, f);
    if (!rc) a->conv = buf_take(&out);
    buf_release(&out);
    keep_echo(a, j);
    return rc;
}

const struct api api_responses = {
    .name = "responses",
    .id = "resp_",
    .call_id = "call_",
    .stream_type = "text/event-stream",
    .ping = ": ping\n\n",
    .read = responses_read,
    .event = responses_event,
    .whole = responses_whole,
    .fail = responses_fail,
};
