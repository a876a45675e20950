// SPDX-License-Identifier: MIT
/* serve/metrics.c - the request log and the metrics. Neither contains any text of prompts or
 * answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/attr.h"
#include "base/mem.h"
#include "serve/server.h"
#include "serve/record.h"
#include "text/utf8.h"

/* ---- metrics ---- */

/* Counts a request by its API and status; api NULL: the request has no API. */
static void count(struct server *s, const struct api *api, int status) {
    struct ledger *l = &s->ledger;
    const char *name = api ? api->name : "other";
    int i = 0;
    while (i < l->n && (l->row[i].status != status || strcmp(l->row[i].api, name) != 0)) i++;
    if (i == (int)COUNT_OF(l->row)) return;
    if (i == l->n) l->row[l->n++] = (struct ledger_row){name, status, 0};
    l->row[i].n++;
}

static const char *const miss_names[] = {"new", "no state", "not asked"};

void ledger_metrics(const struct ledger *l, struct buf *out) {
    static const char name[] = "hone_requests_total";
    buf_fmt(out, "# HELP %s finished requests\n# TYPE %s counter\n", name, name);
    for (int i = 0; i < l->n; i++)
        buf_fmt(out, "%s{api=\"%s\",status=\"%d\"} %" PRId64 "\n", name, l->row[i].api,
                l->row[i].status, l->row[i].n);
    buf_fmt(out,
            "# HELP hone_tool_calls_total tool calls in answers\n"
            "# TYPE hone_tool_calls_total counter\nhone_tool_calls_total %" PRId64 "\n",
            l->n_calls);
    buf_fmt(out,
            "# HELP hone_tool_calls_loose_total tool calls written as bare JSON\n"
            "# TYPE hone_tool_calls_loose_total counter\nhone_tool_calls_loose_total %" PRId64 "\n",
            l->n_loose);
    buf_fmt(out,
            "# HELP hone_tool_call_problems_total answers with malformed tool calls\n"
            "# TYPE hone_tool_call_problems_total counter\n"
            "hone_tool_call_problems_total %" PRId64 "\n",
            l->n_problems);
    buf_str(out, "# HELP hone_cache_misses_total prompts with 64 or more computed tokens\n"
                 "# TYPE hone_cache_misses_total counter\n");
    for (size_t i = 0; i < COUNT_OF(miss_names); i++)
        buf_fmt(out, "hone_cache_misses_total{reason=\"%s\"} %" PRId64 "\n", miss_names[i],
                l->n_missed[i]);
    histogram_put(&l->compile, "hone_grammar_compile_seconds",
                  "time to compile a schema, grammar or tool definitions", out);
    histogram_put(&l->queue, "hone_queue_seconds",
                  "time from the request to the start of its prompt", out);
    histogram_put(&l->first, "hone_first_token_seconds", "time from the request to the first token",
                  out);
    histogram_put(&l->request, "hone_request_seconds",
                  "time from the request to the end of its answer", out);
}

/* ---- the log ---- */

/* Begins a log line; j and api may be NULL. */
static void open_line(struct jw *w, struct buf *b, const struct job *j, const struct api *api,
                      int status) {
    char when[40];
    const time_t now = time(NULL);
    struct tm tm;
    const struct http_text *client = j ? http_find(&j->req, "user-agent") : NULL;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    jw_init(w, b, false);
    jw_obj(w, NULL);
    jw_str(w, "time", when);
    jw_str(w, "id", j ? j->id : "");
    jw_str(w, "api", api ? api->name : "other");
    jw_i64(w, "status", status);
    if (j) {
        char key[9];
        snprintf(key, sizeof key, "%08" PRIx32, (uint32_t)(j->key >> 32));
        jw_str(w, "key", key);
    }
    if (client) jw_strn(w, "client", client->s, client->n < 80 ? client->n : 80);
}

/* Ends the log line, passes it to the log and releases b. */
static void close_line(struct server *s, struct jw *w, struct buf *b) {
    jw_end(w);
    s->o.log(s->o.log_ud, b->data);
    buf_release(b);
}

/* Writes a text that may be as long as a request, truncated for the log. */
static void put_cut(struct jw *w, const char *name, const struct buf *text) {
    enum { LONGEST = 1000 };
    struct buf cut = {0};
    if (!text->len) return;
    if (text->len <= LONGEST) {
        jw_str(w, name, text->data);
        return;
    }
    buf_add(&cut, text->data, utf8_valid_prefix(text->data, LONGEST));
    buf_fmt(&cut, "... (%zu bytes)", text->len);
    jw_str(w, name, cut.data);
    buf_release(&cut);
}

