// SPDX-License-Identifier: MIT
/* serve/api_text.c - reader and writer of POST /v1/completions (OpenAI's text completions). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "serve/logprobs.h"
#include "serve/reply.h"

/* ---- reading ---- */

/* Sets and returns the fault for a malformed prompt. */
static int bad_prompt(const char *path, struct fault *f) {
    return fault_set(
        f, 400, NULL, path,
        "must be a string, a list of strings, a list of token ids or a list of such lists, at "
        "most %d prompts",
        ASK_PROMPTS);
}

/* Adds a prompt: a string or a list of token ids. */
static int add_prompt(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    if (a->n_prompts == ASK_PROMPTS) return bad_prompt(path, f);
    struct ask_prompt *p = &a->prompt[a->n_prompts++];
    if (json_str(v)) {
        p->text = xstrdup(json_str(v));
        p->len = json_unmend(p->text, strlen(p->text));
        return 0;
    }
    for (const struct json *id = json_first(v); id; id = json_next(id)) {
        int64_t n;
        if (!json_i64(id, &n) || n < 0 || n > INT32_MAX) return bad_prompt(path, f);
        ids_add(&p->ids, (int32_t)n);
    }
    return json_type(v) == JSON_ARR ? 0 : bad_prompt(path, f);
}

/* Reads one prompt or a list of prompts. */
static int read_prompt(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    const struct json *first = json_first(v);
    if (json_str(v) || json_type(first) == JSON_NUM) return add_prompt(a, v, path, f);
    if (json_type(v) != JSON_ARR || !first) return bad_prompt(path, f);
    for (const struct json *p = first; p; p = json_next(p)) TRY(add_prompt(a, p, path, f));
    return 0;
}
/* Reads `logprobs`: a number of alternatives, true (no alternatives) or false (no logprobs). */
static int read_logprobs(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    int64_t n = 0;
    if (json_type(v) == JSON_BOOL) {
        a->top = json_bool(v, false) ? 0 : -1;
        return 0;
    }
    if (!json_i64(v, &n) || n < 0 || n > ASK_TOP)
        return fault_set(f, 400, NULL, path, "must be a number from 0 to %d", ASK_TOP);
    a->top = (int)n;
    return 0;
}
/* Returns 400 unless the value is "". */
static int refuse_suffix(struct ask *a, const struct json *v, const char *path, struct fault *f) {
    (void)a;
    if (json_str(v) && !*json_str(v)) return 0;
    return fault_set(f, 400, NULL, path, "suffix (fill-in-the-middle) is not supported");
}
static const struct field fields[] = {
    {"prompt", FIELD_BY(read_prompt)},
    {"model", FIELD_BY(ask_read_model)},
    {"max_tokens", FIELD(F_INT, n_max, -1, INT32_MAX)},
    {"stop", FIELD_BY(ask_read_stop)},
    {"n", FIELD_BY(ask_read_n)},
    {"best_of", FIELD_LEFT}, /* see text_read() */
    {"stream", FIELD(F_BOOL, stream, 0, 0)},
    {"stream_options", FIELD_BY(ask_read_usage)},
    {"echo", FIELD(F_BOOL, echo, 0, 0)},
    {"timings_per_token", FIELD(F_BOOL, timings, 0, 0)},
    {"logprobs", FIELD_BY(read_logprobs)},
    {"user", FIELD_LEFT},
    {"id_slot", FIELD_LEFT},
    {"prompt_cache_key", FIELD_LEFT},
    {"suffix", FIELD_BY(refuse_suffix)},
    {"response_format", FIELD_BY(ask_read_format)},
    {"preset", FIELD_LEFT},
};

/* Reads a request to /v1/completions; returns 0 or the fault's HTTP status. */
static int text_read(struct ask *a, const struct json *j, struct fault *f) {
    static const struct field *const tables[] = {fields, ask_sampling};
    const int sizes[] = {(int)COUNT_OF(fields), ask_n_sampling};
    enum { USUAL = 16 }; /* tokens; OpenAI's default */
    int64_t best;
    a->n_max = USUAL;
    a->complete = true;
    TRY(fields_read(a, j, "", tables, sizes, 2, f));
    if (!a->n_prompts) return fault_set(f, 400, NULL, "prompt", "a prompt is required");
    const struct json *of = ask_get(j, "best_of");
    if (of && (!json_i64(of, &best) || best != a->n))
        return fault_set(f, 400, NULL, "best_of", "must be equal to n or omitted");
    if (a->n_prompts * a->n > ASK_CHOICES)
        return fault_set(f, 400, NULL, "n", "the number of prompts times n can be at most %d",
                         ASK_CHOICES);
    return 0;
}

