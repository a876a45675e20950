// SPDX-License-Identifier: MIT
/* tests/unit/test_pool.c - the thread pool: every item is processed once, in fixed chunks, with any
 * number of threads; jobs in quick succession and after a pause (sleeping workers); no two workers
 * share a number. */
#include <stdatomic.h>
#include <time.h>

#include "base/pool.h"
#include "tests/check.h"

enum { N_MAX = 1000 };
struct job {
    atomic_int hits[N_MAX];
    atomic_int bad;
    int64_t n, chunk;
    int n_threads;
    atomic_int busy[64];
};

static void visit(void *ctx, int64_t begin, int64_t end, int worker) {
    struct job *j = ctx;
    int64_t want = j->n - begin < j->chunk ? j->n - begin : j->chunk;
    if (begin % j->chunk || end - begin != want) atomic_fetch_add(&j->bad, 1);
    if (worker < 0 || worker >= j->n_threads || atomic_exchange(&j->busy[worker], 1))
        atomic_fetch_add(&j->bad, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&j->hits[i], 1);
    atomic_store(&j->busy[worker], 0);
}

static void run_job(struct pool *p, int64_t n, int64_t chunk) {
    static struct job j;
    memset(&j, 0, sizeof j);
    j.n = n, j.chunk = chunk, j.n_threads = pool_size(p);
    pool_for(p, n, chunk, visit, &j);
    int wrong = 0;
    for (int i = 0; i < N_MAX; i++) wrong += j.hits[i] != (i < n);
    if (wrong || j.bad)
        CHECK_FAIL("n %d, chunk %d: %d wrong, %d bad", (int)n, (int)chunk, wrong, j.bad);
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Sleeps for at least us microseconds. On Windows nanosleep drops the part below a millisecond. */
static void nap(long us) {
    const int64_t until = now_us() + us;
    struct timespec t = {0, us * 1000};
    do nanosleep(&t, NULL);
    while (now_us() < until);
}

static void test_every_item_once(void) {
    static const int sizes[] = {1, 2, 3, 8};
    struct err e = {0};
    for (int s = 0; s < 4; s++) {
        struct pool *p;
        CHECK_OK(pool_new(&p, sizes[s], &e));
        CHECK_EQ_I64(pool_size(p), sizes[s]);
        for (int64_t n = 0; n <= 70; n += 7)
            for (int64_t chunk = 1; chunk < 40; chunk += 3) run_job(p, n, chunk);
        run_job(p, N_MAX, 1);
        for (int i = 0; i < 20; i++) { /* workers asleep, going to sleep, spinning */
            nap(10 * i);
            run_job(p, 100, 3);
        }
        pool_free(p);
    }
}

static void test_no_pool(void) {
    CHECK_EQ_I64(pool_size(NULL), 1);
    run_job(NULL, 100, 7);
    pool_free(NULL);
}

static void test_sizes(void) {
    struct err e = {0};
    struct pool *p;
    CHECK_ERR(pool_new(&p, -1, &e), ERR_USAGE, "threads");
    CHECK_ERR(pool_new(&p, 100000, &e), ERR_USAGE, "100000 threads");
    CHECK(p == NULL);
    CHECK_OK(pool_new(&p, 0, &e));
    CHECK(pool_size(p) >= 1);
    pool_free(p);
}

static void add_plain(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    int64_t *v = ctx;
    for (int64_t i = begin; i < end; i++) v[i] += i;
}

/* Checks that ordinary memory written by workers is visible to the caller and to the next job. */
static void test_results_are_visible(void) {
    struct err e = {0};
    struct pool *p;
    static int64_t v[64];
    CHECK_OK(pool_new(&p, 2, &e));
    enum { ROUNDS = 3000 };
    for (int r = 0; r < ROUNDS; r++) pool_for(p, 64, 1, add_plain, v);
    for (int i = 0; i < 64; i++) CHECK_EQ_I64(v[i], (int64_t)i * ROUNDS);
    pool_free(p);
}

struct meeting {
    atomic_int arrived, missed, done;
};

/* Makes two chunks wait for each other, which only two simultaneous threads can do; a missed
 * wake-up would last forever, a busy machine may need a while. Then the caller is quick and the
 * worker slow, so that the caller goes to sleep and must be woken. */
static void meet(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)begin, (void)end;
    struct meeting *m = ctx;
    atomic_fetch_add(&m->arrived, 1);
    const int64_t give_up = now_us() + 60000000;
    while (atomic_load(&m->arrived) < 2 && now_us() < give_up) nap(100);
    if (atomic_load(&m->arrived) < 2) atomic_fetch_add(&m->missed, 1);
    if (worker != 0) nap(20000);
    atomic_fetch_add(&m->done, 1);
}

static void test_sleepers_are_woken(void) {
    struct err e = {0};
    struct pool *p;
    CHECK_OK(pool_new(&p, 2, &e));
    for (int i = 0; i < 10; i++) {
        struct meeting m = {0};
        nap(i % 2 ? 1000 : 0); /* the worker sleeps or is still spinning */
        pool_for(p, 2, 1, meet, &m);
        CHECK_EQ_I64(m.missed, 0);
        CHECK_EQ_I64(m.done, 2);
        if (m.missed) break;
    }
    pool_free(p);
}

struct seen {
    atomic_int workers; /* bits */
};
static void note(void *ctx, int64_t begin, int64_t end, int worker) {
    struct seen *s = ctx;
    (void)begin, (void)end;
    atomic_fetch_or(&s->workers, 1 << worker);
    nap(20);
}

/* Checks that only the requested workers take part, and that all can again afterwards. */
static void test_use(void) {
    struct err e = {0};
    struct pool *p;
    CHECK_OK(pool_new(&p, 4, &e));
    CHECK(!pool_is_free(p) && !pool_is_free(NULL));
    for (int i = 0; i < 40; i++) {
        struct seen s = {0};
        const int n = 1 + i * 7 % 4;
        pool_use(p, n);
        if (i % 3 == 0) nap(300); /* asleep or parked */
        pool_for(p, 24, 1, note, &s);
        CHECK(atomic_load(&s.workers) < 1 << n);
        run_job(p, 100, 3);
    }
    pool_use(p, 1000);
    struct meeting m = {0};
    pool_for(p, 2, 1, meet, &m);
    CHECK_EQ_I64(m.missed, 0);
    pool_use(p, 0);
    run_job(p, 100, 3);
    pool_free(p);
    CHECK_OK(pool_new(&p, 0, &e));
    CHECK(pool_is_free(p));
    pool_use(NULL, 3);
    pool_free(p);
}

int main(void) {
    RUN(test_every_item_once);
    RUN(test_no_pool);
    RUN(test_sizes);
    RUN(test_results_are_visible);
    RUN(test_sleepers_are_woken);
    RUN(test_use);
    return check_done();
}
