// SPDX-License-Identifier: MIT
/* serve/replay.c - replay of recorded requests, and comparison of the new answers with the recorded
 * ones. */
#include "serve/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "serve/record.h"
#include "serve/server.h"

/* An answer without max_tokens may be TIMES as long as the recorded one, or LEAST tokens if that is
 * more. AT_ONCE: maximum requests in flight per live sequence. */
enum { TIMES = 4, LEAST = 256, AT_ONCE = 4 };

/* Ignores an event: a replay sends nothing. */
static void no_event(struct reply *r, const struct event *ev, struct buf *out) {
    (void)r, (void)ev, (void)out;
}
/* Writes nothing: recorded answers are compared, not sent. */
static void no_whole(struct reply *r, struct buf *out) {
    (void)r, (void)out;
}
/* Appends the fault's message; returns the HTTP status. */
static int only_status(const struct fault *f, const char *request_id, bool in_stream,
                       struct buf *out) {
    (void)request_id, (void)in_stream;
    buf_str(out, f->msg);
    return f->status;
}
static const struct api silent = {.name = "again",
                                  .id = "again_",
                                  .call_id = "call_",
                                  .event = no_event,
                                  .whole = no_whole,
                                  .fail = only_status};

/* ---- token comparison ---- */

struct asked { /* an answer in progress */
    struct replay *to;
    const struct tok *tok;
    const struct run *run;
    struct ids then; /* recorded tokens */
    int64_t n_same;  /* leading tokens equal to the recorded ones */
    float *logits;   /* logits from which the token after them was drawn; NULL: none yet */
    int64_t n_vocab, at;
};

/* Keeps the logits of the next token, as long as the answer equals the recorded one. */
static void keep_logits(void *ud, const float *logits, int64_t n) {
    struct asked *q = ud;
    const struct run *r = q->run;
    const int64_t at = r->all.n - r->n_prompt;
    while (q->n_same < at && q->n_same < q->then.n &&
           r->all.v[r->n_prompt + q->n_same] == q->then.v[q->n_same])
        q->n_same++;
    if (!q->to->comparable || q->n_same < at) return;
    if (!q->logits) q->logits = xcalloc((size_t)n, sizeof *q->logits);
    memcpy(q->logits, logits, (size_t)n * sizeof *logits);
    q->n_vocab = n;
    q->at = at;
}

/* Returns the probability of a token; id < 0: the total of all tokens that end an answer. */
static double probability(const struct asked *q, int32_t id) {
    double top = (double)-HUGE_VALF, sum = 0, of = 0;
    for (int64_t i = 0; i < q->n_vocab; i++) top = fmax(top, (double)q->logits[i]);
    for (int64_t i = 0; i < q->n_vocab; i++) {
        const double x = exp((double)q->logits[i] - top);
        sum += x;
        if (id < 0 ? tok_is_eog(q->tok, i) : i == id) of += x;
    }
    return sum > 0 ? of / sum : (double)NAN;
}

/* Finds the first token that differs from the recorded answer, and its probability. */
static void find_parted(struct asked *q) {
    struct replay *a = q->to;
    const struct run *r = q->run;
    const int64_t n = r->all.n - r->n_prompt;
    int64_t i = 0;
    while (i < n && i < q->then.n && r->all.v[r->n_prompt + i] == q->then.v[i]) i++;
    if (!a->comparable || (i == n && i == q->then.n)) return;
    a->parted = i;
    a->own = i < n ? r->all.v[r->n_prompt + i] : -1;
    a->was = i < q->then.n ? q->then.v[i] : -1;
    if (!q->logits || q->at != i) return; /* no logits: the token was not drawn */
    a->p_own = probability(q, a->own);
    a->p_was = probability(q, a->was);
}

/* Reads the recorded tokens, unless they give a different text in this model's vocabulary. */
static void read_then(struct asked *q, const struct json *own, int64_t n_vocab) {
    const struct json *list = json_get(own, "ids");
    const char *text = json_str(json_get(own, "text"));
    struct buf said = {0}, quoted = {0}, was = {0};
    bool ok = json_type(list) == JSON_ARR && text;
    for (const struct json *v = json_first(list); v && ok; v = json_next(v)) {
        int64_t id = -1;
        ok = json_i64(v, &id) && id >= 0 && id < n_vocab;
        if (!ok) break;
        ids_add(&q->then, (int32_t)id);
        tok_decode(q->tok, (int32_t)id, true, &said);
    }
    if (ok) { /* the record has replacements for invalid UTF-8 */
        json_quote(&quoted, said.data ? said.data : "", said.len);
        json_quote(&was, text, strlen(text));
        ok = quoted.len == was.len && memcmp(quoted.data, was.data, was.len) == 0;
    }
    if (!ok) q->then.n = 0;
    q->to->comparable = ok;
    buf_release(&said);
    buf_release(&quoted);
    buf_release(&was);
}

