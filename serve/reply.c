// SPDX-License-Identifier: MIT
/* serve/reply.c - accumulation of an answer's events, and helpers shared by several APIs. */
#include "serve/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "serve/custom_tools.h"
#include "serve/job.h"
#include "text/utf8.h"

void reply_init(struct reply *r, const struct ask *a, int n_choices) {
    memset(r, 0, sizeof *r);
    r->ask = a;
    r->n_choices = n_choices;
    r->choice = xcalloc((size_t)n_choices, sizeof *r->choice);
}

void reply_release(struct reply *r) {
    for (int i = 0; i < r->n_choices; i++) {
        struct reply_choice *c = &r->choice[i];
        for (int k = 0; k < c->n_calls; k++) {
            free(c->call[k].name);
            buf_release(&c->call[k].args);
        }
        free(c->call);
        buf_release(&c->content);
        buf_release(&c->reasoning);
        buf_release(&c->probs);
        buf_release(&c->problems);
        tool_tally_release(&c->overruled);
        buf_release(&c->ids);
    }
    free(r->choice);
    buf_release(&r->items);
    buf_release(&r->shown);
    memset(r, 0, sizeof *r);
}

void reply_add(struct reply *r, const struct event *ev, const char *call_prefix) {
    struct reply_choice *c = &r->choice[ev->choice];
    if (ev->kind == EV_REASONING) buf_add(&c->reasoning, ev->s, ev->n);
    if (ev->kind == EV_CONTENT) buf_add(&c->content, ev->s, ev->n);
    if (ev->kind == EV_CALL_ARGS) buf_add(&c->call[ev->call].args, ev->s, ev->n);
    if (ev->kind == EV_CALL_END) c->call[ev->call].done = true;
    if (ev->kind != EV_CALL_BEGIN) return;
    c->call = xreallocarray(c->call, (size_t)c->n_calls + 1, sizeof *c->call);
    struct reply_call *k = &c->call[c->n_calls++];
    memset(k, 0, sizeof *k);
    k->name = xstrndup(ev->s, ev->n);
    job_random_id(call_prefix, k->id);
}

void reply_sse(struct buf *out, const char *event, const struct buf *data) {
    if (event) buf_fmt(out, "event: %s\n", event);
    buf_str(out, "data: ");
    buf_add(out, data->data, data->len);
    buf_str(out, "\n\n");
}

void reply_input(struct reply *r, const struct event *ev, struct buf *out) {
    struct reply_call *c = &r->choice[ev->choice].call[ev->call];
    struct buf all = {0};
    if (ev->kind != EV_CALL_ARGS) return;
    custom_tool_input(&c->args, &all);
    size_t n = utf8_valid_prefix(all.data ? all.data : "", all.len);
    if (n > c->n_input) buf_add(out, all.data + c->n_input, n - c->n_input);
    if (n > c->n_input) c->n_input = n;
    buf_release(&all);
}

const char *reply_finish(const struct reply_choice *c) {
    static const char *const words[] = {NULL,     "stop",   "stop", "tool_calls",
                                        "length", "length", "stop"};
    return words[c->end];
}

int64_t reply_n_out(const struct reply *r) {
    int64_t n = 0;
    for (int i = 0; i < r->n_choices; i++) n += r->choice[i].n_out;
    return n;
}

void reply_usage(const struct reply *r, struct jw *w, const char *name) {
    int64_t think = 0;
    for (int i = 0; i < r->n_choices; i++) think += r->choice[i].n_think;
    const int64_t out = reply_n_out(r);
    jw_obj(w, name);
    jw_i64(w, "prompt_tokens", r->n_prompt);
    jw_i64(w, "completion_tokens", out);
    jw_i64(w, "total_tokens", r->n_prompt + out);
    jw_obj(w, "prompt_tokens_details");
    jw_i64(w, "cached_tokens", r->n_cached);
    jw_end(w);
    jw_obj(w, "completion_tokens_details");
    jw_i64(w, "reasoning_tokens", think);
    jw_i64(w, "accepted_prediction_tokens", r->n_accepted);
    jw_i64(w, "rejected_prediction_tokens", r->n_drafted - r->n_accepted);
    jw_end(w);
    jw_end(w);
}

/* Returns n / s; 0 if s is not positive. */
static double per_second(double n, double s) {
    return s > 0 ? n / s : 0;
}

void reply_timings(const struct reply *r, const struct reply_choice *c, struct jw *w) {
    const int64_t prompt = r->n_prompt - r->n_cached;
    jw_obj(w, "timings");
    jw_i64(w, "cache_n", r->n_cached);
    jw_i64(w, "prompt_n", prompt);
    jw_num(w, "prompt_ms", 1e3 * r->prompt_s);
    jw_num(w, "prompt_per_token_ms", per_second(1e3 * r->prompt_s, (double)prompt));
    jw_num(w, "prompt_per_second", per_second((double)prompt, r->prompt_s));
    jw_i64(w, "predicted_n", c->n_out);
    jw_num(w, "predicted_ms", 1e3 * r->generate_s);
    jw_num(w, "predicted_per_token_ms", per_second(1e3 * r->generate_s, (double)c->n_out));
    jw_num(w, "predicted_per_second", per_second((double)c->n_out, r->generate_s));
    jw_num(w, "queue_ms", 1e3 * r->queue_s);
    jw_num(w, "first_token_ms", 1e3 * r->first_s);
    jw_u64(w, "seed", r->seed);
    if (c->held.n_drawn) {
        jw_i64(w, "constrained_n", c->held.n_drawn);
        jw_i64(w, "overruled_n", c->held.n_overruled);
        jw_i64(w, "forced_n", c->held.n_forced);
        if (c->overruled.n) tool_tally_json(&c->overruled, w, "overruled_at");
        if (c->held.n_ended) jw_i64(w, "ended_n", c->held.n_ended);
    }
    if (c->end == END_STOP) jw_str(w, "stop_sequence", c->stop);
    if (c->n_loose) jw_i64(w, "loose_n", c->n_loose);
    if (c->problems.len) {
        struct buf list = {0};
        buf_fmt(&list, "[%s]", c->problems.data);
        jw_raw(w, "problems", list.data);
        buf_release(&list);
    }
    jw_end(w);
}

void reply_progress(const struct reply *r, struct jw *w, int64_t done) {
    jw_obj(w, "prompt_progress");
    jw_i64(w, "total", r->n_prompt);
    jw_i64(w, "cache", r->n_cached);
    jw_i64(w, "processed", done);
    jw_i64(w, "time_ms", (int64_t)(1e3 * r->prompt_s));
    jw_end(w);
}
