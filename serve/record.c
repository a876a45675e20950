// SPDX-License-Identifier: MIT
/* serve/record.c - writer and reader of recorded requests and answers, which are JSON lines
 * (docs/formats/record.md). A line is a conversation that templates, calibration and test suites
 * can read. All other data are in its member "hone". */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "serve/record.h"
#include "serve/server.h"

static const char *const forms[] = {
    [FORM_FREE] = "free",   [FORM_OBJECT] = "object", [FORM_SCHEMA] = "schema",
    [FORM_REGEX] = "regex", [FORM_CHOICE] = "choice", [FORM_GRAMMAR] = "grammar",
    [FORM_TOOLS] = "tools"};
static const char *const ends[] = {"none", "turn", "stop", "calls", "length", "context", "failed"};

const char *record_end(enum reply_end end) {
    return ends[end];
}

static void put_text(struct jw *w, const char *name, const struct buf *b) {
    jw_strn(w, name, b->data ? b->data : "", b->len);
}

/* ---- the conversation ---- */

/* Writes the answer as a message. begun: text in the prompt that it continues, or NULL. */
static void put_answer(struct jw *w, const struct reply_choice *c, const char *begun) {
    struct buf text = {0};
    if (begun) buf_str(&text, begun);
    if (c->content.len) buf_add(&text, c->content.data, c->content.len);
    jw_obj(w, NULL);
    jw_str(w, "role", "assistant");
    put_text(w, "content", &text);
    if (c->reasoning.len) put_text(w, "reasoning_content", &c->reasoning);
    if (c->n_calls) jw_arr(w, "tool_calls");
    for (int i = 0; i < c->n_calls && c->call[i].done; i++) {
        jw_obj(w, NULL);
        jw_str(w, "id", c->call[i].id);
        jw_str(w, "type", "function");
        jw_obj(w, "function");
        jw_str(w, "name", c->call[i].name);
        jw_raw(w, "arguments", c->call[i].args.len ? c->call[i].args.data : "{}");
        jw_end(w);
        jw_end(w);
    }
    if (c->n_calls) jw_end(w);
    jw_end(w);
    buf_release(&text);
}

/* Returns the text of the last message, which the answer continues; the caller frees it. */
static char *begun_of(const struct json *conv) {
    const struct json *last = NULL;
    for (const struct json *m = json_first(json_get(conv, "messages")); m; m = json_next(m))
        last = m;
    const char *text = json_str(json_get(last, "content"));
    return xstrdup(text ? text : "");
}

/* Writes the messages that were rendered, then the answer and the tools. */
static void put_conv(struct jw *w, const struct json *conv, const struct reply_choice *c,
                     const char *begun) {
    jw_arr(w, "messages");
    for (const struct json *m = json_first(json_get(conv, "messages")); m; m = json_next(m)) {
        if (begun && !json_next(m)) break; /* the answer includes the last one */
        ask_put(w, NULL, m);
    }
    put_answer(w, c, begun);
    jw_end(w);
    ask_copy(w, "tools", conv, "tools");
}

/* Returns whether a member of a line belongs to the record format and is therefore not a template
 * variable. */
static bool is_own(const char *name) {
    static const char *const own[] = {"id",     "messages", "tools",  "hone",
                                      "expect", "checks",   "prompt", "text"};
    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (strcmp(name, own[i]) == 0) return true;
    return false;
}

/* Writes the template's variables that the client set. */
static void put_kwargs(struct jw *w, const struct ask *a) {
    struct json *j = NULL;
    struct buf b = {0};
    struct err ignored;
    buf_fmt(&b, "{%s}", a->kwargs.data ? a->kwargs.data : "");
    if (a->think != ASK_THINK_AUTO) jw_bool(w, "enable_thinking", a->think == ASK_THINK_ON);
    if (json_parse(&j, b.data, b.len, "kwargs", &ignored) == 0)
        for (const struct json *m = json_first(j); m; m = json_next(m)) {
            const bool said =
                a->think != ASK_THINK_AUTO && strcmp(json_name(m), "enable_thinking") == 0;
            if (!said && !is_own(json_name(m))) jw_copy(w, json_name(m), m);
        }
    json_free(j);
    buf_release(&b);
}

