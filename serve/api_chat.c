// SPDX-License-Identifier: MIT
/* serve/api_chat.c - reader and writer of POST /v1/chat/completions (OpenAI's chat API). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/custom_tools.h"
#include "serve/reply.h"

/* Bit of ask.api_flags: tools came as `functions`, so calls are returned as `function_call`. */
enum { FUNCTIONS = 1 };

/* ---- reading ---- */

/* Reads `logprobs`: true requests them, with alternatives only if top_logprobs requests some. */
static int read_logprobs(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    if (!json_bool(v, false)) return 0;
    if (a->top < 0) a->top = 0;
    return 0;
}
/* Reads the tool choice: none, auto, required (or "any"), or a tool as {"type": "function",
 * "function": {"name"}}. Also accepts the forms of other APIs and of function_call: the name next
 * to the type, the type "tool", or a name without a type. */
static int read_choice(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const struct json *name = ask_get(v, "name");
    const char *type = json_str(json_get(v, "type")), *s = json_str(v);
    if (type && !name && !ask_get(v, type)) s = type; /* {"type": "auto"} */
    if (s && strcmp(s, "auto") == 0) return 0;
    if (s && strcmp(s, "none") == 0) {
        a->no_calls = true;
        return 0;
    }
    if (s && (strcmp(s, "required") == 0 || strcmp(s, "any") == 0))
        return ask_must_call(a, NULL, path, f);
    if (json_str(v))
        return fault_set(f, 400, NULL, path, "'%.40s' is not one of none, auto, required", s);
    if (type && strcmp(type, "allowed_tools") == 0)
        return ask_read_allowed(a, json_get(v, "allowed_tools"), path, f);
    if (json_type(v) != JSON_OBJ || (type && strcmp(type, "function") != 0 &&
                                     strcmp(type, "custom") != 0 && strcmp(type, "tool") != 0))
        return fault_set(f, 400, NULL, path,
                         "must be a string, or a tool of type 'function' or 'custom'");
    if (!name && type) name = ask_get(json_get(v, type), "name");
    return name ? ask_must_call(a, name, path, f)
                : fault_set(f, 400, NULL, path, "the tool has no name");
}
/* Reads `parallel_tool_calls`: false allows one call only. */
static int read_parallel(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    a->one_call = !json_bool(v, true);
    return 0;
}
/* Reads the text that ends reasoning at its limit, of at most 4096 bytes. */
static int read_last_thought(struct ask *a, const struct json *v, const char *path,
                             struct fault *f) {
    if (!json_str(v) || strlen(json_str(v)) > 4096)
        return fault_set(f, 400, NULL, path, "must be a string of at most 4096 bytes");
    free(a->think_last);
    a->think_last = xstrdup(json_str(v));
    return 0;
}

/* Reads `reasoning_format`: "none" leaves reasoning, with its tags, in the content. */
static int read_reasoning_format(struct ask *a, const struct json *v, const char *path,
                                 struct fault *f) {
    const char *s = json_str(v);
    if (!s) return fault_set(f, 400, NULL, path, "must be a string");
    a->tags = strcmp(s, "none") == 0;
    return 0;
}
/* Rejects requests for output other than text. */
static int check_modalities(struct ask *a, const struct json *v, const char *path,
                            struct fault *f) {
    (void)a;
    if (json_type(v) != JSON_ARR) return fault_set(f, 400, NULL, path, "must be a list");
    for (const struct json *m = json_first(v); m; m = json_next(m))
        if (!json_str(m) || strcmp(json_str(m), "text") != 0)
            return fault_set(f, 400, NULL, path, "only text output is supported");
    return 0;
}
/* Rejects requests for token ids in answers. */
static int refuse_token_ids(struct ask *a, const struct json *v, const char *path,
                            struct fault *f) {
    (void)a;
    if (json_type(v) == JSON_BOOL && !json_bool(v, true)) return 0;
    return fault_set(f, 400, NULL, path, "answers do not include token ids; use /tokenize");
}
/* Reads whether the prompt ends with the head of a new answer; false: the answer continues the last
 * message. */
static int read_generation(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    a->go_on |= !json_bool(v, true);
    return 0;
}
/* Reads whether the answer continues the last message. */
static int read_continue(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    a->go_on |= json_bool(v, false);
    return 0;
}
/* Passes `verbosity` on to the template as a variable. */
static int read_verbosity(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    struct buf text = {0};
    if (!json_str(v)) return fault_set(f, 400, NULL, path, "must be a string");
    json_write(&text, v);
    ask_kwarg(a, "verbosity", text.data);
    buf_release(&text);
    return 0;
}

