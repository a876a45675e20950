// SPDX-License-Identifier: MIT
/* runtime/engine/thread_tune.h - how many threads a token is made with. A token reads all weights
 * and computes little, so where two processors share a core, or one half of the cores fills the
 * memory's bandwidth, fewer threads are faster. Found out with the first tokens; results do not
 * depend on it. The caller owns the struct; no allocation. */
#ifndef HONE_RUNTIME_ENGINE_THREAD_TUNE_H
#define HONE_RUNTIME_ENGINE_THREAD_TUNE_H

#include <stdbool.h>

enum { TUNE_MAX = 8, TUNE_TOKENS = 5 /* looked at with each number; the first is not counted */ };
struct thread_tune {
    int cand[TUNE_MAX], n_cand;
    int at, best;             /* of cand: on trial, the fastest of those before */
    int n_seen;               /* tokens of the one on trial */
    double least, best_least; /* seconds of the fastest token: on trial, of the best */
};
/* Begins to choose a number of threads for a team of n_threads on n_cores cores, n_big of which are
 * fast. It tries all, one per core, one per fast core, half of those and so on, while each is
 * faster than the one before; at least 2. With n_cores 0 it takes all without a look. */
void thread_tune_init(struct thread_tune *t, int n_threads, int n_cores, int n_big);
/* Threads for the next token. */
int thread_tune_threads(const struct thread_tune *t);
/* Tells whether numbers are still compared; thread_tune_took is then told how long a token took. */
bool thread_tune_running(const struct thread_tune *t);
void thread_tune_took(struct thread_tune *t, double seconds);

#endif
