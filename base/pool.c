// SPDX-License-Identifier: MIT
/* base/pool.c - thread pool.
 *
 * One job at a time. `ticket` holds the job's number (upper half) and the number of chunks not yet
 * handed out (lower half). A worker takes a chunk by compare-and-swap; if that succeeds, the job
 * that the worker read is still running. `left` counts unfinished chunks. pool_for therefore waits
 * for chunks, not for workers: a worker that is still asleep delays nothing. Inference calls this
 * hundreds of times per token, so idle workers spin briefly before they sleep, unless there are
 * more threads than processors.
 *
 * Sleeping: a worker increments `n_asleep` before its last look at the ticket, and the caller
 * publishes the ticket before it looks at n_asleep (both sequentially consistent), so no wake-up is
 * missed. The same holds for `caller_asleep` and `left`. Values are published by exchange, not by
 * store: QEMU on x86 lets an ARM64 load (LDAR) pass the preceding store (STLR), which no ARM64
 * processor does. Workers excluded by pool_use wait elsewhere, so that they are not woken for every
 * job.
 *
 * Jobs of several callers take turns with the lock `turn`. Each thread knows which pool's chunk it
 * is running (`inside`). A job started within a job of the same pool would wait for itself forever;
 * it is recognised and runs entirely in its worker.
 *
 * With several memory nodes (base/numa.h) every worker stays on its node; worker 0, the caller's
 * thread, is not pinned. */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/numa.h"

enum { THREADS_MAX = 1024, SPIN_NS = 40000, LINE = 64 };

struct worker {
    struct pool *pool;
    int index;
    pthread_t thread;
};
/* Padded on purpose, so that data written by different threads occupies separate cache lines.
 * NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pool {
    int n_threads;
    bool spins;
    struct worker *worker; /* [n_threads]; worker 0 is the caller, without a thread */
    int n_started;
    pthread_mutex_t lock;
    pthread_cond_t wake, done, parked;
    pthread_mutex_t turn; /* held by the caller whose job is running */
    bool is_free;

    _Alignas(LINE) _Atomic uint64_t ticket;
    _Alignas(LINE) _Atomic int64_t left;
    _Alignas(LINE) atomic_int n_asleep;
    atomic_bool caller_asleep, stop;
    atomic_int n_used; /* number of active workers */
    /* The job. Atomic, because a late worker may read it while the next job is written. The
     * worker's compare-and-swap then fails, and the values are not used. */
    _Atomic pool_fn fn;
    _Atomic(void *) ctx;
    _Atomic(struct ctx *) job_of; /* the context used by workers during the job */
    _Atomic int64_t n_items, chunk, n_chunks, first;
};

/* The pool whose chunk this thread is running, and the thread's worker number; NULL: none. */
static _Thread_local struct inside {
    const struct pool *pool;
    int worker;
} inside;

/* Pauses the processor briefly in a waiting loop. */
static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the low half of the ticket, the number of items not yet handed out. */
static uint32_t items_to_hand_out(uint64_t ticket) {
    return (uint32_t)ticket;
}

/* Takes and runs chunks until all are handed out. */
static void run_chunks(struct pool *p, int worker) {
    int64_t n_done = 0;
    const struct inside outer = inside;
    struct ctx *mine = NULL; /* previous context of this thread */
    for (uint64_t t = atomic_load(&p->ticket);
         items_to_hand_out(t) && worker < atomic_load(&p->n_used);) {
        pool_fn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        int64_t n_items = atomic_load_explicit(&p->n_items, memory_order_relaxed);
        int64_t chunk = atomic_load_explicit(&p->chunk, memory_order_relaxed);
        int64_t n_chunks = atomic_load_explicit(&p->n_chunks, memory_order_relaxed);
        int64_t first = atomic_load_explicit(&p->first, memory_order_relaxed);
        struct ctx *job_of = atomic_load_explicit(&p->job_of, memory_order_relaxed);
        if (!atomic_compare_exchange_weak(&p->ticket, &t, t - 1)) continue;
        int64_t begin = first + (n_chunks - (int64_t)items_to_hand_out(t)) * chunk;
        struct ctx *was = ctx_enter(job_of);
        if (!n_done) mine = was;
        inside = (struct inside){p, worker};
        fn(ctx, begin, n_items - begin < chunk ? n_items : begin + chunk, worker);
        n_done++;
        t = atomic_load(&p->ticket);
    }
    if (!n_done) return;
    inside = outer;
    ctx_enter(mine);
    if (atomic_fetch_sub(&p->left, n_done) != n_done) return;
    if (atomic_load(&p->caller_asleep)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->lock);
    }
}