static const struct field fields[] = {
    {"messages", FIELD_LEFT},
    {"model", FIELD_BY(ask_read_model)},
    {"max_completion_tokens", FIELD_LEFT}, /* read_max_tokens() prefers max_completion_tokens */
    {"max_tokens", FIELD_LEFT},
    {"stop", FIELD_BY(ask_read_stop)},
    {"n", FIELD_BY(ask_read_n)},
    {"stream", FIELD(F_BOOL, stream, 0, 0)},
    {"stream_options", FIELD_BY(ask_read_usage)},
    {"logprobs", FIELD_BY(read_logprobs)},
    {"top_logprobs", FIELD_BY(ask_read_top)},
    {"tools", FIELD_LEFT},
    {"functions", FIELD_LEFT},
    {"tool_choice", FIELD_BY(read_choice)},
    {"function_call", FIELD_BY(read_choice)},
    {"parallel_tool_calls", FIELD_BY(read_parallel)},
    {"response_format", FIELD_BY(ask_read_format)},
    {"reasoning_effort", FIELD_BY(ask_read_effort)},
    {"chat_template_kwargs", FIELD_BY(ask_read_kwargs)},
    {"reasoning_format", FIELD_BY(read_reasoning_format)},
    {"reasoning_budget_tokens", FIELD(F_INT, n_think, -1, INT32_MAX)},
    {"thinking_budget_tokens", FIELD(F_INT, n_think, -1, INT32_MAX)},
    {"reasoning_budget_message", FIELD_BY(read_last_thought)},
    {"continue_final_message", FIELD_BY(read_continue)},
    {"add_generation_prompt", FIELD_BY(read_generation)},
    {"return_progress", FIELD(F_BOOL, progress, 0, 0)},
    {"timings_per_token", FIELD(F_BOOL, timings, 0, 0)},
    {"return_tokens", FIELD_BY(refuse_token_ids)},
    {"id_slot", FIELD_LEFT},
    {"prompt_cache_key", FIELD_LEFT},
    {"prompt_cache_options", FIELD_LEFT},
    {"prompt_cache_retention", FIELD_LEFT},
    {"prediction", FIELD_LEFT},
    {"store", FIELD_LEFT},
    {"metadata", FIELD_LEFT},
    {"user", FIELD_LEFT},
    {"service_tier", FIELD_LEFT},
    {"safety_identifier", FIELD_LEFT},
    {"verbosity", FIELD_BY(read_verbosity)},
    {"modalities", FIELD_BY(check_modalities)},
    {"preset", FIELD_LEFT},
    {"audio", FIELD_REFUSED("only text output is supported")},
    {"web_search_options", FIELD_REFUSED("web search is not supported")},
    {"chat_template", FIELD_REFUSED("chat templates in requests are not supported")},
};

/* Reads the limit on the answer's tokens under its new or old name; -1: no limit. */
static int read_max_tokens(struct ask *a, const struct json *j, struct fault *f) {
    static const char *const names[] = {"max_completion_tokens", "max_tokens"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct json *v = json_get(j, names[i]);
        if (json_type(v) == JSON_NULL) continue;
        if (!json_i64(v, &a->n_max) || a->n_max < -1)
            return fault_set(f, 400, NULL, names[i], "must be an integer >= 0");
        return 0;
    }
    return 0;
}

/* Returns whether s consists of 1 to 128 letters, digits and the characters "_.:-"; s may be
 * NULL. */
