// SPDX-License-Identifier: MIT
/* serve/serve.c - the server's threads and the queues between them.
 *
 *   network:  bytes -> job         routes.c; answers cheap requests itself
 *   prepare:  job -> task          JSON, template, tokens: prepare.c, prompt.c
 *   compile:  task -> task         schemas and grammars not yet cached: constraint.c
 *   engine:   task -> bytes        passes, sampling, events: sched.c, task.c
 *
 * Sequences and the prefix cache belong to the engine thread alone, which needs no locks for
 * them. */
#include "serve/serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/progress.h"
#include "serve/server.h"

/* ---- preparing thread ---- */

void serve_hand(struct server *s, struct job *j, struct served *d) {
    if (s->jobs.n == s->jobs.cap) {
        s->jobs.cap = s->jobs.cap ? 2 * s->jobs.cap : 16;
        s->jobs.v = xreallocarray(s->jobs.v, (size_t)s->jobs.cap, sizeof *s->jobs.v);
    }
    s->jobs.v[s->jobs.n++] = (struct handed){j, d};
    pthread_cond_signal(&s->to_prepare);
}

/* Prepares jobs until the server stops; ud: the server. */
static void *prepare_main(void *ud) {
    struct server *s = ud;
    ctx_enter(s->ctx);
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->jobs.n && !atomic_load(&s->stop)) pthread_cond_wait(&s->to_prepare, &s->lock);
        struct handed h = {0};
        if (s->jobs.n) {
            h = s->jobs.v[0];
            memmove(s->jobs.v, s->jobs.v + 1, (size_t)--s->jobs.n * sizeof *s->jobs.v);
        }
        pthread_mutex_unlock(&s->lock);
        if (!h.j) return NULL;
        if (!atomic_load(&h.j->gone)) {
            prepare_job(s, &h);
        } else {
            pthread_mutex_lock(&s->lock);
            s->n_left++;
            pthread_mutex_unlock(&s->lock);
            if (h.d) models_drop(h.d);
        }
        job_drop(h.j);
    }
}

/* ---- compiler threads ---- */

void serve_compile(struct server *s, struct task *t) {
    t->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->last_form = t;
    s->last_form = &t->next;
    pthread_cond_signal(&s->to_compile);
    pthread_mutex_unlock(&s->lock);
}

/* Compiles the grammars of tasks until the server stops; ud: the server. */
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

/* ---- engine thread ---- */

/* Returns the number of answers that the task generates. */
static int n_runs(const struct task *t) {
    return t->reply.n_choices;
}

bool serve_is_full(const struct server *s, int64_t n) {
    n += s->n_tasks + s->models.n_waiting;
    for (int i = 0; i < s->o.n_files; i++) {
        const struct served *d = s->models.v[i].served;
        if (d) n += d->counts.n_running + d->counts.n_waiting;
    }
    return n > s->o.n_queue + s->o.n_live;
}

void serve_submit(struct server *s, struct task *t) {
    struct fault f;
    task_wait(t);
    pthread_mutex_lock(&s->lock);
    const bool full = serve_is_full(s, n_runs(t));
    if (!full) {
        t->next = s->tasks;
        s->tasks = t;
        s->n_tasks += n_runs(t);
        pthread_cond_signal(&s->to_engine);
    }
    pthread_mutex_unlock(&s->lock);
    if (!full) return;
    fault_set(&f, 429, NULL, NULL, "%d requests are already waiting; try again in 1s",
              s->o.n_queue);
    task_fail(t, &f);
    task_free(t);
}

/* Returns whether any scheduler has background work, such as writing to disk. */
static bool has_chores(const struct server *s) {
    for (int i = 0; i < s->n_active; i++)
        if (sched_has_chores(s->active[i]->sched)) return true;
    return false;
}

bool serve_wait(struct server *s, pthread_cond_t *c, int64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += (time_t)(ms / 1000) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(c, &s->lock, &until) == 0;
}

/* Waits for work. Returns false if none came within 300 ms and there is background work. */
static bool wait_for_work(struct server *s) {
    if (has_chores(s)) return serve_wait(s, &s->to_engine, 300);
    return pthread_cond_wait(&s->to_engine, &s->lock) == 0;
}

/* Publishes the counts and slots of a loaded file. Call with s->lock held. */
static void report(struct served *d) {
    struct jw w;
    buf_reset(&d->slots);
    jw_init(&w, &d->slots, false);
    jw_arr(&w, NULL);
    sched_slots(d->sched, d->server->o.n_files > 1 ? d->file->id : NULL, &w);
    jw_end(&w);
    d->counts = sched_counts(d->sched);
}

/* Updates the engine's list of loaded files, and releases files that are to be closed. Call with
 * s->lock held. */
static void engage(struct server *s) {
    s->models.changed = false;
    s->n_active = 0;
    for (int i = 0; i < s->o.n_files; i++) {
        struct listed *l = &s->models.v[i];
        const bool engaged = l->state == MODEL_LOADED;
        if (l->engaged && !engaged) pthread_cond_signal(&s->models.to_keeper);
        l->engaged = engaged;
        if (engaged) s->active[s->n_active++] = l->served;
    }
}

