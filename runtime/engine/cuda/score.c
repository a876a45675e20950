// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/score.c - what rows of logits are worth, found on the device: a few
 * numbers per row come down in place of a vocabulary, and of a token the best alone. Logits stay
 * where they are until the session's next head, so the sessions of one device read each other's. */
#include <string.h>

#include "runtime/engine/cuda/exec.h"
#include "runtime/engine/logits.h"

_Static_assert((int)SESSION_SCORES == (int)HEAD_ROWS, "a call is one head");
_Static_assert((int)SESSION_BEST == (int)CU_BEST, "as many as a device finds");
_Static_assert((int)SESSION_BEST <= (int)LOGITS_BEST, "as many as are found here");

static struct cuda *dev(const struct session *s) {
    return s->dev;
}
static int64_t n_vocab(const struct session *s) {
    return dev(s)->w[s->g->output].w.rows;
}

bool exec_cuda_shares(const struct session *s, const struct session *base) {
    return dev(s)->info.index == dev(base)->info.index && n_vocab(s) == n_vocab(base);
}

int exec_cuda_score(struct session *s, struct session *base, const float *hidden, int64_t n,
                    const int32_t *target, struct session_score *out, struct err *e) {
    struct cuda *d = dev(s);
    struct cu_score_row row[HEAD_ROWS];
    TRY(exec_cuda_head(s, hidden, n, e));
    if (!out) return cu_sync(d->q, e);
    const struct cu_score a = {.q = d->logits,
                               .p = base ? dev(base)->logits : NULL,
                               .target = d->target,
                               .n = n,
                               .n_vocab = n_vocab(s),
                               .row = d->score};
    TRY(cu_upload(d->q, d->target, target, (uint64_t)n * sizeof *target, e));
    TRY(cu_score_rows(d->q, &a, e));
    TRY(cu_download(d->q, row, d->score, (uint64_t)n * sizeof *row, e));
    TRY(cu_sync(d->q, e));
    for (int64_t i = 0; i < n; i++)
        out[i] = (struct session_score){row[i].nll_q, row[i].nll_p,  row[i].kld,   row[i].top_p,
                                        row[i].top_q, row[i].prob_p, row[i].prob_q};
    return 0;
}

/* ---- the best logits of a token -------------------------------------------------------------- */

int exec_cuda_find_best(struct session *s, struct err *e) {
    struct cuda *d = dev(s);
    TRY(cu_best_logits(d->q, d->logits, n_vocab(s), d->best_work, d->best, e));
    return cu_download(d->q, d->host_best, d->best, sizeof *d->best, e);
}

int exec_cuda_take_best(struct session *s, struct err *e) {
    struct cuda *d = dev(s);
    const struct cu_best *b = d->host_best;
    if (b->n < 0) {
        const int64_t n = n_vocab(s);
        TRY(cu_download(d->q, d->host_logits, d->logits, (uint64_t)n * sizeof(float), e));
        TRY(cu_sync(d->q, e));
        s->now.best->n =
            logits_best(d->host_logits, n, SESSION_BEST, s->now.best->id, s->now.best->logit);
        return 0;
    }
    s->now.best->n = b->n;
    memcpy(s->now.best->id, b->id, sizeof b->id);
    memcpy(s->now.best->logit, b->logit, sizeof b->logit);
    return 0;
}
