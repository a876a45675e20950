// SPDX-License-Identifier: MIT
/* serve/api_ollama.c - reader and writer of Ollama's POST /api/chat and /api/generate. A stream is
 * JSON lines; each call is a single line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "serve/images.h"
#include "serve/reply.h"

/* ---- reading ---- */

/* Reads keep_alive, a number of seconds or a text such as "5m". Only 0 has an effect: the model is
 * unloaded. */
static int read_alive(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const char *s = json_str(v);
    (void)path, (void)f;
    if (s)
        a->unload = *s == '0' && !strpbrk(s, "123456789");
    else if (json_type(v) == JSON_NUM)
        a->unload = !(json_num(v, 1) > 0) && !(json_num(v, 1) < 0);
    return 0;
}

/* Reads `think`: true, false, or an effort such as "low". */
static int read_think(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) == JSON_BOOL) {
        ask_switch(a, json_bool(v, true));
        return 0;
    }
    return ask_read_effort(a, v, path, f);
}
/* Reads `format`: "json" or a schema; "" is ignored. */
static int read_format(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const char *s = json_str(v);
    if (s && !*s) return 0;
    if (s && strcmp(s, "json") != 0)
        return fault_set(f, 400, NULL, path, "must be \"json\" or a schema");
    return ask_form(a, s ? FORM_OBJECT : FORM_SCHEMA, v, path, f);
}
/* Returns 400 unless the value is empty. */
static int refuse_template(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    (void)a;
    return ask_is_empty(v)
               ? 0
               : fault_set(f, 400, NULL, path, "chat templates in requests are not supported");
}
/* Returns 400 unless the value is empty. */
static int refuse_context(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    (void)a;
    return ask_is_empty(v)
               ? 0
               : fault_set(f, 400, NULL, path, "conversations are sent as messages, to /api/chat");
}
/* Returns 400 unless the value is empty. */
static int refuse_suffix(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    (void)a;
    return ask_is_empty(v)
               ? 0
               : fault_set(f, 400, NULL, path, "suffix (fill-in-the-middle) is not supported");
}
static int read_logprobs(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (json_type(v) != JSON_BOOL) return fault_set(f, 400, NULL, path, "must be true or false");
    if (json_bool(v, false) && a->top < 0) a->top = 0;
    return 0;
}
/* Returns 400 unless the value is empty. */
static int refuse_images(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    (void)a;
    return ask_is_empty(v) ? 0 : fault_set(f, 400, NULL, path, "images belong to a message");
}

static const struct field options[] = {
    {"temperature", FIELD(F_REAL, sample.temp, 0, 100)},
    {"top_k", FIELD(F_COUNT, sample.top_k, -1, INT32_MAX)},
    {"top_p", FIELD(F_REAL, sample.top_p, 0, 1)},
    {"min_p", FIELD(F_REAL, sample.min_p, 0, 1)},
    {"num_predict", FIELD(F_INT, n_max, -2, INT32_MAX)},
    {"seed", FIELD_BY(ask_read_seed)},
    {"stop", FIELD_BY(ask_read_stop)},
    {"repeat_penalty", FIELD(F_REAL, sample.repeat_penalty, 0.01, 100)},
    {"repeat_last_n", FIELD_BY(ask_read_last_n)},
    {"presence_penalty", FIELD(F_REAL, sample.presence_penalty, -2, 2)},
    {"frequency_penalty", FIELD(F_REAL, sample.frequency_penalty, -2, 2)},
    {"typical_p", FIELD_NEUTRAL(1)},
    {"mirostat", FIELD_NEUTRAL(0)},
    {"num_ctx", FIELD_LEFT}, /* ignored: the server's --ctx applies */
    {"num_keep", FIELD_LEFT},
    {"num_batch", FIELD_LEFT},
    {"num_gpu", FIELD_LEFT},
    {"num_thread", FIELD_LEFT},
    {"main_gpu", FIELD_LEFT},
    {"use_mmap", FIELD_LEFT},
    {"numa", FIELD_LEFT},
};
/* Reads the members of `options`; rejects unknown ones. */
static int read_options(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    static const struct field *const tables[] = {options};
    const int sizes[] = {(int)COUNT_OF(options)};
    if (json_type(v) != JSON_OBJ) return fault_set(f, 400, NULL, path, "must be an object");
    return fields_read(a, v, "options.", tables, sizes, 1, f);
}
#define BOTH                                                                                       \
    {"model", FIELD_BY(ask_read_model)}, {"stream", FIELD(F_BOOL, stream, 0, 0)},                  \
        {"options", FIELD_BY(read_options)}, {"think", FIELD_BY(read_think)},                      \
        {"format", FIELD_BY(read_format)}, {"keep_alive", FIELD_BY(read_alive)},                   \
        {"logprobs", FIELD_BY(read_logprobs)}, {"top_logprobs", FIELD_BY(ask_read_top)}, {         \
        "template", FIELD_BY(refuse_template)                                                      \
    }
