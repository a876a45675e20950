// SPDX-License-Identifier: MIT
/* serve/api_responses_out.c - writer of /v1/responses. A stream opens, fills in and completes one
 * output item after another; its events are numbered. */
#include <stdio.h>
#include <string.h>

#include "serve/custom_tools.h"
#include "serve/job.h"
#include "serve/responses.h"

enum item { NO_ITEM, REASONING, MESSAGE, CALL, CUSTOM };

static const char *const prefix[] = {"", "rs_", "msg_", "fc_", "ctc_"};

/* ---- the answer as an object ---- */

static void put_usage(const struct reply *r, struct jw *w) {
    const struct reply_choice *c = &r->choice[0];
    jw_obj(w, "usage");
    jw_i64(w, "input_tokens", r->n_prompt);
    jw_obj(w, "input_tokens_details");
    jw_i64(w, "cached_tokens", r->n_cached);
    jw_i64(w, "cache_write_tokens", 0);
    jw_end(w);
    jw_i64(w, "output_tokens", c->n_out);
    jw_obj(w, "output_tokens_details");
    jw_i64(w, "reasoning_tokens", c->n_think);
    jw_end(w);
    jw_i64(w, "total_tokens", r->n_prompt + c->n_out);
    jw_end(w);
}

/* Returns whether the answer ended at a token limit. */
static bool is_cut(const struct reply *r) {
    const enum reply_end end = r->choice[0].end;
    return end == END_LENGTH || end == END_CONTEXT;
}

/* Writes the response so far. status NULL: the answer has ended, and the way it ended determines
 * the status. */
static void put_response(const struct reply *r, struct jw *w, const char *name,
                         const char *status) {
    struct buf list = {0};
    buf_fmt(&list, "[%s]", r->items.data ? r->items.data : "");
    jw_obj(w, name);
    jw_str(w, "id", r->id);
    jw_str(w, "object", "response");
    jw_i64(w, "created_at", r->created);
    jw_str(w, "status", status ? status : is_cut(r) ? "incomplete" : "completed");
    jw_null(w, "error");
    if (!status && is_cut(r)) {
        jw_obj(w, "incomplete_details");
        jw_str(w, "reason", "max_output_tokens");
        jw_end(w);
    } else {
        jw_null(w, "incomplete_details");
    }
    jw_str(w, "model", r->model);
    jw_raw(w, "output", list.data);
    jw_bool(w, "store", false);
    jw_str(w, "truncation", "disabled");
    jw_null(w, "previous_response_id");
    if (status)
        jw_null(w, "usage");
    else
        put_usage(r, w);
    if (r->ask->repeat.len) buf_fmt(w->b, ",%s", r->ask->repeat.data);
    jw_end(w);
    buf_release(&list);
}

/* ---- items ---- */

/* Writes the text as "encrypted" content: base64 with the prefix "hone1:". */
static void put_base64(struct jw *w, const char *name, const char *s, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf b = {0};
    buf_str(&b, "hone1:");
    for (size_t i = 0; i < n; i += 3) {
        const size_t k = n - i;
        const unsigned char *p = (const unsigned char *)s + i;
        const unsigned v =
            (unsigned)p[0] << 16 | (k > 1 ? (unsigned)p[1] << 8 : 0) | (k > 2 ? (unsigned)p[2] : 0);
        buf_chr(&b, digits[v >> 18]);
        buf_chr(&b, digits[v >> 12 & 63]);
        buf_chr(&b, k > 1 ? digits[v >> 6 & 63] : '=');
        buf_chr(&b, k > 2 ? digits[v & 63] : '=');
    }
    jw_str(w, name, b.data);
    buf_release(&b);
}

/* Moves pending log probabilities to the current item, and returns their offset in it. */
static size_t take_probs(struct reply *r) {
    struct buf *fresh = &r->choice[0].probs;
    if (fresh->len && r->shown.len) buf_str(&r->shown, ", ");
    const size_t from = r->shown.len;
    if (fresh->len) buf_add(&r->shown, fresh->data, fresh->len);
    buf_reset(fresh);
    return from;
}

/* Writes the log probabilities of the current item, starting at offset `from`. */
static void put_probs(const struct reply *r, struct jw *w, size_t from) {
    struct buf list = {0};
    buf_fmt(&list, "[%s]", r->shown.len > from ? r->shown.data + from : "");
    jw_raw(w, "logprobs", list.data);
    buf_release(&list);
}

