// SPDX-License-Identifier: MIT
/* serve/api_messages_out.c - writer of /v1/messages. An answer is a list of content blocks, written
 * one after another. */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "serve/messages.h"

enum { NO_BLOCK, THINKING, TEXT, CALL };

/* Returns the API's word for why the answer ended; NULL: it has not ended. */
static const char *stop_reason(const struct reply_choice *c) {
    static const char *const words[] = {NULL,       "end_turn",   "stop_sequence",
                                        "tool_use", "max_tokens", "model_context_window_exceeded",
                                        "end_turn"};
    return words[c->end];
}

/* Writes the "usage" object. */
static void put_usage(const struct reply *r, struct jw *w) {
    const struct reply_choice *c = &r->choice[0];
    jw_obj(w, "usage");
    jw_i64(w, "input_tokens", r->n_prompt - r->n_cached);
    jw_i64(w, "cache_creation_input_tokens", 0);
    jw_i64(w, "cache_read_input_tokens", r->n_cached);
    jw_i64(w, "output_tokens", c->n_out);
    jw_obj(w, "output_tokens_details");
    jw_i64(w, "thinking_tokens", c->n_think);
    jw_end(w);
    jw_end(w);
}

/* Writes a signature of the thinking text. Clients send it back with the text, but it is not
 * checked. */
static void put_signature(struct jw *w, const struct buf *text) {
    struct buf b = {0};
    buf_fmt(&b, "hone1:%016" PRIx64, hash_u64(text->data ? text->data : "", text->len));
    jw_str(w, "signature", b.data);
    buf_release(&b);
}

/* Begins a message object, up to the open list of its content. */
static void open_message(struct reply *r, struct jw *w, const char *name) {
    jw_obj(w, name);
    jw_str(w, "id", r->id);
    jw_str(w, "type", "message");
    jw_str(w, "role", "assistant");
    jw_str(w, "model", r->model);
    jw_arr(w, "content");
}

/* ---- a stream ---- */

/* Begins the JSON of an event of this type. */
static void begin_event(struct jw *w, struct buf *b, const char *type) {
    jw_init(w, b, false);
    jw_obj(w, NULL);
    jw_str(w, "type", type);
}
/* Ends the event's JSON, appends the event to out and releases b. */
static void send_event(struct jw *w, struct buf *b, const char *type, struct buf *out) {
    jw_end(w);
    reply_sse(out, type, b);
    buf_release(b);
}

/* Appends a content_block_delta. kind: type of the delta; member: name of the member for the
 * text. */
static void put_delta(struct reply *r, const char *kind, const char *member, const char *s,
                      size_t n, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    begin_event(&w, &b, "content_block_delta");
    jw_i64(&w, "index", r->block);
    jw_obj(&w, "delta");
    jw_str(&w, "type", kind);
    jw_strn(&w, member, s, n);
    jw_end(&w);
    send_event(&w, &b, "content_block_delta", out);
}

/* Ends the open content block, if any, and signs a thinking block. */
static void close_block(struct reply *r, struct buf *out) {
    struct buf b = {0}, sign = {0};
    struct jw w;
    if (r->block_kind == NO_BLOCK) return;
    if (r->block_kind == THINKING) {
        const struct buf *text = &r->choice[0].reasoning;
        buf_fmt(&sign, "hone1:%016" PRIx64, hash_u64(text->data ? text->data : "", text->len));
        put_delta(r, "signature_delta", "signature", sign.data, sign.len, out);
        buf_release(&sign);
    }
    begin_event(&w, &b, "content_block_stop");
    jw_i64(&w, "index", r->block++);
    send_event(&w, &b, "content_block_stop", out);
    r->block_kind = NO_BLOCK;
}

/* Opens a block of this kind unless one is open; a call always opens its own block. */
static void open_block(struct reply *r, int kind, const struct reply_call *call, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    if (r->block_kind == kind && kind != CALL) return;
    close_block(r, out);
    r->block_kind = kind;
    begin_event(&w, &b, "content_block_start");
    jw_i64(&w, "index", r->block);
    jw_obj(&w, "content_block");
    jw_str(&w, "type", kind == THINKING ? "thinking" : kind == TEXT ? "text" : "tool_use");
    if (kind == THINKING) {
        jw_str(&w, "thinking", "");
        jw_str(&w, "signature", "");
    } else if (kind == TEXT) {
        jw_str(&w, "text", "");
    } else {
        jw_str(&w, "id", call->id);
        jw_str(&w, "name", call->name);
        jw_obj(&w, "input");
        jw_end(&w);
    }
    jw_end(&w);
    send_event(&w, &b, "content_block_start", out);
}

