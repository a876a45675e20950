// SPDX-License-Identifier: MIT
/* tests/unit/test_tune.c - tuning of the number of threads on simulated machines whose speed is a
 * formula: the result is as fast as the best number, is found within few tokens, and is not changed
 * by noise. */
#include "base/rng.h"
#include "runtime/engine/thread_tune.h"
#include "tests/check.h"

enum { FEW = TUNE_MAX * TUNE_TOKENS };
static struct rng rng;

/* Returns the time per token, in seconds, on a machine with `cores` cores, `full` of which saturate
 * memory, and on which a second thread per core costs `smt`; slowed down randomly by up to
 * `noise`. */
static double token(int threads, int cores, int full, double smt, double noise) {
    const int busy = threads < cores ? threads : cores;
    const double read = 1.0 / (busy < full ? busy : full), barriers = 0.0002 * threads;
    const double crowd = threads > cores ? smt : 0;
    return (read + barriers + crowd) * (1 + noise * rng_unit(&rng));
}

/* Returns the time per token, in seconds, on `big` fast cores and others with `speed` times their
 * speed. Each does the same share of the work, so the slowest one determines the time. */
static double token_big(int threads, int big, double speed) {
    return 1 / (threads * (threads > big ? speed : 1)) + 0.0002 * threads;
}
static int settle_big(int cores, int big, double speed) {
    struct thread_tune t;
    thread_tune_init(&t, cores, cores, big);
    while (thread_tune_running(&t))
        thread_tune_took(&t, token_big(thread_tune_threads(&t), big, speed));
    return thread_tune_threads(&t);
}
static void test_big_and_little(void) {
    CHECK_EQ_I64(settle_big(8, 4, 0.35), 4); /* four of each */
    CHECK_EQ_I64(settle_big(8, 6, 0.35), 6); /* trying only halves would not find it */
    CHECK_EQ_I64(settle_big(20, 8, 0.3), 8);
    CHECK_EQ_I64(settle_big(8, 2, 0.3), 8); /* six slow ones do more than two fast ones */
    CHECK_EQ_I64(settle_big(8, 2, 0.2), 2);
    CHECK_EQ_I64(settle_big(8, 8, 1), 8);
}

static int settle(int threads, int cores, int full, double smt, double noise) {
    struct thread_tune t;
    thread_tune_init(&t, threads, cores, cores);
    int n = 0;
    for (; thread_tune_running(&t) && n < 1000; n++)
        thread_tune_took(
            &t, token(thread_tune_threads(&t), cores, full, smt, n % TUNE_TOKENS ? noise : 3));
    CHECK(n <= FEW);
    return thread_tune_threads(&t);
}

static void test_finds(void) {
    for (int noisy = 0; noisy < 2; noisy++) {
        const double noise = noisy ? 0.01 : 0;
        CHECK_EQ_I64(settle(1, 1, 1, 0, noise), 1);
        CHECK_EQ_I64(settle(2, 2, 2, 0, noise), 2); /* all cores help */
        CHECK_EQ_I64(settle(16, 16, 16, 0, noise), 16);
        CHECK_EQ_I64(settle(32, 16, 16, 0.05, noise), 16); /* one thread per core */
        CHECK_EQ_I64(settle(2, 1, 1, 0.2, noise), 2);      /* never fewer than two of two */
        CHECK_EQ_I64(settle(12, 6, 6, 0, noise), 12);      /* sharing a core is free here */
    }
}

/* Checks that on any such machine the result is hardly slower than all threads and than one per
 * core. */
static void test_never_worse(void) {
    for (int i = 0; i < 300; i++) {
        const int cores = 1 + (int)(rng_unit(&rng) * 64), per = 1 + (int)(rng_unit(&rng) * 2);
        const int full = 1 + (int)(rng_unit(&rng) * cores);
        const double smt = 0.1 * rng_unit(&rng);
        const int found = settle(cores * per, cores, full, smt, 0);
        const double time = token(found, cores, full, smt, 0);
        CHECK(time <= 1.0001 * token(cores * per, cores, full, smt, 0));
        CHECK(cores < 2 || time <= 1.031 * token(cores, cores, full, smt, 0));
    }
}

static void test_stays(void) {
    struct thread_tune t;
    thread_tune_init(&t, 8, 8, 8);
    CHECK_EQ_I64(thread_tune_threads(&t), 8);
    for (int i = 0; i < 2 * TUNE_TOKENS; i++)
        thread_tune_took(&t, thread_tune_threads(&t) == 8 ? 1.0 : 0.98);
    CHECK(!thread_tune_running(&t)); /* 2 % are not enough */
    CHECK_EQ_I64(thread_tune_threads(&t), 8);
    thread_tune_took(&t, 1e9);
    CHECK_EQ_I64(thread_tune_threads(&t), 8);
}

int main(void) {
    rng_seed(&rng, 1);
    RUN(test_finds);
    RUN(test_big_and_little);
    RUN(test_never_worse);
    RUN(test_stays);
    return check_done();
}