/* Writes a content part; in a message, with empty logprobs and annotations. */
static void put_part(const struct reply *r, struct jw *w, const char *name, enum item kind,
                     const char *s, size_t n) {
    jw_obj(w, name);
    jw_str(w, "type", kind == REASONING ? "reasoning_text" : "output_text");
    jw_strn(w, "text", s, n);
    if (kind == MESSAGE) {
        jw_arr(w, "annotations");
        jw_end(w);
        put_probs(r, w, 0);
    }
    jw_end(w);
}

/* Writes the members of a call; the namespace is separated from the tool's name. */
static void put_call(const struct reply *r, struct jw *w, enum item kind,
                     const struct reply_call *call, bool done) {
    struct buf input = {0};
    size_t n = 0;
    const char *space = custom_tool_space(r->ask, call->name, &n);
    jw_str(w, "call_id", call->id);
    jw_str(w, "name", space ? call->name + n + 1 : call->name);
    if (space) jw_strn(w, "namespace", space, n);
    if (kind == CUSTOM && done) custom_tool_input(&call->args, &input);
    if (kind == CUSTOM)
        jw_strn(w, "input", input.data ? input.data : "", input.len);
    else
        jw_str(w, "arguments", done && call->args.len ? call->args.data : "");
    buf_release(&input);
}

/* Returns the kind of item for a call: function or custom tool. */
static enum item kind_of(const struct reply *r, const struct reply_call *call) {
    return custom_tool_is(r->ask, call->name) ? CUSTOM : CALL;
}

/* Writes the current item; done: it is complete, so its text is included. */
static void put_item(const struct reply *r, struct jw *w, const char *name, enum item kind,
                     const struct reply_call *call, bool done) {
    const struct reply_choice *c = &r->choice[0];
    const struct buf *all = kind == REASONING ? &c->reasoning : &c->content;
    const char *s = all->data ? all->data + r->mark : "";
    const size_t n = all->data ? all->len - r->mark : 0;
    jw_obj(w, name);
    jw_str(w, "id", r->item);
    jw_str(w, "type",
           kind == REASONING ? "reasoning"
           : kind == MESSAGE ? "message"
           : kind == CALL    ? "function_call"
                             : "custom_tool_call");
    const bool whole = done && (!call || call->done);
    jw_str(w, "status", whole ? "completed" : done ? "incomplete" : "in_progress");
    if (kind == CALL || kind == CUSTOM) {
        put_call(r, w, kind, call, done);
        jw_end(w);
        return;
    }
    if (kind == MESSAGE) jw_str(w, "role", "assistant");
    if (kind == REASONING) {
        jw_arr(w, "summary");
        if (done && (r->ask->api_flags & RESPONSES_SUMMARY)) {
            jw_obj(w, NULL);
            jw_str(w, "type", "summary_text");
            jw_strn(w, "text", s, n);
            jw_end(w);
        }
        jw_end(w);
    }
    jw_arr(w, "content");
    if (done) put_part(r, w, NULL, kind, s, n);
    jw_end(w);
    if (kind == REASONING && done && (r->ask->api_flags & RESPONSES_ENCRYPTED))
        put_base64(w, "encrypted_content", s, n);
    jw_end(w);
}

/* Adds a finished item to the list for the final answer. */
static void keep_item(struct reply *r, enum item kind, const struct reply_call *call) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    put_item(r, &w, NULL, kind, call, true);
    buf_fmt(&r->items, "%s%s", r->items.len ? "," : "", b.data);
    buf_release(&b);
}

/* ---- events ---- */

/* Begins the JSON of an event with type and sequence number. */
static void begin_event(struct reply *r, struct jw *w, struct buf *b, const char *type) {
    jw_init(w, b, false);
    jw_obj(w, NULL);
    jw_str(w, "type", type);
    jw_i64(w, "sequence_number", r->seq++);
}
/* Ends the event's JSON, appends the event to out and releases b. */
static void send_event(struct jw *w, struct buf *b, const char *type, struct buf *out) {
    jw_end(w);
    reply_sse(out, type, b);
    buf_release(b);
}

/* Appends an event with the complete response so far. ev: EV_PROGRESS adds the prompt's progress,
 * EV_DONE the timings; NULL: neither. */
static void whole_event(struct reply *r, const char *type, const char *status,
                        const struct event *ev, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    begin_event(r, &w, &b, type);
    put_response(r, &w, "response", status);
    if (ev && ev->kind == EV_PROGRESS) reply_progress(r, &w, (int64_t)ev->n);
    if (ev && ev->kind == EV_DONE) reply_timings(r, &r->choice[0], &w);
    send_event(&w, &b, type, out);
}