/* ---- the request ---- */

/* Writes the sampling options and the seed of the choice. */
static void put_sampling(struct jw *w, const struct task *t, int choice) {
    jw_obj(w, "sampling");
    put_sample(&t->ask.sample, w);
    jw_u64(w, "seed", t->reply.seed + (uint64_t)choice);
    jw_end(w);
}

/* Writes the request's limits and form. begun: as for put_answer. */
static void put_ask(struct jw *w, const struct task *t, const char *begun) {
    const struct ask *a = &t->ask;
    jw_obj(w, "ask");
    jw_i64(w, "max_tokens", a->n_max);
    if (a->n_stop) jw_arr(w, "stop");
    for (int i = 0; i < a->n_stop; i++) jw_str(w, NULL, a->stop[i]);
    if (a->n_stop) jw_end(w);
    if (begun) jw_str(w, "begun", begun);
    if (a->n_think >= 0) jw_i64(w, "thinking_budget", a->n_think);
    if (a->think_last) jw_str(w, "thinking_last", a->think_last);
    if (a->no_calls) jw_bool(w, "no_calls", true);
    if (a->must_call) jw_bool(w, "must_call", true);
    if (a->one_call) jw_bool(w, "one_call", true);
    if (a->strict_calls) jw_bool(w, "strict_calls", true);
    if (a->held) jw_bool(w, "held", true);
    if (a->only_tool) jw_str(w, "only_tool", a->only_tool);
    if (a->allowed) jw_raw(w, "allowed", a->allowed);
    if (a->form != FORM_FREE) {
        jw_str(w, "form", forms[a->form]);
        jw_str(w, "form_text", a->form_text);
        jw_bool(w, "form_strict", a->form_strict);
    }
    if (a->complete) jw_bool(w, "complete", true);
    jw_end(w);
}

/* ---- the outcome ---- */

/* Writes text and ids of the generated tokens. */
static void put_drawn(struct served *d, struct jw *w, const struct run *r) {
    struct buf text = {0};
    for (int64_t i = r->n_prompt; i < r->all.n; i++)
        tok_decode(d->core.m->tok, r->all.v[i], true, &text);
    put_text(w, "text", &text);
    jw_arr(w, "ids");
    for (int64_t i = r->n_prompt; i < r->all.n; i++) jw_i64(w, NULL, r->all.v[i]);
    jw_end(w);
    buf_release(&text);
}

/* Writes what the client received: reasoning, content, calls and problems. */
static void put_outcome(struct jw *w, const struct task *t, const struct reply_choice *c) {
    put_text(w, "reasoning", &c->reasoning);
    put_text(w, "content", &c->content);
    jw_arr(w, "tool_calls");
    for (int i = 0; i < c->n_calls && c->call[i].done; i++) {
        jw_obj(w, NULL);
        jw_str(w, "name", c->call[i].name);
        jw_raw(w, "arguments", c->call[i].args.len ? c->call[i].args.data : "{}");
        jw_end(w);
    }
    jw_end(w);
    jw_obj(w, "usage");
    jw_i64(w, "prompt_tokens", t->reply.n_prompt);
    jw_i64(w, "cached_tokens", t->reply.n_cached);
    jw_i64(w, "output_tokens", c->n_out);
    jw_i64(w, "reasoning_tokens", c->n_think);
    jw_end(w);
    jw_str(w, "end", task_gone(t) ? "left" : ends[t->failed ? END_FAILED : c->end]);
    if (c->n_loose) jw_i64(w, "loose_n", c->n_loose);
    if (c->problems.len) {
        struct buf list = {0};
        buf_fmt(&list, "[%s]", c->problems.data);
        jw_raw(w, "problems", list.data);
        buf_release(&list);
    }
}