/* Publishes the engine's state and takes new tasks, in order of arrival. */
static void exchange(struct server *s, bool wait) {
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_active; i++) report(s->active[i]);
    while (wait && !s->tasks && !s->models.changed && !atomic_load(&s->stop) &&
           !atomic_load(&s->late))
        if (!wait_for_work(s)) break;
    if (s->models.changed) engage(s);
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
        sched_add(ordered->from->sched, ordered);
        ordered = next;
    }
}

/* Returns whether answers are unfinished although there is nothing to compute now. This happens
 * when a client reads slowly; other answers may have to wait for that client's answer. */
static bool stuck(const struct server *s) {
    int64_t n = 0;
    for (int i = 0; i < s->n_active; i++) {
        const struct sched_counts c = sched_counts(s->active[i]->sched);
        n += c.n_running + c.n_waiting;
    }
    return n > 0;
}

/* Runs one pass of each loaded file that has work. Returns whether any had. */
static bool step_all(struct server *s) {
    bool busy = false;
    for (int i = 0; i < s->n_active; i++) {
        struct sched *c = s->active[i]->sched;
        struct err why;
        busy |= sched_step(c);
        if (atomic_load(&s->lost) || !sched_lost(c, &why)) continue;
        log_warn("the server is shutting down: %s", why.msg);
        s->wrong = why;
        atomic_store(&s->lost, true);
    }
    return busy;
}

/* Runs the models until the server stops; ud: the server. */
static void *engine_main(void *ud) {
    struct server *s = ud;
    bool busy = true;
    ctx_enter(s->ctx);
    while (!atomic_load(&s->stop)) {
        struct fault f;
        fault_set(&f, 503, NULL, NULL, "the server is stopping");
        for (int i = 0; i < s->n_active && atomic_load(&s->late); i++)
            sched_fail_all(s->active[i]->sched, &f);
        const bool waits = !busy && stuck(s);
        if (waits) os_sleep_ms(5);
        exchange(s, !busy && !waits);
        busy = step_all(s);
    }
    return NULL;
}

/* ---- start and end ---- */

/* Drains and then stops the server after an interruption. False: it is stopping. */
static bool on_tick(void *ud) {
    struct server *s = ud;
    if (!progress_interrupted() && !atomic_load(&s->lost)) return true;
    if (!atomic_exchange(&s->drain, true)) {
        s->t_drain = progress_now_s();
        models_wake(s);
    }
    const double late = progress_now_s() - s->t_drain - s->o.drain_s;
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
    s->t_start = progress_now_s();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->to_prepare, NULL);
    pthread_cond_init(&s->to_engine, NULL);
    pthread_cond_init(&s->to_compile, NULL);
    pthread_cond_init(&s->models.to_keeper, NULL);
    s->last_form = &s->forms;
    s->restore = history_new();
    no.ops = (struct net_ops){s, route_head, route_request, route_error, on_tick};
    s->active = xcalloc((size_t)o->n_files, sizeof(void *));
    int rc = os_random(&s->image_key, sizeof s->image_key) ? 0 : err_sys(e, "random numbers");
    if (!rc) rc = models_open(s, e);
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
    const struct served *only = s->o.n_files == 1 ? s->models.v[0].served : NULL;
    return s->o.cache_dir && (!only || only->shelf);
}

int serve_load_ready(void *ud, int i, struct serve_core *out, struct err *e) {
    (void)e;
    *out = ((const struct serve_core *)ud)[i];
    return 0;
}

/* Stops and joins all threads. */
static void end_threads(struct server *s) {
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stop, true);
    pthread_cond_broadcast(&s->to_prepare);
    pthread_cond_broadcast(&s->to_engine);
    pthread_cond_broadcast(&s->to_compile);
    pthread_cond_broadcast(&s->models.to_keeper);
    pthread_mutex_unlock(&s->lock);
    if (s->has_prepare) pthread_join(s->prepare, NULL);
    if (s->has_engine) pthread_join(s->engine, NULL);
    while (s->n_compilers > 0) pthread_join(s->compiler[--s->n_compilers], NULL);
    if (s->models.has_keeper) pthread_join(s->models.keeper, NULL);
    s->has_prepare = s->has_engine = s->models.has_keeper = false;
}

int serve_run(struct server *s, struct err *e) {
    s->has_prepare = pthread_create(&s->prepare, NULL, prepare_main, s) == 0;
    s->has_engine = pthread_create(&s->engine, NULL, engine_main, s) == 0;
    while (s->n_compilers < SERVE_COMPILERS &&
           pthread_create(&s->compiler[s->n_compilers], NULL, compile_main, s) == 0)
        s->n_compilers++;
    int rc =
        s->has_prepare && s->has_engine && s->n_compilers ? 0 : err_sys(e, "cannot start a thread");
    if (!rc) rc = models_start(s, e);
    if (!rc) rc = net_run(s->net, &s->stop, e);
    end_threads(s);
    if (!rc && atomic_load(&s->lost)) {
        *e = s->wrong;
        rc = (int)e->code;
    }
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
    for (int i = 0; i < s->jobs.n; i++) job_drop(s->jobs.v[i].j);
    models_free(s);
    free(s->active);
    history_free(s->restore);
    net_free(s->net);
    free(s->jobs.v);
    pthread_cond_destroy(&s->to_prepare);
    pthread_cond_destroy(&s->to_engine);
    pthread_cond_destroy(&s->to_compile);
    pthread_cond_destroy(&s->models.to_keeper);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
