// SPDX-License-Identifier: MIT
/* runtime/measure/choice.c - scores of multiple-choice tasks. A task's common prefix runs once; the
 * KV cache and recurrent states are saved after it and restored for each choice. Memory: that copy,
 * the hidden rows of one chunk, and a block of logits. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/measure/internal.h"
#include "runtime/measure/choices.h"

struct scorer {
    struct session *s;
    int64_t d, n_vocab, block, piece;
    float *hidden, *logits; /* rows of one chunk; NULL: they stay on the device */
};

/* Prepares scoring on session s; allocates buffers unless the device computes scores. */
static int scorer_init(struct scorer *p, struct session *s, struct err *e) {
    void *h = NULL, *l = NULL;
    p->s = s;
    p->d = session_model(s)->hp.d[HD_EMBD];
    p->n_vocab = session_model(s)->hp.d[HD_VOCAB];
    p->block = eval_head_rows(p->n_vocab);
    p->piece = eval_piece(s);
    if (session_can_score(s, NULL)) {
        p->block = SESSION_SCORES;
        return 0;
    }
    TRY(mem_alloc(&h, (uint64_t)(p->piece * p->d) * sizeof(float), "hidden rows", e));
    p->hidden = h;
    TRY(mem_alloc(&l, (uint64_t)(p->block * p->n_vocab) * sizeof(float), "logits", e));
    p->logits = l;
    return 0;
}

/* Adds log p of the tokens after rows [r0, r1); the rows fed last start at row `at`. */
static int score_rows(struct scorer *p, const int32_t *seq, int64_t at, int64_t r0, int64_t r1,
                      double *sum, bool *greedy, struct err *e) {
    struct session_score row[SESSION_SCORES];
    for (int64_t r = r0; r < r1; r += p->block) {
        const int64_t n = min_i64(p->block, r1 - r);
        if (p->logits)
            TRY(session_head(p->s, p->hidden + (r - at) * p->d, n, p->logits, e));
        else
            TRY(session_score(p->s, NULL, r - at, n, seq + r + 1, row, e));
        for (int64_t i = 0; i < n; i++) {
            const float *x = p->logits ? p->logits + i * p->n_vocab : NULL;
            int32_t t = seq[r + i + 1];
            *sum += x ? (double)x[t] - eval_lse(x, p->n_vocab) : -row[i].nll_q;
            *greedy = *greedy && (x ? logits_argmax(x, p->n_vocab) : row[i].top_q) == t;
        }
    }
    return 0;
}

/* Scores a choice from token `at`, the session's current position. */
static int score_choice(struct scorer *p, const struct choice_task *t, int i, int64_t at,
                        double *score, bool *greedy, struct err *e) {
    const int32_t *seq = t->seq[i].v;
    /* Scored rows; each predicts the next token. */
    int64_t first = t->first[i] - 1, last = t->end[i] - 1;
    double sum = 0;
    *greedy = true;
    for (int64_t n; at < last; at += n) {
        n = min_i64(p->piece, last - at);
        TRY(session_forward(p->s, seq + at, n, p->hidden, e));
        int64_t r0 = max_i64(at, first);
        if (r0 < at + n) TRY(score_rows(p, seq, at, r0, at + n, &sum, greedy, e));
    }
    *score = sum / (double)(last - first);
    return fault_check(p->s, score, 1, seq, t->end[i], e);
}

/* Scores each choice of a task. *pick: index of the best one. *greedy: whether greedy decoding
 * yields the right one. */
static int score_task(struct scorer *p, const struct choice_task *t, double *score, int *pick,
                      bool *greedy, struct err *e) {
    struct seq *branch = NULL;
    int64_t shared = t->common - 1; /* The last common token is run again for each choice. */
    struct seq *own = session_own_seq(p->s);
    session_reset(p->s);
    int rc = shared ? session_forward(p->s, t->seq[0].v, shared, NULL, e) : 0;
    if (!rc && shared) rc = seq_fork(&branch, own, e);
    *pick = 0;
    for (int i = 0; i < t->n && !rc; i++) {
        bool is_greedy;
        if (i && branch) seq_restore(own, branch);
        if (i && !branch) session_reset(p->s);
        rc = score_choice(p, t, i, shared, &score[i], &is_greedy, e);
        if (i == t->right) *greedy = is_greedy;
        if (score[i] > score[*pick]) *pick = i;
    }
    seq_free(branch);
    return rc;
}