static const struct field chat_fields[] = {
    BOTH,
    {"images", FIELD_BY(refuse_images)},
    {"messages", FIELD_LEFT},
    {"tools", FIELD_LEFT},
};
static const struct field text_fields[] = {
    BOTH,
    {"images", FIELD_LEFT},
    {"prompt", FIELD_LEFT},
    {"system", FIELD_LEFT},
    {"raw", FIELD_LEFT},
    {"context", FIELD_BY(refuse_context)},
    {"suffix", FIELD_BY(refuse_suffix)},
};

/* Writes Ollama's calls in OpenAI's format. */
static void put_calls(struct jw *w, const struct json *calls) {
    jw_arr(w, "tool_calls");
    for (const struct json *c = json_first(calls); c; c = json_next(c)) {
        jw_obj(w, NULL);
        ask_copy(w, "id", c, "id");
        jw_str(w, "type", "function");
        jw_obj(w, "function");
        ask_copy(w, "name", json_get(c, "function"), "name");
        ask_copy(w, "arguments", json_get(c, "function"), "arguments");
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

/* Appends the marks of a list of images, texts in base64. */
static int read_images(struct ask *a, const struct json *list, const char *path, struct buf *out,
                       struct fault *f) {
    if (json_type(list) != JSON_NULL && json_type(list) != JSON_ARR)
        return fault_set(f, 400, NULL, path, "must be an array");
    char at[120];
    int k = 0;
    for (const struct json *i = json_first(list); i; i = json_next(i)) {
        snprintf(at, sizeof at, "%.100s[%d]", path, k++);
        TRY(images_read(a, i, at, out, f));
    }
    return 0;
}

/* Writes the content of message number i, which begins with its images. */
static int put_content(struct ask *a, struct jw *w, const struct json *m, int i, struct fault *f) {
    struct buf text = {0};
    char path[64];
    snprintf(path, sizeof path, "messages[%d].images", i);
    const char *content = json_str(json_get(m, "content"));
    const bool wrong = !content && ask_get(m, "content") != NULL;
    int rc = 0;
    const struct json *images = json_get(m, "images");
    if (json_type(images) == JSON_NULL || (json_type(images) == JSON_ARR && !json_first(images))) {
        ask_copy(w, "content", m, "content");
        return 0;
    }
    rc = read_images(a, images, path, &text, f);
    snprintf(path, sizeof path, "messages[%d].content", i);
    if (!rc && wrong) rc = fault_set(f, 400, NULL, path, "must be a string");
    if (content) buf_str(&text, content);
    jw_strn(w, "content", text.data ? text.data : "", text.len);
    buf_release(&text);
    return rc;
}

/* Writes Ollama's messages in OpenAI's format. */
static int put_messages(struct ask *a, struct jw *w, const struct json *messages, struct fault *f) {
    static const char *const names[][2] = {{"role", "role"},
                                           {"thinking", "reasoning_content"},
                                           {"tool_name", "name"},
                                           {"tool_call_id", "tool_call_id"}};
    int rc = 0, at = 0;
    jw_arr(w, NULL);
    for (const struct json *m = json_first(messages); m; m = json_next(m), at++) {
        const struct json *calls = json_get(m, "tool_calls");
        char path[64];
        snprintf(path, sizeof path, "messages[%d].tool_calls", at);
        jw_obj(w, NULL);
        if (!rc) rc = put_content(a, w, m, at, f);
        if (!rc && json_type(calls) != JSON_NULL && json_type(calls) != JSON_ARR)
            rc = fault_set(f, 400, NULL, path, "must be a list");
        for (size_t i = 0; i < COUNT_OF(names); i++) ask_copy(w, names[i][0], m, names[i][1]);
        if (json_type(calls) == JSON_ARR && json_first(calls)) put_calls(w, calls);
        jw_end(w);
    }
    jw_end(w);
    return rc;
}

/* Builds a conversation from `system` and `prompt`. */
static int generate_text(struct ask *a, const struct json *j, struct fault *f) {
    const char *prompt = json_str(json_get(j, "prompt")), *system = json_str(json_get(j, "system"));
    struct buf b = {0};
    struct jw w;
    const struct json *given = json_get(j, "prompt");
    if (json_type(given) != JSON_NULL && !prompt)
        return fault_set(f, 400, NULL, "prompt", "must be a string");
    if (ask_get(j, "system") && !system)
        return fault_set(f, 400, NULL, "system", "must be a string");
    if (ask_get(j, "raw") && json_type(json_get(j, "raw")) != JSON_BOOL)
        return fault_set(f, 400, NULL, "raw", "must be true or false");
    a->nothing = !prompt || !*prompt;
    if (a->nothing) return 0;
    if (json_bool(json_get(j, "raw"), false)) {
        if (json_first(json_get(j, "images")))
            return fault_set(f, 400, NULL, "images", "images need the template: leave out `raw`");
        a->prompt[0] = (struct ask_prompt){.text = xstrdup(prompt), .len = strlen(prompt)};
        a->n_prompts = 1;
        return 0;
    }
    struct buf text = {0};
    const int rc = read_images(a, json_get(j, "images"), "images", &text, f);
    buf_str(&text, prompt);
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    for (int i = system && *system ? 0 : 1; i < 2; i++) {
        jw_obj(&w, NULL);
        jw_str(&w, "role", i ? "user" : "system");
        if (i)
            jw_strn(&w, "content", text.data, text.len);
        else
            jw_str(&w, "content", system);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    buf_release(&text);
    a->conv = buf_take(&b);
    return rc;
}

/* Returns whether the answer continues the last of the messages, which Ollama does if it is the
 * assistant's: it has text and no calls. */
static bool is_begun(const struct json *messages) {
    const struct json *m = json_first(messages);
    while (json_next(m)) m = json_next(m);
    const char *text = msg_text(m);
    return msg_is(m, "assistant") && text[strspn(text, " \t\r\n")] &&
           !json_len(json_get(m, "tool_calls"));
}

/* Reads a request to /api/chat; returns 0 or the fault's HTTP status. */
static int ollama_chat_read(struct ask *a, const struct json *j, struct fault *f) {
    static const struct field *const tables[] = {chat_fields};
    const int sizes[] = {(int)COUNT_OF(chat_fields)};
    struct json *list = NULL;
    struct buf b = {0};
    struct jw w;
    struct err e;
    TRY(fields_read(a, j, "", tables, sizes, 1, f));
    const struct json *said = json_get(j, "messages");
    a->nothing = json_type(said) == JSON_NULL || (json_type(said) == JSON_ARR && !json_first(said));
    if (a->nothing) return 0;
    TRY(chat_tools(a, j, f));
    jw_init(&w, &b, false);
    int rc = put_messages(a, &w, said, f);
    if (!rc && json_parse_mend(&list, b.data, b.len, "messages", &e))
        rc = fault_set(f, 400, NULL, "messages", "%s", e.msg);
    if (!rc) rc = chat_conv(a, list, f);
    if (!rc && !a->n_images) a->go_on = is_begun(list);
    json_free(list);
    buf_release(&b);
    return rc;
}

/* Reads a request to /api/generate; returns 0 or the fault's HTTP status. */
static int ollama_text_read(struct ask *a, const struct json *j, struct fault *f) {
    static const struct field *const tables[] = {text_fields};
    const int sizes[] = {(int)COUNT_OF(text_fields)};
    TRY(fields_read(a, j, "", tables, sizes, 1, f));
    return generate_text(a, j, f);
}

/* ---- writing ---- */

/* Begins a line of the answer with model and time. */
static void open_line(struct jw *w, struct buf *b, const struct reply *r) {
    char when[48];
    struct tm tm;
    const time_t t = (time_t)r->created;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    jw_init(w, b, false);
    jw_obj(w, NULL);
    jw_str(w, "model", r->model);
    jw_str(w, "created_at", when);
}

static void put_call(struct jw *w, const struct reply_call *c, int i) {
    jw_obj(w, NULL);
    jw_str(w, "id", c->id);
    jw_obj(w, "function");
    jw_i64(w, "index", i);
    jw_str(w, "name", c->name);
    jw_raw(w, "arguments", c->args.len ? c->args.data : "{}");
    jw_end(w);
    jw_end(w);
}

struct said {
    const char *content, *thinking;
    size_t n_content, n_thinking;
    int call_from, call_to;
};
/* Writes the text of s, as a message for chat and otherwise as "response", and new logprobs. */
static void put_new_text(struct jw *w, const struct reply *r, bool chat, const struct said *s) {
    const struct reply_choice *c = &r->choice[0];
    if (chat) {
        jw_obj(w, "message");
        jw_str(w, "role", "assistant");
    }
    jw_strn(w, chat ? "content" : "response", s->content, s->n_content);
    if (s->n_thinking) jw_strn(w, "thinking", s->thinking, s->n_thinking);
    if (s->call_to > s->call_from) {
        jw_arr(w, "tool_calls");
        for (int i = s->call_from; i < s->call_to; i++) put_call(w, &c->call[i], i);
        jw_end(w);
    }
    if (chat) jw_end(w);
    if (c->probs.len) {
        struct buf list = {0};
        buf_fmt(&list, "[%s]", c->probs.data);
        jw_raw(w, "logprobs", list.data);
        buf_release(&list);
    }
}

/* Returns seconds as nanoseconds. */
static int64_t to_ns(double s) {
    return (int64_t)(s * 1e9);
}

/* Writes the members of the last line: why the answer ended, counts and times. */
static void put_end(struct jw *w, const struct reply *r) {
    const struct reply_choice *c = &r->choice[0];
    const bool cut = c->end == END_LENGTH || c->end == END_CONTEXT;
    jw_bool(w, "done", true);
    jw_str(w, "done_reason",
           r->ask->nothing ? (r->ask->unload ? "unload" : "load")
           : cut           ? "length"
                           : "stop");
    if (r->ask->nothing) {
        jw_end(w);
        return;
    }
    jw_i64(w, "total_duration", to_ns(r->total_s));
    jw_i64(w, "load_duration", 0);
    jw_i64(w, "prompt_eval_count", r->n_prompt);
    jw_i64(w, "prompt_eval_duration", to_ns(r->prompt_s));
    jw_i64(w, "eval_count", c->n_out);
    jw_i64(w, "eval_duration", to_ns(r->generate_s));
    jw_end(w);
}

/* Appends one line of the answer; end: it is the last one. */
static void put_line(struct reply *r, bool chat, const struct said *s, bool end, struct buf *out) {
    struct jw w;
    open_line(&w, out, r);
    put_new_text(&w, r, chat, s);
    if (end) {
        put_end(&w, r);
    } else {
        jw_bool(&w, "done", false);
        jw_end(&w);
    }
    buf_reset(&r->choice[0].probs); /* sent only once */
    buf_str(out, "\n");
}

/* Appends a line for an event that has text or a call or ends the answer. */
static void put_event(struct reply *r, const struct event *ev, bool chat, struct buf *out) {
    struct said s = {"", "", 0, 0, 0, 0};
    if (ev->kind == EV_CONTENT) s.content = ev->s, s.n_content = ev->n;
    if (ev->kind == EV_REASONING) s.thinking = ev->s, s.n_thinking = ev->n;
    if (ev->kind == EV_CALL_END) s.call_from = ev->call, s.call_to = ev->call + 1;
    if (ev->kind == EV_CONTENT || ev->kind == EV_REASONING || ev->kind == EV_CALL_END ||
        ev->kind == EV_DONE)
        put_line(r, chat, &s, ev->kind == EV_DONE, out);
}

/* Appends the whole answer as a single line. */
static void put_whole(struct reply *r, bool chat, struct buf *out) {
    const struct reply_choice *c = &r->choice[0];
    const struct said s = {c->content.data ? c->content.data : "",
                           c->reasoning.data ? c->reasoning.data : "",
                           c->content.len,
                           c->reasoning.len,
                           0,
                           c->n_calls};
    put_line(r, chat, &s, true, out);
}

/* Appends an event in the format of /api/chat. */
static void chat_event(struct reply *r, const struct event *ev, struct buf *out) {
    put_event(r, ev, true, out);
}
/* Appends an event in the format of /api/generate. */
static void text_event(struct reply *r, const struct event *ev, struct buf *out) {
    put_event(r, ev, false, out);
}
/* Appends a whole answer in the format of /api/chat. */
static void chat_whole(struct reply *r, struct buf *out) {
    put_whole(r, true, out);
}
/* Appends a whole answer in the format of /api/generate. */
static void text_whole(struct reply *r, struct buf *out) {
    put_whole(r, false, out);
}

/* Appends the fault in Ollama's format; returns the HTTP status. */
static int ollama_fail(const struct fault *f, const char *request_id, bool in_stream,
                       struct buf *out) {
    struct jw w;
    (void)request_id, (void)in_stream;
    jw_init(&w, out, false);
    jw_obj(&w, NULL);
    jw_str(&w, "error", f->msg);
    jw_end(&w);
    buf_str(out, "\n");
    return f->status;
}

const struct api api_ollama_chat = {
    .name = "ollama",
    .id = "",
    .call_id = "call_",
    .stream_type = "application/x-ndjson",
    .ping = "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
    .streams = true,
    .read = ollama_chat_read,
    .event = chat_event,
    .whole = chat_whole,
    .fail = ollama_fail,
};
const struct api api_ollama_text = {
    .name = "ollama",
    .id = "",
    .call_id = "call_",
    .stream_type = "application/x-ndjson",
    .ping = "{\"response\":\"\",\"done\":false}\n",
    .streams = true,
    .read = ollama_text_read,
    .event = text_event,
    .whole = text_whole,
    .fail = ollama_fail,
};