/* Appends the events that begin an answer. */
static void start_message(struct reply *r, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    begin_event(&w, &b, "message_start");
    open_message(r, &w, "message");
    jw_end(&w);
    jw_null(&w, "stop_reason");
    jw_null(&w, "stop_sequence");
    put_usage(r, &w);
    jw_end(&w);
    send_event(&w, &b, "message_start", out);
    buf_str(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

/* Appends the events that end an answer. */
static void end_message(struct reply *r, struct buf *out) {
    const struct reply_choice *c = &r->choice[0];
    struct buf b = {0};
    struct jw w;
    close_block(r, out);
    begin_event(&w, &b, "message_delta");
    jw_obj(&w, "delta");
    jw_str(&w, "stop_reason", stop_reason(c));
    jw_str(&w, "stop_sequence", c->end == END_STOP ? c->stop : NULL);
    jw_end(&w);
    put_usage(r, &w);
    send_event(&w, &b, "message_delta", out);
    begin_event(&w, &b, "message_stop");
    send_event(&w, &b, "message_stop", out);
}

void messages_event(struct reply *r, const struct event *ev, struct buf *out) {
    if (ev->kind == EV_ADMITTED) start_message(r, out);
    if (ev->kind == EV_REASONING && !r->ask->hide_thinking) {
        open_block(r, THINKING, NULL, out);
        put_delta(r, "thinking_delta", "thinking", ev->s, ev->n, out);
    }
    if (ev->kind == EV_CONTENT) {
        open_block(r, TEXT, NULL, out);
        put_delta(r, "text_delta", "text", ev->s, ev->n, out);
    }
    if (ev->kind == EV_CALL_BEGIN) open_block(r, CALL, &r->choice[0].call[ev->call], out);
    if (ev->kind == EV_CALL_ARGS)
        put_delta(r, "input_json_delta", "partial_json", ev->s, ev->n, out);
    if (ev->kind == EV_CALL_END) close_block(r, out);
    if (ev->kind == EV_DONE) end_message(r, out);
}

/* ---- a complete answer ---- */

/* Writes the content blocks of a whole answer: thinking, text and calls. */
static void put_content(struct reply *r, struct jw *w) {
    const struct reply_choice *c = &r->choice[0];
    if (c->reasoning.len && !r->ask->hide_thinking) {
        jw_obj(w, NULL);
        jw_str(w, "type", "thinking");
        jw_strn(w, "thinking", c->reasoning.data, c->reasoning.len);
        put_signature(w, &c->reasoning);
        jw_end(w);
    }
    if (c->content.len) {
        jw_obj(w, NULL);
        jw_str(w, "type", "text");
        jw_strn(w, "text", c->content.data, c->content.len);
        jw_end(w);
    }
    for (int i = 0; i < c->n_calls; i++) {
        jw_obj(w, NULL);
        jw_str(w, "type", "tool_use");
        jw_str(w, "id", c->call[i].id);
        jw_str(w, "name", c->call[i].name);
        jw_raw(w, "input", c->call[i].args.len ? c->call[i].args.data : "{}");
        jw_end(w);
    }
}

void messages_whole(struct reply *r, struct buf *out) {
    const struct reply_choice *c = &r->choice[0];
    struct jw w;
    jw_init(&w, out, false);
    open_message(r, &w, NULL);
    put_content(r, &w);
    jw_end(&w);
    jw_str(&w, "stop_reason", stop_reason(c));
    jw_str(&w, "stop_sequence", c->end == END_STOP ? c->stop : NULL);
    put_usage(r, &w);
    jw_end(&w);
    buf_str(out, "\n");
}

int messages_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out) {
    static const struct {
        int status;
        const char *type;
    } rows[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"},  {403, "permission_error"},
        {404, "not_found_error"},       {405, "invalid_request_error"}, {413, "request_too_large"},
        {415, "invalid_request_error"}, {429, "rate_limit_error"},      {503, "overloaded_error"}};
    const char *type = "api_error";
    struct buf b = {0};
    struct jw w;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].status == f->status) type = rows[i].type;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "type", "error");
    jw_obj(&w, "error");
    jw_str(&w, "type", type);
    if (f->n_ctx) { /* clients that see this text shorten the conversation */
        struct buf text = {0};
        buf_fmt(&text, "prompt is too long: %" PRId64 " tokens > %" PRId64 " maximum", f->n_prompt,
                f->n_ctx);
        jw_str(&w, "message", text.data);
        buf_release(&text);
    } else {
        jw_str(&w, "message", f->msg);
    }
    jw_end(&w);
    jw_str(&w, "request_id", request_id);
    jw_end(&w);
    if (in_stream) {
        reply_sse(out, "error", &b);
    } else {
        buf_add(out, b.data, b.len);
        buf_str(out, "\n");
    }
    buf_release(&b);
    return f->status == 503 ? 529 : f->status;
}