/* Returns a task's cache key: a hash of all its sequences and scored ranges. The caller frees
 * it. */
static char *which_task(const struct choice_task *t) {
    struct buf b = {0};
    char hex[33];
    for (int i = 0; i < t->n; i++) {
        buf_add(&b, t->seq[i].v, (size_t)t->seq[i].n * sizeof *t->seq[i].v);
        buf_fmt(&b, ";%" PRId64 " %" PRId64 ";", (int64_t)t->first[i], (int64_t)t->end[i]);
    }
    hash_xxh128_hex(hex, b.data, b.len);
    buf_release(&b);
    return xasprintf("choice %s %d %" PRId64, hex, t->right, (int64_t)t->common);
}

/* Scores a task, or takes its scores from the cache. A cache record holds the scores, the pick, and
 * whether the right choice is the greedy continuation. */
static int task_or_kept(struct scorer *p, const struct choice_task *t,
                        const struct results_cache_of *keep, double *score, int *pick, bool *greedy,
                        struct err *e) {
    const size_t n = (size_t)t->n;
    double *all = xcalloc(n + 2, sizeof *all);
    char *which = which_task(t);
    int rc = 0;
    if (results_cache_get(keep, which, all, (n + 2) * sizeof *all) && all[n] >= 0 &&
        all[n] < t->n) {
        memcpy(score, all, n * sizeof *all);
        *pick = (int)all[n];
        *greedy = all[n + 1] > 0;
    } else {
        rc = score_task(p, t, score, pick, greedy, e);
        memcpy(all, score, n * sizeof *all);
        all[n] = *pick;
        all[n + 1] = *greedy;
        if (!rc) results_cache_put(keep, which, all, (n + 2) * sizeof *all);
    }
    free(which);
    free(all);
    return rc;
}

int eval_choices(struct session *s, const struct choice_tasks *c,
                 const struct results_cache_of *keep, struct choice_answers *out, struct err *e) {
    struct scorer p = {0};
    struct progress prog = {0};
    int n_right = 0;
    *out = (struct choice_answers){.n = c->n};
    out->pick = xcalloc((size_t)c->n, sizeof *out->pick);
    out->greedy = xcalloc((size_t)c->n, sizeof *out->greedy);
    out->score = xcalloc((size_t)c->n, sizeof *out->score);
    double t0 = progress_now_s();
    int rc = scorer_init(&p, s, e);
    progress_begin(&prog, "choices", PROG_ITEMS, (uint64_t)c->n);
    for (int i = 0; i < c->n && !rc; i++) {
        const struct choice_task *t = &c->t[i];
        out->score[i] = xcalloc((size_t)t->n, sizeof *out->score[i]);
        rc = task_or_kept(&p, t, keep, out->score[i], &out->pick[i], &out->greedy[i], e);
        n_right += out->pick[i] == t->right;
        snprintf(prog.note, sizeof prog.note, "%d of %d right", n_right, i + 1);
        progress_update(&prog, (uint64_t)(i + 1));
        if (!rc && progress_interrupted()) rc = err_set(e, ERR_INTR, "interrupted");
    }
    progress_end(&prog);
    out->seconds = progress_now_s() - t0;
    mem_free(p.hidden);
    mem_free(p.logits);
    if (rc) choice_answers_release(out);
    return rc;
}

void choice_answers_release(struct choice_answers *a) {
    for (int i = 0; i < a->n; i++)
        if (a->score) free(a->score[i]);
    free(a->score);
    free(a->pick);
    free(a->greedy);
    memset(a, 0, sizeof *a);
}
