// SPDX-License-Identifier: MIT
/* runtime/engine/thread_tune.c - tuning of the number of threads (thread_tune.h). Each candidate is
 * judged by its fastest token, because disturbances only slow things down. Fewer threads must win
 * by 3 %, so that noise alone does not change the number. */
#include "runtime/engine/thread_tune.h"

static const double gain = 0.97;

void thread_tune_init(struct thread_tune *t, int n_threads, int n_cores, int n_big) {
    *t = (struct thread_tune){.cand = {n_threads}, .n_cand = 1};
    if (!n_cores) return;
    int next = n_threads;
    for (;;) {
        next = n_cores < next ? n_cores : n_big < next ? n_big : next / 2;
        if (next < 2 || t->n_cand == TUNE_MAX) return;
        t->cand[t->n_cand++] = next;
    }
}

bool thread_tune_running(const struct thread_tune *t) {
    return t->n_cand > 1 && t->at < t->n_cand;
}
int thread_tune_threads(const struct thread_tune *t) {
    return t->cand[thread_tune_running(t) ? t->at : t->best];
}

void thread_tune_took(struct thread_tune *t, double seconds) {
    if (!thread_tune_running(t)) return;
    if (t->n_seen == 1 || (t->n_seen > 1 && seconds < t->least)) t->least = seconds;
    if (++t->n_seen < TUNE_TOKENS) return;
    const bool better = t->at == 0 || t->least < gain * t->best_least;
    if (better) {
        t->best = t->at;
        t->best_least = t->least;
    }
    /* Fewer threads were no faster: done. */
    t->at = better ? t->at + 1 : t->n_cand;
    t->n_seen = 0;
}
