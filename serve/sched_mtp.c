// SPDX-License-Identifier: MIT
/* serve/sched_mtp.c - drafts by the model's MTP (multi-token prediction) block.
 *
 * The block reads pairs of a token's hidden row and the token after it, and predicts the token that
 * comes next. Each answer has its own sequence in the block's session, with the pairs of the
 * prompt's last tokens and of all drawn tokens. After a pass, the new pairs of all answers run
 * through the block together. Some pairs may be missing, because a prompt was cached or many
 * answers ran; that only makes drafts worse. */
#include <string.h>

#include "base/num.h"
#include "base/progress.h"
#include "runtime/engine/logits.h"
#include "serve/sched_int.h"

bool sched_wants_hidden(const struct sched *s, const struct run *r, int64_t at) {
    return s->o.mtp && !r->task->ask.n_images && s->n_live <= DRAFT_RUNS &&
           r->all.n - at <= MTP_TAIL;
}

void sched_forget_pairs(struct run *r) {
    seq_free(r->draft.mtp);
    r->draft.mtp = NULL;
}

void sched_add_pairs(struct sched *s, struct run *r, const float *hidden, int64_t n) {
    const int64_t d = s->n_embd, fed = seq_pos(r->seq);
    struct mtp_pass *p = &s->mtp;
    struct err ignored;
    if (n < 1 || r->ended || p->n_runs == DRAFT_RUNS) return;
    if (!r->draft.mtp && session_new_seq(s->o.mtp, 0, &r->draft.mtp, &ignored)) return;
    if (seq_pos(r->draft.mtp) + n > s->n_ctx) return;
    for (int64_t i = 0; i < n; i++, p->n++) {
        const bool last = i + 1 == n;
        memmove(p->hidden + p->n * d, hidden + i * d, (size_t)d * sizeof *hidden);
        p->row[p->n] = (struct session_row){
            .id = r->all.v[fed - n + i + 1], .seq = r->draft.mtp, .want = last ? WANT_LOGITS : 0};
    }
    r->draft.mtp_at = fed + 1;
    p->run[p->n_runs++] = r;
}

/* Returns whether drafting one token for each run is worth the time that the block takes. */
static bool pays(const struct sched *s) {
    const int n = s->mtp.n_runs;
    double tokens = n;
    for (int i = 0; i < n; i++) tokens += s->mtp.run[i]->draft.right[GUESS_MTP];
    return tokens * sched_seconds(s, n) > n * (sched_seconds(s, 2 * n) + s->mtp.each_s);
}

void sched_run_mtp(struct sched *s) {
    struct mtp_pass *p = &s->mtp;
    const int64_t n = p->n;
    const int n_runs = p->n_runs;
    struct err ignored;
    const bool run = n && (s->o.always || pays(s));
    for (int i = 0; i < n_runs && !run; i++) {
        p->run[i]->draft.mtp_at = 0;
        sched_doubt(p->run[i], GUESS_MTP);
    }
    p->n = p->n_runs = 0;
    if (!run) return;
    const double t = progress_now_s();
    const struct session_pass pairs = {
        .row = p->row, .n = n, .hidden_in = p->hidden, .logits = p->logits};
    const bool failed = session_pass(s->o.mtp, &pairs, &ignored);
    for (int i = 0; i < n_runs; i++) {
        struct run *r = p->run[i];
        if (failed) sched_forget_pairs(r);
        r->draft.mtp_guess = (int32_t)logits_argmax(p->logits + i * s->n_vocab, s->n_vocab);
        if (failed) r->draft.mtp_at = 0;
    }
    if (n > 2 * DRAFT_RUNS) return; /* skips the first pairs of an answer */
    p->each_s =
        p->each_s > 0 ? 0.9 * p->each_s + 0.1 * (progress_now_s() - t) : progress_now_s() - t;
}

int sched_guess_mtp(const struct sched *s, const struct run *r, int32_t *out, int most) {
    if (!s->o.mtp || most < 1 || !r->draft.mtp_at || r->draft.mtp_at != r->all.n) return 0;
    *out = r->draft.mtp_guess;
    return 1;
}