/* Writes the record of choice i. begun: the text that the answer continues, or NULL. */
static void put_hone(struct served *d, struct jw *w, const struct task *t, int i,
                     const char *begun) {
    char when[40], id[33];
    struct tm tm;
    const time_t now = time(NULL);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    model_id(d->core.m, id);
    jw_obj(w, "hone");
    jw_str(w, "time", when);
    jw_str(w, "api", t->api->name);
    jw_str(w, "model", d->file->id);
    jw_str(w, "model_hash", id);
    jw_i64(w, "choice", i);
    put_drawn(d, w, &t->run[i]);
    put_outcome(w, t, &t->reply.choice[i]);
    put_sampling(w, t, i);
    put_ask(w, t, begun);
    jw_end(w);
}

/* Writes a prompt and the text that continues it as one document. */
static void put_document(struct served *d, struct jw *w, const struct run *r) {
    struct buf text = {0};
    for (int64_t i = 0; i < r->all.n; i++) tok_decode(d->core.m->tok, r->all.v[i], true, &text);
    put_text(w, "text", &text);
    jw_arr(w, "prompt_ids");
    for (int64_t i = 0; i < r->n_prompt; i++) jw_i64(w, NULL, r->all.v[i]);
    jw_end(w);
    buf_release(&text);
}

void record_task(struct served *d, const struct task *t) {
    struct json *conv = NULL;
    struct err ignored;
    char *begun = NULL;
    if (t->ask.conv && json_parse_mend(&conv, t->ask.conv, strlen(t->ask.conv), "", &ignored))
        return;
    if (t->ask.go_on) begun = begun_of(conv);
    for (int i = 0; i < t->reply.n_choices; i++) {
        struct buf b = {0};
        struct jw w;
        jw_init(&w, &b, false);
        jw_obj(&w, NULL);
        jw_str(&w, "id", t->job ? t->job->id : t->reply.id);
        if (t->ask.conv) {
            put_conv(&w, conv, &t->reply.choice[i], begun);
            put_kwargs(&w, &t->ask);
        } else {
            put_document(d, &w, &t->run[i]);
        }
        put_hone(d, &w, t, i, begun);
        jw_end(&w);
        d->server->o.record(d->server->o.record_ud, b.data);
        buf_release(&b);
    }
    json_free(conv);
    free(begun);
}

/* ---- reading ---- */

/* Reads recorded sampling settings; greedy: overrides the temperature. */
static void read_sampling(struct ask *a, const struct json *v, bool greedy) {
    struct sample_opts *o = &a->sample;
    int64_t n;
    o->temp = (float)json_num(json_get(v, "temperature"), (double)o->temp);
    o->top_p = (float)json_num(json_get(v, "top_p"), (double)o->top_p);
    o->min_p = (float)json_num(json_get(v, "min_p"), (double)o->min_p);
    o->repeat_penalty = (float)json_num(json_get(v, "repeat_penalty"), (double)o->repeat_penalty);
    o->presence_penalty =
        (float)json_num(json_get(v, "presence_penalty"), (double)o->presence_penalty);
    o->frequency_penalty =
        (float)json_num(json_get(v, "frequency_penalty"), (double)o->frequency_penalty);
    if (json_i64(json_get(v, "top_k"), &n) && n >= 0 && n <= INT32_MAX) o->top_k = (int32_t)n;
    if (json_i64(json_get(v, "repeat_last_n"), &n) && n >= 0 && n <= INT32_MAX)
        o->repeat_last_n = (int32_t)n;
    if (json_i64(json_get(v, "seed"), &n) && n >= 0) a->seed = n;
    if (greedy) o->temp = 0;
}

/* Returns a copy of a string, freed by the caller; NULL for other types. */
static char *text_of(const struct json *v) {
    return json_str(v) ? xstrdup(json_str(v)) : NULL;
}