/* Appends an event with the whole item; call: NULL except for calls. */
static void item_event(struct reply *r, const char *type, enum item kind,
                       const struct reply_call *call, bool done, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    begin_event(r, &w, &b, type);
    jw_i64(&w, "output_index", r->block);
    put_item(r, &w, "item", kind, call, done);
    send_event(&w, &b, type, out);
}

/* Appends an event for a content part. s is written as the member `member` or, if that is NULL, as
 * a content part. index: name of the member for the part's index; NULL for calls. */
static void part_event(struct reply *r, const char *type, const char *index, const char *member,
                       enum item kind, const char *s, size_t n, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    const bool piece = member && strcmp(member, "delta") == 0;
    const size_t fresh = kind == MESSAGE && n ? take_probs(r) : 0, from = piece ? fresh : 0;
    begin_event(r, &w, &b, type);
    jw_str(&w, "item_id", r->item);
    jw_i64(&w, "output_index", r->block);
    if (index) jw_i64(&w, index, 0);
    if (member)
        jw_strn(&w, member, s, n);
    else
        put_part(r, &w, "part", kind, s, n);
    if (member && kind == MESSAGE) put_probs(r, &w, from);
    if (piece && r->ask->timings) reply_timings(r, &r->choice[0], &w);
    send_event(&w, &b, type, out);
}

/* Appends a summary event if the client requested summaries. member NULL: the event is about a
 * part. */
static void summary_event(struct reply *r, const char *type, const char *member, const char *s,
                          size_t n, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    if (!(r->ask->api_flags & RESPONSES_SUMMARY)) return;
    begin_event(r, &w, &b, type);
    jw_str(&w, "item_id", r->item);
    jw_i64(&w, "output_index", r->block);
    jw_i64(&w, "summary_index", 0);
    if (member) {
        jw_strn(&w, member, s, n);
    } else {
        jw_obj(&w, "part");
        jw_str(&w, "type", "summary_text");
        jw_strn(&w, "text", s, n);
        jw_end(&w);
    }
    send_event(&w, &b, type, out);
}

/* Appends the events that end the open item, if any. */
static void close_item(struct reply *r, struct buf *out) {
    const struct reply_choice *c = &r->choice[0];
    const enum item kind = (enum item)r->block_kind;
    const struct buf *all = kind == REASONING ? &c->reasoning : &c->content;
    const char *s = all->data ? all->data + r->mark : "";
    const size_t n = all->data ? all->len - r->mark : 0;
    if (kind != REASONING && kind != MESSAGE) return;
    if (kind == REASONING) {
        summary_event(r, "response.reasoning_summary_text.done", "text", s, n, out);
        summary_event(r, "response.reasoning_summary_part.done", NULL, s, n, out);
    }
    part_event(r, kind == REASONING ? "response.reasoning_text.done" : "response.output_text.done",
               "content_index", "text", kind, s, n, out);
    part_event(r, "response.content_part.done", "content_index", NULL, kind, s, n, out);
    item_event(r, "response.output_item.done", kind, NULL, true, out);
    keep_item(r, kind, NULL);
    r->block++;
    r->block_kind = NO_ITEM;
}

/* Opens an item of this kind unless it is open; first ends an open item of another kind. */
static void open_item(struct reply *r, enum item kind, size_t n_new, struct buf *out) {
    const struct reply_choice *c = &r->choice[0];
    if (r->block_kind == (int)kind) return;
    close_item(r, out);
    r->block_kind = (int)kind;
    buf_reset(&r->shown);
    r->mark = (kind == REASONING ? c->reasoning.len : c->content.len) - n_new;
    job_random_id(prefix[kind], r->item);
    item_event(r, "response.output_item.added", kind, NULL, false, out);
    part_event(r, "response.content_part.added", "content_index", NULL, kind, "", 0, out);
    if (kind == REASONING)
        summary_event(r, "response.reasoning_summary_part.added", NULL, "", 0, out);
}

