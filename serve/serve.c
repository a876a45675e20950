// SPDX-License-Identifier: MIT
/* serve/serve.c - the threads of a server (serve.h), and what goes from one to the other.
 *
 *   network:  bytes -> job         routes.c; answers what costs nothing
 *   prepare:  job -> task          JSON, template, tokens: prepare.c
 *   compile:  task -> task         schemas and grammars that are not known yet: guard.c
 *   engine:   task -> bytes        passes, sampling, events: sched.c, task.c
 *
 * Sequences and what is kept belong to the engine alone, so there are no locks in it. */
#include "serve/serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/ctx.h"
#include "core/mem.h"
#include "core/prog.h"
#include "serve/server.h"

/* ---- the thread that prepares ---- */

static void *prepare_main(void *ud) {
    struct server *s = ud;
    ctx_enter(s->ctx);
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->jobs.n && !atomic_load(&s->stop)) pthread_cond_wait(&s->to_prepare, &s->lock);
        struct job *j = NULL;
        if (s->jobs.n) {
            j = s->jobs.v[0];
            memmove(s->jobs.v, s->jobs.v + 1, (size_t)--s->jobs.n * sizeof(void *));
        }
        pthread_mutex_unlock(&s->lock);
        if (!j) return NULL;
        if (!atomic_load(&j->gone)) {
            prepare_job(s, j);
        } else {
            pthread_mutex_lock(&s->lock);
            s->n_left++;
            pthread_mutex_unlock(&s->lock);
        }
        job_drop(j);
    }
}

/* ---- the threads that compile ---- */

void serve_compile(struct server *s, struct task *t) {
    t->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->last_form = t;
    s->last_form = &t->next;
    pthread_cond_signal(&s->to_compile);
    pthread_mutex_unlock(&s->lock);
}

static void *compile_main(void *ud) {
    struct server *s = ud;
    ctx_enter(s->ctx);
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->forms && !atomic_load(&s->stop)) pthread_cond_wait(&s->to_compile, &s->lock);
        struct task *t = atomic_load(&s->stop) ? NULL : s->forms;
        if (t) s->forms = t->next;
        if (!s->forms) s->last_form = &s->forms;
        pthread_mutex_unlock(&s->lock);
        if (!t) return NULL;
        t->next = NULL;
        prepare_form(t);
    }
}

/* ---- the engine ---- */

static int n_runs(const struct task *t) {
    return t->reply.n_choices;
}

void serve_submit(struct server *s, struct task *t) {
    struct fault f;
    task_wait(t);
    pthread_mutex_lock(&s->lock);
    const int64_t in = s->served->counts.n_running + s->served->counts.n_waiting + s->n_tasks;
    const bool full = in + n_runs(t) > s->o.n_queue + s->o.n_live;
    if (!full) {
        t->next = s->tasks;
        s->tasks = t;
        s->n_tasks += n_runs(t);
        pthread_cond_signal(&s->to_engine);
    }
    pthread_mutex_unlock(&s->lock);
    if (!full) return;
    fault_set(&f, 429, NULL, NULL, "%d requests wait already; try again in 1s", s->o.n_queue);
    task_fail(t, &f);
    task_free(t);
}

/* Waits for work; not for ever where there is something to do when none comes. */
static bool wait_for_work(struct server *s) {
    struct timespec until;
    if (!sched_has_chores(s->served->sched)) return pthread_cond_wait(&s->to_engine, &s->lock) == 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 300000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&s->to_engine, &s->lock, &until) == 0;
}

/* Takes what came, in the order in which it came, and tells how things stand. */
static void exchange(struct server *s, bool wait) {
    struct buf slots = {0};
    struct jw w;
    jw_init(&w, &slots, false);
    jw_arr(&w, NULL);
    sched_slots(s->served->sched, &w);
    jw_end(&w);
    pthread_mutex_lock(&s->lock);
    s->served->counts = sched_counts(s->served->sched);
    buf_release(&s->served->slots);
    s->served->slots = slots;
    while (wait && !s->tasks && !atomic_load(&s->stop) && !atomic_load(&s->late))
        if (!wait_for_work(s)) break;
    struct task *came = s->tasks, *ordered = NULL;
    s->tasks = NULL;
    s->n_tasks = 0;
    pthread_mutex_unlock(&s->lock);
    while (came) {
        struct task *next = came->next;
        came->next = ordered;
        ordered = came;
        came = next;
    }
    while (ordered) {
        struct task *next = ordered->next;
        sched_add(s->served->sched, ordered);
        ordered = next;
    }
}

