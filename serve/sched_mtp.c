// SPDX-License-Identifier: MIT
/* serve/sched_mtp.c - drafts by the model's MTP (multi-token prediction) block, or by a draft file
 * (runtime/generate/drafter.h).
 *
 * Both read pairs of a token's row and the token after it, and predict the token that comes next.
 * Each answer has its own sequence in the drafter's session, with the pairs of the prompt's last
 * tokens and of all drawn tokens. After a pass, the new pairs of all answers run through the
 * drafter together, and then its own outputs, as often as it drafts further tokens. Some pairs may
 * be missing, because a prompt was cached or many answers ran; that only makes drafts worse. */
#include <string.h>

#include "base/num.h"
#include "base/progress.h"
#include "serve/sched_int.h"

_Static_assert((int)DRAFTER_STEPS <= (int)RUN_GUESSES, "a run keeps all of a series");

bool sched_wants_hidden(const struct sched *s, const struct run *r, int64_t at) {
    return s->o.drafter && !r->task->ask.n_images && s->n_live <= DRAFT_RUNS &&
           r->all.n - at <= MTP_TAIL;
}

void sched_forget_pairs(struct run *r) {
    seq_free(r->draft.mtp);
    r->draft.mtp = NULL;
}

void sched_add_pairs(struct sched *s, struct run *r, const float *hidden, int64_t n) {
    struct drafter *d = s->o.drafter;
    const int64_t fed = seq_pos(r->seq);
    struct mtp_pass *p = &s->mtp;
    struct err ignored;
    if (n < 1 || r->ended || p->n_runs == DRAFT_RUNS) return;
    if (!r->draft.mtp && session_new_seq(d->s, 0, &r->draft.mtp, &ignored)) return;
    if (seq_pos(r->draft.mtp) + n + d->steps - 1 > s->n_ctx) return;
    for (int64_t i = 0; i < n; i++, p->n++) {
        const bool last = i + 1 == n;
        drafter_put(d, p->hidden + p->n * d->n_in, hidden + i * d->n_row);
        p->row[p->n] = (struct session_row){.id = r->all.v[fed - n + i + 1], .seq = r->draft.mtp};
        if (last) p->row[p->n].want = WANT_LOGITS | (d->steps > 1 ? WANT_HIDDEN : 0U);
    }
    r->draft.mtp_at = fed + 1;
    p->run[p->n_runs++] = r;
}

/* Returns whether drafting for each run is worth the time that the drafter takes. */
static bool pays(const struct sched *s) {
    const int n = s->mtp.n_runs, steps = s->o.drafter->steps;
    double tokens = n;
    for (int i = 0; i < n; i++) {
        double chance = 1;
        for (int k = 0; k < steps; k++) tokens += chance *= s->mtp.run[i]->draft.right[GUESS_MTP];
    }
    return tokens * sched_seconds(s, n) > n * (sched_seconds(s, (1 + steps) * n) + s->mtp.each_s);
}

/* Runs the drafter on the n rows of the pass, and takes guess number k of each run. Returns false,
 * without guesses, after an error. */
static bool guess_next(struct sched *s, int64_t n, int k) {
    struct drafter *d = s->o.drafter;
    struct mtp_pass *p = &s->mtp;
    struct session_pass pairs = {
        .row = p->row, .n = n, .hidden_in = p->hidden, .logits = p->logits};
    struct err ignored;
    if (drafter_pass(d, &pairs, d->steps > 1 ? p->own : NULL, &ignored)) return false;
    for (int i = 0; i < p->n_runs; i++) {
        struct run_draft *r = &p->run[i]->draft;
        r->mtp_guess[k] = drafter_best(d, p->logits + i * d->n_logits);
        r->n_mtp = k + 1;
        drafter_put_own(d, p->hidden + i * d->n_in, p->own + i * d->n_own);
        p->row[i] = (struct session_row){
            .id = r->mtp_guess[k], .seq = r->mtp, .want = WANT_LOGITS | WANT_HIDDEN};
    }
    return true;
}

/* Drafts for all runs of the pass; a run whose sequence failed starts again. */
static void guess_all(struct sched *s, int64_t n) {
    struct mtp_pass *p = &s->mtp;
    struct err ignored;
    int64_t to[DRAFT_RUNS];
    bool ran = guess_next(s, n, 0);
    for (int i = 0; i < p->n_runs; i++) to[i] = seq_pos(p->run[i]->draft.mtp);
    for (int k = 1; k < s->o.drafter->steps && ran; k++) ran = guess_next(s, p->n_runs, k);
    for (int i = 0; i < p->n_runs; i++) {
        struct run *r = p->run[i];
        if (ran && !seq_trim(r->draft.mtp, to[i], &ignored)) continue;
        sched_forget_pairs(r);
        r->draft.mtp_at = 0;
    }
}

void sched_run_mtp(struct sched *s) {
    struct mtp_pass *p = &s->mtp;
    const int64_t n = p->n;
    const bool run = n && (s->o.always || pays(s));
    const double t = progress_now_s();
    if (run) guess_all(s, n);
    for (int i = 0; i < p->n_runs && !run; i++) {
        p->run[i]->draft.mtp_at = 0;
        sched_doubt(p->run[i], GUESS_MTP);
    }
    p->n = p->n_runs = 0;
    if (!run || n > 2 * DRAFT_RUNS) return; /* skips the first pairs of an answer */
    p->each_s =
        p->each_s > 0 ? 0.9 * p->each_s + 0.1 * (progress_now_s() - t) : progress_now_s() - t;
}

int sched_guess_mtp(const struct sched *s, const struct run *r, int32_t *out, int most) {
    if (!s->o.drafter || !r->draft.mtp_at || r->draft.mtp_at != r->all.n) return 0;
    const int n = (int)min_i64(most, r->draft.n_mtp);
    for (int i = 0; i < n; i++) out[i] = r->draft.mtp_guess[i];
    return n;
}