/* Appends the events of a call's beginning, arguments or end. */
static void call_event(struct reply *r, const struct event *ev, struct buf *out) {
    const struct reply_call *call = &r->choice[0].call[ev->call];
    static const char *const deltas[] = {"response.function_call_arguments.delta",
                                         "response.custom_tool_call_input.delta"},
                             *const dones[] = {"response.function_call_arguments.done",
                                               "response.custom_tool_call_input.done"};
    const enum item kind = kind_of(r, call);
    const bool custom = kind == CUSTOM;
    const char *done = dones[custom];
    struct buf b = {0}, input = {0};
    struct jw w;
    if (ev->kind == EV_CALL_BEGIN) close_item(r, out);
    buf_reset(&r->choice[0].probs); /* log probabilities are written for text only */
    if (ev->kind == EV_CALL_BEGIN) {
        job_random_id(prefix[kind], r->item);
        item_event(r, "response.output_item.added", kind, call, false, out);
    } else if (ev->kind == EV_CALL_ARGS) {
        if (custom) reply_input(r, ev, &input);
        if (!custom)
            part_event(r, deltas[0], NULL, "delta", CALL, ev->s, ev->n, out);
        else if (input.len)
            part_event(r, deltas[1], NULL, "delta", CUSTOM, input.data, input.len, out);
    } else {
        begin_event(r, &w, &b, done);
        jw_str(&w, "item_id", r->item);
        jw_i64(&w, "output_index", r->block);
        if (custom) {
            custom_tool_input(&call->args, &input);
            jw_strn(&w, "input", input.data ? input.data : "", input.len);
        } else {
            jw_str(&w, "name", call->name);
            jw_str(&w, "arguments", call->args.len ? call->args.data : "");
        }
        send_event(&w, &b, done, out);
        item_event(r, "response.output_item.done", kind, call, true, out);
        keep_item(r, kind, call);
        r->block++;
    }
    buf_release(&input);
}

void responses_event(struct reply *r, const struct event *ev, struct buf *out) {
    if (ev->kind == EV_ADMITTED) {
        whole_event(r, "response.created", "in_progress", NULL, out);
        whole_event(r, "response.in_progress", "in_progress", NULL, out);
    }
    if (ev->kind == EV_PROGRESS) whole_event(r, "response.in_progress", "in_progress", ev, out);
    if (ev->kind == EV_REASONING) {
        open_item(r, REASONING, ev->n, out);
        part_event(r, "response.reasoning_text.delta", "content_index", "delta", REASONING, ev->s,
                   ev->n, out);
        summary_event(r, "response.reasoning_summary_text.delta", "delta", ev->s, ev->n, out);
    }
    if (ev->kind == EV_CONTENT) {
        open_item(r, MESSAGE, ev->n, out);
        part_event(r, "response.output_text.delta", "content_index", "delta", MESSAGE, ev->s, ev->n,
                   out);
    }
    if (ev->kind == EV_CALL_BEGIN || ev->kind == EV_CALL_ARGS || ev->kind == EV_CALL_END)
        call_event(r, ev, out);
    if (ev->kind != EV_DONE) return;
    const struct reply_choice *c = &r->choice[0];
    if (c->n_calls && !c->call[c->n_calls - 1].done) /* cut off by a limit */
        call_event(r, &(struct event){.kind = EV_CALL_END, .call = c->n_calls - 1}, out);
    close_item(r, out);
    whole_event(r, is_cut(r) ? "response.incomplete" : "response.completed", NULL, ev, out);
}

void responses_whole(struct reply *r, struct buf *out) {
    const struct reply_choice *c = &r->choice[0];
    struct jw w;
    for (int kind = REASONING; kind <= MESSAGE; kind++) {
        if (!(kind == REASONING ? c->reasoning.len : c->content.len)) continue;
        job_random_id(prefix[kind], r->item);
        if (kind == MESSAGE) take_probs(r);
        keep_item(r, (enum item)kind, NULL);
    }
    for (int i = 0; i < c->n_calls; i++) {
        job_random_id(prefix[kind_of(r, &c->call[i])], r->item);
        keep_item(r, kind_of(r, &c->call[i]), &c->call[i]);
    }
    jw_init(&w, out, false);
    put_response(r, &w, NULL, NULL);
    buf_str(out, "\n");
}

/* Appends an error. In a stream it is response.failed, which clients wait for. */
int responses_fail(const struct fault *f, const char *request_id, bool in_stream, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    if (!in_stream) return openai_fail(f, request_id, false, out);
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "type", "response.failed");
    jw_i64(&w, "sequence_number", INT32_MAX); /* after all other events */
    jw_obj(&w, "response");
    jw_str(&w, "id", request_id);
    jw_str(&w, "object", "response");
    jw_str(&w, "status", "failed");
    jw_obj(&w, "error");
    jw_str(&w, "code", f->code ? f->code : "server_error");
    jw_str(&w, "message", f->msg);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    reply_sse(out, "response.failed", &b);
    buf_release(&b);
    return f->status;
}