/* Returns whether a worker has no items to take and need not stop. */
static bool is_idle(struct pool *p) {
    return !items_to_hand_out(atomic_load(&p->ticket)) && !atomic_load(&p->stop);
}

/* Returns whether workers are still busy with the job. */
static bool is_unfinished(struct pool *p) {
    return atomic_load(&p->left) != 0;
}

/* Waits actively while cond holds, at most SPIN_NS nanoseconds; p->spins 0: not at all. */
static void spin_while(struct pool *p, bool (*cond)(struct pool *)) {
    if (!p->spins) return;
    int64_t until = now_ns() + SPIN_NS;
    do
        for (int i = 0; i < 32 && cond(p); i++) cpu_relax();
    while (cond(p) && now_ns() < until);
}

/* Returns whether the pool currently uses too few threads to include this worker. */
static bool is_left_out(const struct worker *w) {
    return w->index >= atomic_load(&w->pool->n_used);
}

/* Runs a worker thread: takes items until the pool stops. */
static void *worker_main(void *arg) {
    struct worker *w = arg;
    struct pool *p = w->pool;
    while (!atomic_load(&p->stop)) {
        if (is_left_out(w)) {
            pthread_mutex_lock(&p->lock);
            while (is_left_out(w) && !atomic_load(&p->stop))
                pthread_cond_wait(&p->parked, &p->lock);
            pthread_mutex_unlock(&p->lock);
            continue;
        }
        run_chunks(p, w->index);
        spin_while(p, is_idle);
        if (!is_idle(p)) continue;
        pthread_mutex_lock(&p->lock);
        atomic_fetch_add(&p->n_asleep, 1);
        while (is_idle(p)) pthread_cond_wait(&p->wake, &p->lock);
        atomic_fetch_sub(&p->n_asleep, 1);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* Returns the number of processors this process may use, including a container's quota. */
static int n_processors(void) {
    struct machine m;
    machine_read("", &m);
    return m.n_quota && m.n_quota < m.n_cpus ? m.n_quota : m.n_cpus;
}

int pool_new(struct pool **out, int n_threads, struct err *e) {
    *out = NULL;
    if (n_threads < 0 || n_threads > THREADS_MAX)
        return err_set(e, ERR_USAGE, "%d threads requested; give 1 to %d, or 0 for all processors",
                       n_threads, (int)THREADS_MAX);
    struct numa numa;
    int n_cpu = n_processors();
    const bool is_free = n_threads == 0;
    if (is_free) n_threads = n_cpu < THREADS_MAX ? n_cpu : THREADS_MAX;
    void *mem;
    TRY(mem_alloc(&mem, sizeof(struct pool), "the thread pool", e));
    struct pool *p = mem;
    p->is_free = is_free;
    atomic_store(&p->n_used, n_threads);
    p->n_threads = n_threads;
    p->spins = n_threads <= n_cpu;
    p->worker = xcalloc((size_t)n_threads, sizeof *p->worker);
    numa_read("", &numa);
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->turn, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    pthread_cond_init(&p->parked, NULL);
    for (int i = 1; i < n_threads; i++) {
        struct worker *w = &p->worker[i];
        *w = (struct worker){.pool = p, .index = i};
        int rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc) {
            err_set(e, ERR_SYS, "cannot start thread %d of %d: %s; use a smaller --threads", i + 1,
                    n_threads, strerror(rc));
            pool_free(p);
            return ERR_SYS;
        }
        p->n_started = i;
        numa_stay(&numa, w->thread, numa_node_of(&numa, i));
    }
    *out = p;
    return 0;
}

void pool_free(struct pool *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_cond_broadcast(&p->parked);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->n_started; i++) pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->parked);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->turn);
    pthread_mutex_destroy(&p->lock);
    free(p->worker);
    mem_free(p);
}