static void put_asked(struct jw *w, const struct ask *a) {
    jw_bool(w, "stream", a->stream);
    if (!a->conv) return;
    jw_i64(w, "n_messages", a->n_messages);
    jw_i64(w, "n_tools", a->n_tools);
}

/* Returns the reasoning tokens of all choices. */
static int64_t count_thinking(const struct reply *r) {
    int64_t n = 0;
    for (int i = 0; i < r->n_choices; i++) n += r->choice[i].n_think;
    return n;
}

/* Returns why much of a prompt was computed (enum miss): it was new, it was seen before but no
 * state was kept to resume from, or the cache was off. Returns -1 if little was computed. */
static int miss_of(const struct task *t) {
    enum { WORTH = 64 };
    const struct reply *r = &t->reply;
    if (!t->admitted || r->n_prompt - r->n_cached < WORTH) return -1;
    if (t->ask.no_cache) return MISS_OFF;
    return r->n_known - r->n_cached >= WORTH ? MISS_STATE : MISS_NEW;
}

void ledger_task(struct server *s, const struct task *t, int status) {
    const struct reply *r = &t->reply;
    const struct reply_choice *c = &r->choice[0];
    const int miss = miss_of(t);
    struct buf b = {0};
    struct jw w;
    pthread_mutex_lock(&s->lock);
    count(s, t->api, status);
    if (miss >= 0) s->ledger.n_missed[miss]++;
    if (t->admitted) histogram_add(&s->ledger.queue, r->queue_s, 1);
    if (r->first_s > 0) histogram_add(&s->ledger.first, r->first_s, 1);
    histogram_add(&s->ledger.request, r->total_s, 1);
    for (int i = 0; i < r->n_choices; i++) {
        s->ledger.n_calls += r->choice[i].n_calls;
        s->ledger.n_loose += r->choice[i].n_loose;
        s->ledger.n_problems += r->choice[i].problems.len > 0;
    }
    pthread_mutex_unlock(&s->lock);
    if (!s->o.log) return;
    open_line(&w, &b, t->job, t->api, status);
    if (s->o.n_files > 1 && t->from) jw_str(&w, "model", t->from->file->id);
    put_asked(&w, &t->ask);
    jw_str(&w, "end", task_gone(t) ? "left" : record_end(t->failed ? END_FAILED : c->end));
    jw_i64(&w, "prompt_tokens", r->n_prompt);
    jw_i64(&w, "cached_tokens", r->n_cached);
    if (miss >= 0) {
        jw_i64(&w, "known_tokens", r->n_known);
        jw_str(&w, "cache_miss", miss_names[miss]);
    }
    jw_i64(&w, "output_tokens", reply_n_out(r));
    jw_i64(&w, "reasoning_tokens", count_thinking(r));
    jw_num(&w, "queue_s", r->queue_s);
    jw_num(&w, "prompt_s", r->prompt_s);
    jw_num(&w, "first_token_s", r->first_s);
    jw_num(&w, "generate_s", r->generate_s);
    if (r->generate_s > 0) jw_num(&w, "tokens_per_s", (double)reply_n_out(r) / r->generate_s);
    jw_u64(&w, "seed", r->seed);
    if (c->problems.len) jw_i64(&w, "n_problems", 1);
    if (c->n_loose) jw_i64(&w, "n_loose", c->n_loose);
    put_cut(&w, "ignored_fields", &t->ask.ignored);
    put_cut(&w, "left_out", &t->ask.warned);
    close_line(s, &w, &b);
}

void ledger_refused(struct server *s, const struct job *j, const struct fault *f) {
    const struct route *r = j->route;
    struct buf b = {0};
    struct jw w;
    pthread_mutex_lock(&s->lock);
    count(s, r ? r->api : NULL, f->status);
    pthread_mutex_unlock(&s->lock);
    if (!s->o.log) return;
    open_line(&w, &b, j, r ? r->api : NULL, f->status);
    jw_str(&w, "end", "refused");
    if (*f->param) jw_str(&w, "field", f->param);
    if (f->code) jw_str(&w, "code", f->code);
    close_line(s, &w, &b);
}