/* ---- answers ---- */

/* Appends `from`, which may be empty. */
static void append_text(struct buf *to, const struct buf *from) {
    buf_add(to, from->data ? from->data : "", from->len);
}

/* Copies the results of a finished task and frees its request. */
static void replay_done(struct task *t) {
    struct asked *q = t->ud;
    struct replay *a = q->to;
    const struct reply_choice *c = &t->reply.choice[0];
    const struct run *r = &t->run[0];
    struct jw w;
    append_text(&a->reasoning, &c->reasoning);
    append_text(&a->content, &c->content);
    jw_init(&w, &a->calls, false);
    jw_arr(&w, NULL);
    for (int i = 0; i < c->n_calls; i++) {
        jw_obj(&w, NULL);
        jw_str(&w, "name", c->call[i].name);
        jw_raw(&w, "arguments", c->call[i].args.len ? c->call[i].args.data : "{}");
        jw_end(&w);
    }
    jw_end(&w);
    a->end = t->failed ? END_FAILED : c->end;
    a->failed = t->failed;
    if (t->failed) snprintf(a->why, sizeof a->why, "%s", t->out.data ? t->out.data : "");
    a->thinking = c->n_out > 0 && c->n_think == c->n_out && !c->content.len && !c->n_calls;
    for (int64_t i = r->n_prompt; i < r->all.n; i++)
        tok_decode(q->tok, r->all.v[i], true, &a->text);
    a->n_prompt = t->reply.n_prompt;
    a->n_cached = t->reply.n_cached;
    a->n_out = c->n_out;
    if (!t->failed) find_parted(q);
    ids_release(&q->then);
    free(q->logits);
    free(q);
}

/* Returns the server's only file. */
static struct served *only(const struct server *s) {
    return s->models.v[0].served;
}

/* Adds a task to the engine and observes the tokens it draws. */
static void add_task(struct task *t, const struct json *own, struct replay *out) {
    struct asked *q = xcalloc(1, sizeof *q);
    const struct model *m = t->from->core.m;
    q->to = out;
    q->tok = m->tok;
    q->run = &t->run[0];
    read_then(q, own, m->hp.d[HD_VOCAB]);
    t->run[0].watch = keep_logits;
    t->ud = q;
    t->done = replay_done;
    t->ends = NULL; /* no client will send the answer back */
    sched_add(t->from->sched, t);
}

int replay_ask(struct server *s, const struct json *j, bool greedy, struct replay *out,
               struct err *e) {
    const struct json *own = json_get(j, "hone");
    struct served *d = only(s);
    struct ask a;
    struct fault f = {0};
    struct task *t = NULL;
    int64_t n_then = 0;
    memset(out, 0, sizeof *out);
    out->parted = -1;
    out->own = out->was = -1;
    out->p_own = out->p_was = (double)NAN;
    ask_init(&a, &d->file->sample, d->file->seed, -1);
    a.think = (enum ask_think)s->o.think;
    a.exact = true;
    int rc = record_ask(&a, j, greedy, e);
    (void)json_i64(json_get(json_get(own, "usage"), "output_tokens"), &n_then);
    if (a.n_max < 0) a.n_max = max_i64(LEAST, TIMES * max_i64(n_then, 0));
    if (!rc && prepare_task(d, NULL, &silent, &a, &t, &f)) {
        out->failed = true;
        out->end = END_FAILED;
        snprintf(out->why, sizeof out->why, "%.299s", f.msg);
    }
    ask_release(&a);
    if (!t) return rc;
    add_task(t, own, out);
    for (;;) { /* limits the requests in flight, because prompts take memory */
        const struct sched_counts n = sched_counts(d->sched);
        if (n.n_running + n.n_waiting <= (int64_t)AT_ONCE * s->o.n_live) return 0;
        sched_step(d->sched);
    }
}

void replay_finish(struct server *s) {
    for (;;) {
        const struct sched_counts n = sched_counts(only(s)->sched);
        if (!n.n_running && !n.n_waiting) return;
        sched_step(only(s)->sched);
    }
}

void replay_release(struct replay *a) {
    buf_release(&a->reasoning);
    buf_release(&a->content);
    buf_release(&a->calls);
    buf_release(&a->text);
    memset(a, 0, sizeof *a);
}
