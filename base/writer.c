// SPDX-License-Identifier: MIT
/* base/writer.c - background writer thread. Buffer i of the ring belongs to the writer thread while
 * n_done <= i < n_put, otherwise to the caller. */
#include "base/writer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/mem.h"

struct slot {
    uint8_t *p;
    uint64_t cap, n;
    writer_fn fn;
    void *ctx;
    int64_t tag;
};
struct writer {
    struct slot slot[WRITER_BUFFERS];
    pthread_t thread;
    struct ctx *ctx; /* the caller's context, used by the thread */
    bool started;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    uint64_t n_put, n_done; /* buffers put and done so far */
    bool stop;
    struct err bad; /* first failure; code 0: none */
};

/* Runs the writing thread: takes buffers in order, skipping them after an error. */
static void *writer_main(void *arg) {
    struct writer *w = arg;
    ctx_enter(w->ctx);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->n_done == w->n_put && !w->stop) pthread_cond_wait(&w->changed, &w->lock);
        if (w->n_done == w->n_put) break;
        const struct slot *s = &w->slot[w->n_done % WRITER_BUFFERS];
        struct err e = {0};
        bool skip = w->bad.code != ERR_OK;
        pthread_mutex_unlock(&w->lock);
        if (!skip && s->fn(s->ctx, s->tag, s->p, s->n, &e) == 0) e.code = ERR_OK;
        pthread_mutex_lock(&w->lock);
        if (!skip) w->bad = e;
        w->n_done++;
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int writer_new(struct writer **out, struct err *e) {
    struct writer *w = xcalloc(1, sizeof *w);
    w->ctx = ctx_current();
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    int rc = pthread_create(&w->thread, NULL, writer_main, w);
    w->started = rc == 0;
    *out = w;
    if (w->started) return 0;
    writer_free(w);
    *out = NULL;
    return err_set(e, ERR_SYS, "cannot start the writing thread: %s", strerror(rc));
}

/* Waits until at most n buffers remain to be written. */
static int wait_for(struct writer *w, uint64_t n, struct err *e) {
    pthread_mutex_lock(&w->lock);
    while (w->n_put - w->n_done > n) pthread_cond_wait(&w->changed, &w->lock);
    int rc = (int)w->bad.code;
    if (rc) *e = w->bad;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int writer_buffer(struct writer *w, uint64_t n, uint8_t **p, struct err *e) {
    TRY(wait_for(w, WRITER_BUFFERS - 1, e));
    struct slot *s = &w->slot[w->n_put % WRITER_BUFFERS];
    if (n > s->cap) {
        void *mem;
        mem_free(s->p);
        s->p = NULL;
        s->cap = 0;
        TRY(mem_alloc(&mem, n, "rows to be written", e));
        s->p = mem;
        s->cap = n;
    }
    *p = s->p;
    return 0;
}

void writer_put(struct writer *w, uint64_t n, writer_fn fn, void *ctx, int64_t tag) {
    pthread_mutex_lock(&w->lock);
    struct slot *s = &w->slot[w->n_put++ % WRITER_BUFFERS];
    s->n = n;
    s->fn = fn;
    s->ctx = ctx;
    s->tag = tag;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

int writer_flush(struct writer *w, struct err *e) {
    return wait_for(w, 0, e);
}

void writer_free(struct writer *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->started) pthread_join(w->thread, NULL);
    for (int i = 0; i < WRITER_BUFFERS; i++) mem_free(w->slot[i].p);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