static bool name_ok(const char *s) {
    const size_t n = s ? strlen(s) : 0;
    for (size_t i = 0; i < n; i++)
        if (!strchr("_.:-", s[i]) && !(s[i] >= '0' && s[i] <= '9') &&
            !((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z'))
            return false;
    return n >= 1 && n <= 128;
}

/* Returns whether an entry of a list of tools is a custom tool. */
static bool is_custom(const struct json *t) {
    const char *type = json_str(json_get(t, "type"));
    return type && strcmp(type, "custom") == 0;
}

/* Returns the definition in an entry of a list of tools: its member `function` or `custom`, or the
 * entry itself if it has a name next to its type, as in other APIs. NULL: not a tool. */
static const struct json *definition(const struct json *t) {
    const char *type = json_str(json_get(t, "type"));
    const struct json *fn = ask_get(t, "function");
    if (is_custom(t)) return ask_get(t, "custom");
    if (type && strcmp(type, "function") != 0) return NULL;
    return fn ? fn : ask_get(t, "name") ? t : NULL;
}

/* Validates a list of tools, or of bare definitions in the older `functions`, the request's field
 * `name`. Returns 0 or the fault's HTTP status. */
static int tools_ok(const struct json *tools, const char *name, bool functions, struct fault *f) {
    char path[64];
    int i = 0;
    if (json_type(tools) != JSON_ARR)
        return fault_set(f, 400, NULL, name, "must be a list of tools");
    for (const struct json *t = json_first(tools); t; t = json_next(t), i++) {
        const struct json *fn = functions ? t : definition(t);
        snprintf(path, sizeof path, "%s[%d]", name, i);
        if (!fn)
            return fault_set(f, 400, NULL, path,
                             "only tools of type 'function' or 'custom' are supported");
        if (!name_ok(json_str(json_get(fn, "name"))))
            return fault_set(f, 400, NULL, path,
                             "name: must have 1 to 128 letters, digits, '_', '.', ':' or '-'");
        const struct json *p = ask_either(fn, "parameters", "input_schema");
        if (json_type(p) != JSON_NULL && json_type(p) != JSON_OBJ)
            return fault_set(f, 400, NULL, path, "parameters: must be an object");
    }
    return i <= 512 ? 0 : fault_set(f, 400, NULL, name, "at most 512 tools are allowed");
}

/* Writes a tool definition in the format of another API as an OpenAI function. */
static void put_tool(struct jw *w, const struct json *d) {
    jw_obj(w, NULL);
    jw_str(w, "type", "function");
    jw_obj(w, "function");
    ask_copy(w, "name", d, "name");
    ask_copy(w, "description", d, "description");
    ask_copy(w, ask_get(d, "input_schema") ? "input_schema" : "parameters", d, "parameters");
    ask_copy(w, "strict", d, "strict");
    jw_end(w);
    jw_end(w);
}

/* Builds a->tools from a list of tools; custom tools become functions. functions: the list is the
 * older `functions`, whose entries are bare definitions. */
static int put_tools(struct ask *a, const struct json *list, bool functions, struct fault *f) {
    struct buf b = {0};
    struct jw w;
    int i = 0, rc = 0;
    jw_init(&w, &b, false);
    jw_arr(&w, NULL);
    for (const struct json *t = json_first(list); t && !rc; t = json_next(t), i++) {
        char path[64];
        snprintf(path, sizeof path, "tools[%d]", i);
        if (functions) {
            jw_obj(&w, NULL);
            jw_str(&w, "type", "function");
            ask_put(&w, "function", t);
            jw_end(&w);
        } else if (is_custom(t)) {
            rc = custom_tool_define(a, &w, json_get(t, "custom"), path, f);
        } else if (ask_get(t, "function") && ask_get(t, "type")) {
            ask_put(&w, NULL, t);
        } else {
            put_tool(&w, definition(t));
        }
    }
    jw_end(&w);
    free(a->tools);
    a->tools = buf_take(&b);
    return rc;
}

int chat_tools(struct ask *a, const struct json *j, struct fault *f) {
    const struct json *tools = json_get(j, "tools"), *fns = json_get(j, "functions");
    if (json_type(tools) != JSON_NULL) {
        TRY(tools_ok(tools, "tools", false, f));
        return json_first(tools) ? put_tools(a, tools, false, f) : 0;
    }
    if (json_type(fns) == JSON_NULL) return 0;
    TRY(tools_ok(fns, "functions", true, f));
    return json_first(fns) ? put_tools(a, fns, true, f) : 0;
}

/* Reads a chat completion request; returns 0 or the fault's HTTP status. */
static int chat_read(struct ask *a, const struct json *j, struct fault *f) {
    static const struct field *const tables[] = {fields, ask_sampling};
    const int sizes[] = {(int)COUNT_OF(fields), ask_n_sampling};
    a->complete = true;
    TRY(fields_read(a, j, "", tables, sizes, 2, f));
    TRY(read_max_tokens(a, j, f));
    TRY(chat_tools(a, j, f));
    if (a->tools && json_type(json_get(j, "tools")) == JSON_NULL) {
        a->api_flags |= FUNCTIONS;
        a->one_call = true; /* function_call holds a single call */
    }
    return chat_conv(a, json_get(j, "messages"), f);
}

/* Returns the finish_reason of a choice, spelled the older way for requests with `functions`. */
static const char *choice_finish(const struct reply *r, const struct reply_choice *c) {
    const bool older = c->end == END_CALLS && (r->ask->api_flags & FUNCTIONS);
    return older ? "function_call" : reply_finish(c);
}

/* ---- a stream ---- */

/* Begins a chunk of the stream, up to the open list of choices. */
static void open_chunk(struct jw *w, struct buf *b, const struct reply *r) {
    jw_init(w, b, false);
    jw_obj(w, NULL);
    jw_str(w, "id", r->id);
    jw_str(w, "object", "chat.completion.chunk");
    jw_i64(w, "created", r->created);
    jw_str(w, "model", r->model);
    jw_str(w, "system_fingerprint", r->fingerprint);
    jw_arr(w, "choices");
}

/* Writes the log probabilities of the content. If they were requested, an answer without content
 * has an empty list. */
static void put_probs(struct jw *w, struct reply_choice *c, bool asked) {
    struct buf b = {0};
    if (!c->probs.len && !asked) {
        jw_null(w, "logprobs");
        return;
    }
    buf_fmt(&b, "{\"content\": [%s], \"refusal\": null}", c->probs.len ? c->probs.data : "");
    jw_raw(w, "logprobs", b.data);
    buf_reset(&c->probs); /* sent only once */
    buf_release(&b);
}

/* Writes the start of a call, or more of its arguments, as the older `function_call`. */
static void put_function(struct jw *w, const struct reply_choice *c, const struct event *ev) {
    const bool begins = ev->kind == EV_CALL_BEGIN;
    jw_obj(w, "function_call");
    if (begins) jw_str(w, "name", c->call[ev->call].name);
    jw_strn(w, "arguments", begins ? "" : ev->s, begins ? 0 : ev->n);
    jw_end(w);
}

/* Writes the start of a call, or more of its arguments or input text. */
static void put_call(struct jw *w, struct reply *r, const struct event *ev) {
    const struct reply_call *call = &r->choice[ev->choice].call[ev->call];
    const bool custom = custom_tool_is(r->ask, call->name);
    struct buf text = {0};
    jw_arr(w, "tool_calls");
    jw_obj(w, NULL);
    jw_i64(w, "index", ev->call);
    if (ev->kind == EV_CALL_BEGIN) {
        jw_str(w, "id", call->id);
        jw_str(w, "type", custom ? "custom" : "function");
    }
    if (custom)
        reply_input(r, ev, &text);
    else if (ev->kind == EV_CALL_ARGS)
        buf_add(&text, ev->s, ev->n);
    jw_obj(w, custom ? "custom" : "function");
    if (ev->kind == EV_CALL_BEGIN) jw_str(w, "name", call->name);
    jw_strn(w, custom ? "input" : "arguments", text.data ? text.data : "", text.len);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    buf_release(&text);
}

/* Writes the "delta" of an event, and logprobs if requested. */
static void put_delta(struct jw *w, struct reply *r, const struct event *ev) {
    struct reply_choice *c = &r->choice[ev->choice];
    const bool call = ev->kind == EV_CALL_BEGIN || ev->kind == EV_CALL_ARGS;
    jw_obj(w, "delta");
    if (ev->kind == EV_ADMITTED) {
        jw_str(w, "role", "assistant");
        jw_str(w, "content", "");
    }
    if (ev->kind == EV_REASONING) jw_strn(w, "reasoning_content", ev->s, ev->n);
    if (ev->kind == EV_CONTENT) jw_strn(w, "content", ev->s, ev->n);
    if (call && (r->ask->api_flags & FUNCTIONS))
        put_function(w, c, ev);
    else if (call)
        put_call(w, r, ev);
    jw_end(w);
    const bool text = ev->kind == EV_CONTENT || ev->kind == EV_REASONING || call;
    if (r->ask->top >= 0) put_probs(w, c, text);
}

/* Appends a chunk with one choice's event. */
static void put_choice(struct reply *r, const struct event *ev, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    open_chunk(&w, &b, r);
    jw_obj(&w, NULL);
    jw_i64(&w, "index", ev->choice);
    put_delta(&w, r, ev);
    jw_str(&w, "finish_reason",
           ev->kind == EV_ENDED ? choice_finish(r, &r->choice[ev->choice]) : NULL);
    jw_end(&w);
    jw_end(&w);
    if (r->ask->usage) jw_null(&w, "usage");
    if (ev->kind == EV_PROGRESS) reply_progress(r, &w, (int64_t)ev->n);
    if (ev->kind == EV_ENDED || (r->ask->timings && ev->kind != EV_ADMITTED))
        reply_timings(r, &r->choice[ev->choice], &w);
    jw_end(&w);
    reply_sse(out, NULL, &b);
    buf_release(&b);
}

/* Appends the chunks of an event to the stream. */
static void chat_event(struct reply *r, const struct event *ev, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    if (ev->kind == EV_CALL_END) return;
    if (ev->kind == EV_ADMITTED) {
        for (int i = 0; i < r->n_choices; i++)
            put_choice(r, &(struct event){.kind = EV_ADMITTED, .choice = i}, out);
        return;
    }
    if (ev->kind != EV_DONE) {
        put_choice(r, ev, out);
        return;
    }
    if (r->ask->usage) {
        open_chunk(&w, &b, r);
        jw_end(&w);
        reply_usage(r, &w, "usage");
        reply_timings(r, &r->choice[0], &w);
        jw_end(&w);
        reply_sse(out, NULL, &b);
        buf_release(&b);
    }
    buf_str(out, "data: [DONE]\n\n");
}

/* ---- a complete answer ---- */

/* Writes the "tool_calls" list of a choice. */
static void put_calls(struct jw *w, const struct reply *r, const struct reply_choice *c) {
    jw_arr(w, "tool_calls");
    for (int i = 0; i < c->n_calls; i++) {
        jw_obj(w, NULL);
        const bool custom = custom_tool_is(r->ask, c->call[i].name);
        struct buf text = {0};
        if (custom)
            custom_tool_input(&c->call[i].args, &text);
        else if (c->call[i].args.len)
            buf_add(&text, c->call[i].args.data, c->call[i].args.len);
        jw_str(w, "id", c->call[i].id);
        jw_str(w, "type", custom ? "custom" : "function");
        jw_obj(w, custom ? "custom" : "function");
        jw_str(w, "name", c->call[i].name);
        jw_strn(w, custom ? "input" : "arguments", text.data ? text.data : "", text.len);
        buf_release(&text);
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

/* Writes the "message" object of a choice. */
static void put_message(struct jw *w, const struct reply *r, const struct reply_choice *c) {
    jw_obj(w, "message");
    jw_str(w, "role", "assistant");
    if (c->n_calls && !c->content.len)
        jw_null(w, "content");
    else
        jw_strn(w, "content", c->content.data ? c->content.data : "", c->content.len);
    jw_null(w, "refusal");
    if (c->reasoning.len) jw_strn(w, "reasoning_content", c->reasoning.data, c->reasoning.len);
    if (c->n_calls && (r->ask->api_flags & FUNCTIONS)) {
        jw_obj(w, "function_call");
        jw_str(w, "name", c->call[0].name);
        jw_str(w, "arguments", c->call[0].args.data ? c->call[0].args.data : "");
        jw_end(w);
    } else if (c->n_calls) {
        put_calls(w, r, c);
    }
    jw_end(w);
}

/* Appends the whole answer as JSON, for requests without a stream. */
static void chat_whole(struct reply *r, struct buf *out) {
    struct jw w;
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    jw_str(&w, "id", r->id);
    jw_str(&w, "object", "chat.completion");
    jw_i64(&w, "created", r->created);
    jw_str(&w, "model", r->model);
    jw_str(&w, "system_fingerprint", r->fingerprint);
    jw_arr(&w, "choices");
    for (int i = 0; i < r->n_choices; i++) {
        struct reply_choice *c = &r->choice[i];
        jw_obj(&w, NULL);
        jw_i64(&w, "index", i);
        put_message(&w, r, c);
        put_probs(&w, c, r->ask->top >= 0);
        jw_str(&w, "finish_reason", choice_finish(r, c));
        jw_end(&w);
    }
    jw_end(&w);
    reply_usage(r, &w, "usage");
    reply_timings(r, &r->choice[0], &w);
    jw_end(&w);
    buf_str(out, "\n");
}

int openai_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    const char *type = f->status == 401                       ? "authentication_error"
                       : f->status == 403                     ? "permission_error"
                       : f->status == 429                     ? "rate_limit_error"
                       : f->status == 503                     ? "overloaded"
                       : f->status >= 500 && f->status != 501 ? "server_error"
                                                              : "invalid_request_error";
    (void)request_id;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_obj(&w, "error");
    jw_str(&w, "message", f->msg);
    jw_str(&w, "type", type);
    jw_str(&w, "param", *f->param ? f->param : NULL);
    jw_str(&w, "code", f->code);
    if (f->n_ctx) {
        jw_i64(&w, "n_prompt_tokens", f->n_prompt);
        jw_i64(&w, "n_ctx", f->n_ctx);
    }
    jw_end(&w);
    jw_end(&w);
    if (in_stream) {
        reply_sse(out, NULL, &b);
    } else {
        buf_add(out, b.data, b.len);
        buf_str(out, "\n");
    }
    buf_release(&b);
    return f->status;
}

const struct api api_chat = {
    .name = "chat",
    .id = "chatcmpl-",
    .call_id = "call_",
    .stream_type = "text/event-stream",
    .ping = ": ping\n\n",
    .read = chat_read,
    .event = chat_event,
    .whole = chat_whole,
    .fail = openai_fail,
};
