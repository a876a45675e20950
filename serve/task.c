// SPDX-License-Identifier: MIT
/* serve/task.c - tasks: turns events of the stream parsers into the response of an API. */
#include "serve/task.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"

enum { FULL = 1 << 20 };
#define PROGRESS_S 0.5 /* minimum time between progress events */

struct task *task_new(struct job *j, const struct api *api, struct ask *a, const struct ids *prompt,
                      int n_prompts) {
    struct task *t = xcalloc(1, sizeof *t);
    t->job = j;
    t->api = api;
    t->ask = *a;
    memset(a, 0, sizeof *a);
    t->t_arrive = j ? j->t_arrive : progress_now_s();
    t->key = j ? j->key : 0;
    reply_init(&t->reply, &t->ask, n_prompts * t->ask.n);
    t->run = xcalloc((size_t)t->reply.n_choices, sizeof *t->run);
    for (int i = 0; i < t->reply.n_choices; i++) {
        const struct ids *p = &prompt[i / t->ask.n];
        struct run *r = &t->run[i];
        r->task = t;
        r->choice = i;
        for (int64_t k = 0; k < p->n; k++) ids_add(&r->all, p->v[k]);
        r->n_prompt = p->n;
        if (i % t->ask.n == 0) t->reply.n_prompt += p->n;
    }
    if (j) job_hold(j);
    return t;
}

void task_free(struct task *t) {
    if (!t) return;
    for (int i = 0; i < t->reply.n_choices; i++) {
        struct run *r = &t->run[i];
        ids_release(&r->all);
        ids_release(&r->force);
        sampler_free(r->sampler);
        parser_free(r->speak);
        tok_stream_free(r->stream);
        guard_release(&r->guard);
    }
    free(t->run);
    reply_release(&t->reply);
    ask_release(&t->ask);
    buf_release(&t->out);
    job_drop(t->job);
    if (t->freed) t->freed(t->from);
    free(t);
}

bool task_gone(const struct task *t) {
    return t->job && atomic_load(&t->job->gone);
}
bool task_full(const struct task *t) {
    return t->job && atomic_load(&t->job->ahead) > FULL;
}

/* Appends to the client's output, or to t->out without a client. */
static void write_out(struct task *t, const struct buf *b) {
    if (t->job)
        job_write(t->job, b->data ? b->data : "", b->len);
    else
        buf_add(&t->out, b->data ? b->data : "", b->len);
}

/* Writes an event in the API's form. */
static void stream_event(struct task *t, const struct event *ev) {
    struct buf b = {0};
    t->api->event(&t->reply, ev, &b);
    write_out(t, &b);
    buf_release(&b);
}

void task_will_stream(struct job *j, const struct api *api) {
    const bool events = strcmp(api->stream_type, "text/event-stream") == 0;
    job_will_stream(j, api->stream_type, events ? NULL : api->ping); /* a comment */
}

void task_wait(struct task *t) {
    if (t->job && t->ask.stream) task_will_stream(t->job, t->api);
}

void task_admit(struct task *t, int64_t n_cached) {
    if (t->admitted) return;
    t->admitted = true;
    t->t_admitted = progress_now_s();
    t->reply.queue_s = t->t_admitted - t->t_arrive;
    t->reply.n_cached = n_cached;
    if (!t->ask.stream) return;
    if (t->job) job_stream(t->job, t->api->stream_type, t->api->ping);
    stream_event(t, &(struct event){.kind = EV_ADMITTED});
}

/* Updates the times that the prompt and the answer have taken so far. */
static void set_times(struct task *t, const struct run *r) {
    const double now = progress_now_s();
    if (!t->admitted) return;
    t->reply.prompt_s = (r->t_ready > 0 ? r->t_ready : now) - t->t_admitted;
    t->reply.generate_s = r->t_ready > 0 ? now - r->t_ready : 0;
}

void task_progress(struct run *r, int64_t done) {
    struct task *t = r->task;
    const double now = progress_now_s();
    if (!t->ask.progress || !t->ask.stream || t->failed) return;
    if (done < r->n_prompt && now - t->t_progress < PROGRESS_S) return;
    t->t_progress = now;
    set_times(t, r);
    stream_event(t, &(struct event){.kind = EV_PROGRESS, .choice = r->choice, .n = (size_t)done});
}

void task_event(void *ud, const struct event *ev) {
    struct task *t = ud;
    set_times(t, &t->run[ev->choice]);
    reply_add(&t->reply, ev, t->api->call_id);
    if (t->ask.stream) stream_event(t, ev);
}

/* Sends the end of the stream, or the whole answer, and calls t->done. */
static void finish_task(struct task *t) {
    t->reply.total_s = progress_now_s() - t->t_arrive;
    if (t->ask.stream) {
        stream_event(t, &(struct event){.kind = EV_DONE});
        if (t->job) job_end(t->job, false);
    } else {
        struct buf b = {0};
        t->api->whole(&t->reply, &b);
        if (t->job)
            job_answer(t->job, 200, "application/json", b.data, b.len);
        else
            write_out(t, &b);
        buf_release(&b);
    }
    if (t->done) t->done(t);
}

void task_end_run(struct run *r, enum reply_end end, const char *stop) {
    struct task *t = r->task;
    struct reply_choice *c = &t->reply.choice[r->choice];
    r->ended = true;
    c->end = end;
    c->stop = stop;
    t->n_ended++;
    set_times(t, r);
    if (t->failed) return;
    if (t->ends) t->ends(t, c);
    const struct event ev = {.kind = EV_ENDED, .choice = r->choice};
    if (t->ask.stream) stream_event(t, &ev);
    if (t->n_ended == t->reply.n_choices) finish_task(t);
}

void task_fail(struct task *t, const struct fault *f) {
    struct buf b = {0};
    if (t->failed) return;
    t->failed = true;
    const bool began = t->job ? job_began(t->job) : t->admitted && t->ask.stream;
    const int status = t->status = t->api->fail(f, t->job ? t->job->id : "", began, &b);
    if (!t->job) {
        write_out(t, &b);
    } else if (began) {
        job_write(t->job, b.data, b.len);
        job_end(t->job, false);
    } else {
        if (status == 429 || status == 503 || status == 529) job_field(t->job, "retry-after", "1");
        job_answer(t->job, status, "application/json", b.data, b.len);
    }
    buf_release(&b);
    t->reply.total_s = progress_now_s() - t->t_arrive;
    if (t->done) t->done(t);
}