/* ---- writing ---- */

/* Begins an answer or a chunk, up to the open list of choices. */
static void open_answer(struct jw *w, struct buf *b, const struct reply *r) {
    jw_init(w, b, false);
    jw_obj(w, NULL);
    jw_str(w, "id", r->id);
    jw_str(w, "object", "text_completion");
    jw_i64(w, "created", r->created);
    jw_str(w, "model", r->model);
    jw_str(w, "system_fingerprint", r->fingerprint);
    jw_arr(w, "choices");
}

/* Writes choice i with n bytes of text and new logprobs; finish NULL: it has not ended. */
static void put_choice(struct jw *w, struct reply *r, int i, const char *text, size_t n,
                       const char *finish) {
    struct reply_choice *c = &r->choice[i];
    jw_obj(w, NULL);
    jw_strn(w, "text", text, n);
    jw_i64(w, "index", i);
    if (r->ask->top >= 0)
        logprobs_as_text(w, c->probs.len ? c->probs.data : "", &c->n_chars);
    else
        jw_null(w, "logprobs");
    buf_reset(&c->probs); /* sent only once */
    jw_str(w, "finish_reason", finish);
    jw_end(w);
}

/* Appends a chunk with n bytes of a choice's text; finish NULL: it has not ended. */
static void put_event(struct reply *r, int choice, const char *s, size_t n, const char *finish,
                      struct buf *out) {
    struct buf b = {0};
    struct jw w;
    open_answer(&w, &b, r);
    put_choice(&w, r, choice, s, n, finish);
    jw_end(&w);
    if (r->ask->usage) jw_null(&w, "usage");
    if (finish || (r->ask->timings && n)) reply_timings(r, &r->choice[choice], &w);
    jw_end(&w);
    reply_sse(out, NULL, &b);
    buf_release(&b);
}

/* Appends the chunks of an event to the stream. */
static void text_event(struct reply *r, const struct event *ev, struct buf *out) {
    struct buf b = {0};
    struct jw w;
    if (ev->kind == EV_ADMITTED)
        for (int i = 0; i < r->n_choices && r->ask->echo; i++) {
            const struct ask_prompt *p = &r->ask->prompt[i / r->ask->n];
            put_event(r, i, p->text ? p->text : "", p->len, NULL, out);
        }
    if (ev->kind == EV_CONTENT) put_event(r, ev->choice, ev->s, ev->n, NULL, out);
    if (ev->kind == EV_ENDED)
        put_event(r, ev->choice, "", 0, reply_finish(&r->choice[ev->choice]), out);
    if (ev->kind != EV_DONE) return;
    if (r->ask->usage) {
        open_answer(&w, &b, r);
        jw_end(&w);
        reply_usage(r, &w, "usage");
        reply_timings(r, &r->choice[0], &w);
        jw_end(&w);
        reply_sse(out, NULL, &b);
        buf_release(&b);
    }
    buf_str(out, "data: [DONE]\n\n");
}

/* Appends the whole answer as JSON, for requests without a stream. */
static void text_whole(struct reply *r, struct buf *out) {
    struct jw w;
    open_answer(&w, out, r);
    for (int i = 0; i < r->n_choices; i++) {
        const struct reply_choice *c = &r->choice[i];
        const struct ask_prompt *p = &r->ask->prompt[i / r->ask->n];
        struct buf text = {0};
        if (r->ask->echo && p->text) buf_add(&text, p->text, p->len);
        buf_add(&text, c->content.data ? c->content.data : "", c->content.len);
        put_choice(&w, r, i, text.data ? text.data : "", text.len, reply_finish(c));
        buf_release(&text);
    }
    jw_end(&w);
    reply_usage(r, &w, "usage");
    reply_timings(r, &r->choice[0], &w);
    jw_end(&w);
    buf_str(out, "\n");
}

const struct api api_text = {
    .name = "completions",
    .id = "cmpl-",
    .call_id = "call_",
    .stream_type = "text/event-stream",
    .ping = ": ping\n\n",
    .read = text_read,
    .event = text_event,
    .whole = text_whole,
    .fail = openai_fail,
};