int pool_size(const struct pool *p) {
    return p ? p->n_threads : 1;
}

bool pool_is_free(const struct pool *p) {
    return p && p->is_free;
}
void pool_use(struct pool *p, int n) {
    if (!p || n == atomic_load(&p->n_used)) return;
    pthread_mutex_lock(&p->turn);
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->n_used, n < 1 ? 1 : n > p->n_threads ? p->n_threads : n);
    pthread_cond_broadcast(&p->parked);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->turn);
}

/* Runs all items on the calling thread, as `worker`, in the usual chunks. */
static void run_alone(int64_t n_items, int64_t chunk, pool_fn fn, void *ctx, int worker) {
    /* Use the same chunks as with threads, because callers may reduce by chunk. */
    for (int64_t i = 0; i < n_items;) {
        int64_t end = n_items - i < chunk ? n_items : i + chunk;
        fn(ctx, i, end, worker);
        i = end;
    }
}

/* Runs the items starting at `first` with all workers and waits for them. */
static void run_job(struct pool *p, int64_t first, int64_t n_items, int64_t chunk, pool_fn fn,
                    void *ctx) {
    int64_t n_chunks = (n_items - first - 1) / chunk + 1;
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->job_of, ctx_current(), memory_order_relaxed);
    atomic_store_explicit(&p->first, first, memory_order_relaxed);
    atomic_store_explicit(&p->n_items, n_items, memory_order_relaxed);
    atomic_store_explicit(&p->chunk, chunk, memory_order_relaxed);
    atomic_store_explicit(&p->n_chunks, n_chunks, memory_order_relaxed);
    atomic_store_explicit(&p->left, n_chunks, memory_order_relaxed);
    uint64_t job = (atomic_load(&p->ticket) >> 32) + 1;
    (void)atomic_exchange(&p->ticket, job << 32 | (uint64_t)n_chunks);
    if (atomic_load(&p->n_asleep)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    run_chunks(p, 0);
    spin_while(p, is_unfinished);
    if (!is_unfinished(p)) return;
    pthread_mutex_lock(&p->lock);
    (void)atomic_exchange(&p->caller_asleep, true);
    while (is_unfinished(p)) pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->caller_asleep, false);
    pthread_mutex_unlock(&p->lock);
}

void pool_for(struct pool *p, int64_t n_items, int64_t chunk, pool_fn fn, void *ctx) {
    if (n_items <= 0) return;
    if (chunk < 1) chunk = 1;
    const bool nested = p && inside.pool == p;
    if (pool_size(p) == 1 || n_items <= chunk || nested) {
        run_alone(n_items, chunk, fn, ctx, nested ? inside.worker : 0);
        return;
    }
    const int64_t chunks_max = INT64_C(1) << 31; /* must fit the lower half of the ticket */
    int64_t step;
    if (!mul_ok_i64(chunk, chunks_max, &step)) step = n_items;
    pthread_mutex_lock(&p->turn);
    for (int64_t first = 0; first < n_items;) {
        int64_t end = n_items - first < step ? n_items : first + step;
        run_job(p, first, end, chunk, fn, ctx);
        first = end;
    }
    pthread_mutex_unlock(&p->turn);
}

enum { COPY_BYTES = 512 << 10 }; /* bytes per item */
struct copy {
    uint8_t *dst;
    const uint8_t *src;
    uint64_t n;
};
/* Copies parts begin to end - 1 of COPY_BYTES bytes each; the last one may be shorter. A
 * pool_fn. */
static void copy_parts(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct copy *c = ctx;
    const uint64_t from = (uint64_t)begin * COPY_BYTES, to = (uint64_t)end * COPY_BYTES;
    (void)worker;
    memcpy(c->dst + from, c->src + from, (size_t)((to < c->n ? to : c->n) - from));
}

void pool_copy(struct pool *p, void *dst, const void *src, uint64_t n) {
    struct copy c = {dst, src, n};
    pool_for(p, (int64_t)((n + COPY_BYTES - 1) / COPY_BYTES), 1, copy_parts, &c);
}
