// SPDX-License-Identifier: MIT
/* runtime/engine/thread_tune.h - tunes the number of threads for single tokens. A token reads all
 * weights and computes little, so fewer threads are faster if two processors share a core, or if
 * half of the cores saturate memory bandwidth. Candidates are timed on the first tokens; results do
 * not depend on the choice. The caller owns the struct; nothing is allocated. */
#ifndef HONE_RUNTIME_ENGINE_THREAD_TUNE_H
#define HONE_RUNTIME_ENGINE_THREAD_TUNE_H

#include <stdbool.h>

enum { TUNE_MAX = 8, TUNE_TOKENS = 5 /* tokens per candidate; the first is not timed */ };
struct thread_tune {
    int cand[TUNE_MAX], n_cand;
    int at, best;             /* indices in cand: on trial, fastest so far */
    int n_seen;               /* tokens of the candidate on trial */
    double least, best_least; /* seconds of the fastest token: on trial, of the best candidate */
};
/* Starts tuning for a pool of n_threads on n_cores cores, n_big of which are fast. Candidates: all
 * threads, one per core, one per fast core, half of those and so on, down to 2, as long as each is
 * faster than the one before. n_cores 0: uses all threads without tuning. */
void thread_tune_init(struct thread_tune *t, int n_threads, int n_cores, int n_big);
/* Returns the number of threads for the next token. */
int thread_tune_threads(const struct thread_tune *t);
/* Returns whether tuning is still running; the caller then reports the time per token with
 * thread_tune_took. */
bool thread_tune_running(const struct thread_tune *t);
/* Records the time of a token; after TUNE_TOKENS tokens, tries the next number of threads. */
void thread_tune_took(struct thread_tune *t, double seconds);

#endif