/* Tells whether answers are under way or wait, though the engine found nothing to compute: a reader
 * is slow, or a queue waits behind one. */
static bool stuck(const struct server *s) {
    const struct sched_counts n = sched_counts(s->served->sched);
    return n.n_running + n.n_waiting > 0;
}

static void *engine_main(void *ud) {
    struct server *s = ud;
    bool busy = true;
    ctx_enter(s->ctx);
    while (!atomic_load(&s->stop)) {
        struct fault f;
        fault_set(&f, 503, NULL, NULL, "the server is stopping");
        if (atomic_load(&s->late)) sched_fail_all(s->served->sched, &f);
        const bool waits = !busy && stuck(s);
        if (waits) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        exchange(s, !busy && !waits);
        busy = sched_step(s->served->sched);
    }
    return NULL;
}

/* ---- start and end ---- */

static bool on_tick(void *ud) {
    struct server *s = ud;
    if (!prog_interrupted()) return true;
    if (!atomic_exchange(&s->drain, true)) s->t_drain = prog_now_s();
    const double late = prog_now_s() - s->t_drain - s->o.drain_s;
    if (late > 0 && !atomic_exchange(&s->late, true)) {
        pthread_mutex_lock(&s->lock);
        pthread_cond_broadcast(&s->to_engine);
        pthread_mutex_unlock(&s->lock);
    }
    if (late > 2) atomic_store(&s->stop, true);
    return false;
}

int serve_new(struct server **out, const struct serve_opts *o, struct err *e) {
    struct server *s = xcalloc(1, sizeof *s);
    struct net_opts no = o->net;
    s->o = *o;
    s->ctx = ctx_current();
    s->created = (int64_t)time(NULL);
    s->t_start = prog_now_s();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->to_prepare, NULL);
    pthread_cond_init(&s->to_engine, NULL);
    pthread_cond_init(&s->to_compile, NULL);
    s->last_form = &s->forms;
    s->restore = restore_new();
    no.ops = (struct net_ops){s, route_head, route_request, route_error, on_tick};
    int rc = served_new(&s->served, s, &o->file, &o->core, e);
    if (!rc && no.n_hosts) rc = net_new(&s->net, &no, e);
    if (rc) {
        serve_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

int serve_port(const struct server *s) {
    return net_port(s->net);
}

bool serve_has_shelf(const struct server *s) {
    return s->served->shelf != NULL;
}

static void end_threads(struct server *s) {
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stop, true);
    pthread_cond_broadcast(&s->to_prepare);
    pthread_cond_broadcast(&s->to_engine);
    pthread_cond_broadcast(&s->to_compile);
    pthread_mutex_unlock(&s->lock);
    if (s->has_prepare) pthread_join(s->prepare, NULL);
    if (s->has_engine) pthread_join(s->engine, NULL);
    while (s->n_compilers > 0) pthread_join(s->compiler[--s->n_compilers], NULL);
    s->has_prepare = s->has_engine = false;
}

int serve_run(struct server *s, struct err *e) {
    s->has_prepare = pthread_create(&s->prepare, NULL, prepare_main, s) == 0;
    s->has_engine = pthread_create(&s->engine, NULL, engine_main, s) == 0;
    while (s->n_compilers < SERVE_COMPILERS &&
           pthread_create(&s->compiler[s->n_compilers], NULL, compile_main, s) == 0)
        s->n_compilers++;
    int rc =
        s->has_prepare && s->has_engine && s->n_compilers ? 0 : err_sys(e, "cannot start a thread");
    if (!rc) rc = net_run(s->net, &s->stop, e);
    end_threads(s);
    return rc;
}

void serve_free(struct server *s) {
    if (!s) return;
    end_threads(s);
    for (struct task *t = s->tasks, *next; t; t = next) {
        next = t->next;
        task_free(t);
    }
    for (struct task *t = s->forms, *next; t; t = next) {
        next = t->next;
        task_free(t);
    }
    for (int i = 0; i < s->jobs.n; i++) job_drop(s->jobs.v[i]);
    served_free(s->served);
    restore_free(s->restore);
    net_free(s->net);
    free(s->jobs.v);
    pthread_cond_destroy(&s->to_prepare);
    pthread_cond_destroy(&s->to_engine);
    pthread_cond_destroy(&s->to_compile);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