/* Reads recorded limits and form. */
static void read_limits(struct ask *a, const struct json *v) {
    const char *form = json_str(json_get(v, "form"));
    struct buf names = {0};
    (void)json_i64(json_get(v, "max_tokens"), &a->n_max);
    (void)json_i64(json_get(v, "thinking_budget"), &a->n_think);
    a->think_last = text_of(json_get(v, "thinking_last"));
    a->only_tool = text_of(json_get(v, "only_tool"));
    a->no_calls = json_bool(json_get(v, "no_calls"), false);
    a->must_call = json_bool(json_get(v, "must_call"), false);
    a->one_call = json_bool(json_get(v, "one_call"), false);
    a->strict_calls = json_bool(json_get(v, "strict_calls"), false);
    a->held = json_bool(json_get(v, "held"), false);
    for (const struct json *s = json_first(json_get(v, "stop")); s && a->n_stop < ASK_STOPS;
         s = json_next(s))
        if (json_str(s) && *json_str(s)) a->stop[a->n_stop++] = xstrdup(json_str(s));
    if (json_type(json_get(v, "allowed")) == JSON_ARR) {
        json_write(&names, json_get(v, "allowed"));
        a->allowed = buf_take(&names);
    }
    for (size_t i = 0; form && i < COUNT_OF(forms); i++)
        if (strcmp(forms[i], form) == 0) a->form = (enum ask_form)i;
    if (a->form == FORM_TOOLS) a->form = FORM_FREE;
    a->form_text = text_of(json_get(v, "form_text"));
    if (a->form > FORM_OBJECT && !a->form_text) a->form = FORM_FREE;
    a->form_strict = json_bool(json_get(v, "form_strict"), false);
    a->complete = json_bool(json_get(v, "complete"), false);
    a->form_path = "form";
}

/* Reads recorded variables of the template. */
static void read_kwargs(struct ask *a, const struct json *j) {
    for (const struct json *m = json_first(j); m; m = json_next(m)) {
        struct buf text = {0};
        if (is_own(json_name(m))) continue;
        if (strcmp(json_name(m), "enable_thinking") == 0 && json_type(m) == JSON_BOOL) {
            a->think = json_bool(m, true) ? ASK_THINK_ON : ASK_THINK_OFF;
            continue;
        }
        json_write(&text, m);
        ask_kwarg(a, json_name(m), text.data);
        buf_release(&text);
    }
}

/* Reads all messages but the last, which is the answer. begun: start of the answer, as given by the
 * request, or NULL. */
static void read_conv(struct ask *a, const struct json *line, const char *begun) {
    const struct json *tools = json_get(line, "tools");
    struct buf out = {0};
    struct jw w;
    jw_init(&w, &out, false);
    jw_obj(&w, NULL);
    jw_arr(&w, "messages");
    for (const struct json *m = json_first(json_get(line, "messages")); json_next(m);
         m = json_next(m))
        ask_put(&w, NULL, m);
    if (begun) {
        jw_obj(&w, NULL);
        jw_str(&w, "role", "assistant");
        jw_str(&w, "content", begun);
        jw_end(&w);
    }
    jw_end(&w);
    ask_copy(&w, "tools", line, "tools");
    jw_end(&w);
    a->go_on = begun != NULL;
    a->conv = buf_take(&out);
    if (json_type(tools) == JSON_ARR && json_first(tools)) a->tools = ask_json(tools);
}

int record_ask(struct ask *a, const struct json *j, bool greedy, struct err *e) {
    const struct json *own = json_get(j, "hone"), *list = json_get(j, "messages"), *last = NULL;
    const struct json *ids = json_get(j, "prompt_ids");
    read_sampling(a, json_get(own, "sampling"), greedy);
    read_limits(a, json_get(own, "ask"));
    if (json_type(list) != JSON_ARR) {
        struct ask_prompt *p = &a->prompt[0];
        for (const struct json *v = json_first(ids); v; v = json_next(v)) {
            int64_t id;
            if (!json_i64(v, &id) || id < 0 || id > INT32_MAX) break;
            ids_add(&p->ids, (int32_t)id);
        }
        a->n_prompts = 1;
        return p->ids.n ? 0 : err_set(e, ERR_DATA, "neither \"messages\" nor \"prompt_ids\"");
    }
    for (const struct json *m = json_first(list); m; m = json_next(m)) last = m;
    const char *role = json_str(json_get(last, "role"));
    if (json_len(list) < 2 || !role || strcmp(role, "assistant") != 0)
        return err_set(e, ERR_DATA, "\"messages\" do not end with an answer");
    read_kwargs(a, j);
    read_conv(a, j, json_str(json_get(json_get(own, "ask"), "begun")));
    return 0;
}
