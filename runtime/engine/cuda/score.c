// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/score.c - logits and scores of a pass's rows, computed on the device, so that
 * only a few numbers per row or the best logits are downloaded, not a whole vocabulary. Logits are
 * kept until the session next computes its head, so sessions on one device can read each
 * other's. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"
#include "runtime/engine/logits.h"

_Static_assert((int)SESSION_SCORES == (int)HEAD_ROWS, "a call is one head");
_Static_assert((int)SESSION_BEST == (int)CU_BEST, "the device's search finds all of them");
_Static_assert((int)SESSION_BEST <= (int)LOGITS_BEST, "the CPU's search finds all of them");

static int64_t n_vocab(const struct cuda *d) {
    return d->w[d->s->g->output].w.rows;
}

/* Queues the head for n rows at x and shows them to a probe of products. */
static int head(struct cuda *d, const float *x, int64_t n, struct err *e) {
    struct session *s = d->s;
    const int64_t w = s->g->reg_width[s->g->hidden_out];
    float *seen = NULL;
    TRY(exec_cuda_refresh(s, false, e));
    if (s->probe.product && !d->sums) {
        TRY(exec_cuda_fetch(d, x, n * w, &seen, e));
        exec_show_head(s, seen, n);
        mem_free(seen);
    }
    return exec_cuda_head_rows(d, x, n, e);
}
/* Returns the device address of the hidden values of a row. */
static const float *row_at(const struct cuda *d, int64_t row) {
    const struct session *s = d->s;
    return d->reg[s->g->hidden_out] + row * s->g->reg_width[s->g->hidden_out];
}

bool exec_cuda_shares(const struct session *s, const struct session *base) {
    const struct cuda *d = exec_cuda_head(s), *of = exec_cuda_head(base);
    return d->info.index == of->info.index && n_vocab(d) == n_vocab(of);
}

int exec_cuda_score(struct session *s, struct session *base, int64_t first, int64_t n,
                    const int32_t *target, struct session_score *out, struct err *e) {
    struct cuda *d = exec_cuda_head(s);
    struct cu_score_row row[HEAD_ROWS];
    /* before the head, because some systems wait for all earlier work in such an upload */
    if (out) TRY(cu_upload(d->q, d->target, target, (uint64_t)n * sizeof *target, e));
    TRY(head(d, row_at(d, first), n, e));
    if (!out) return cu_sync(d->q, e);
    const struct cu_score a = {.q = d->logits,
                               .p = base ? exec_cuda_head(base)->logits : NULL,
                               .target = d->target,
                               .n = n,
                               .n_vocab = n_vocab(d),
                               .row = d->score};
    TRY(cu_score_rows(d->q, &a, e));
    TRY(cu_download(d->q, row, d->score, (uint64_t)n * sizeof *row, e));
    TRY(cu_sync(d->q, e));
    for (int64_t i = 0; i < n; i++)
        out[i] = (struct session_score){row[i].nll_q, row[i].nll_p,  row[i].kld,   row[i].top_p,
                                        row[i].top_q, row[i].prob_p, row[i].prob_q};
    return 0;
}

/* ---- logits of rows, best candidates ---- */

int exec_cuda_find_best(struct cuda *d, int64_t i, int64_t n, struct err *e) {
    const int64_t v = n_vocab(d);
    for (int64_t k = 0; k < n; k += BEST_ROWS)
        TRY(cu_best_logits(d->q, d->logits + (i + k) * v, v, min_i64(BEST_ROWS, n - k),
                           d->best_work, d->best + i + k, e));
    return cu_download(d->q, d->host_best + i, d->best + i, (uint64_t)n * sizeof *d->best, e);
}

int exec_cuda_take_best(struct cuda *d, int64_t i, struct session_best *to, struct err *e) {
    const struct cu_best *b = d->host_best + i;
    const int64_t n = n_vocab(d);
    to->n = b->broken ? 0 : b->n;
    if (b->broken) return 0;
    if (b->n < 0) {
        TRY(cu_download(d->q, d->host_logits, d->logits + i * n, (uint64_t)n * sizeof(float), e));
        TRY(cu_sync(d->q, e));
        to->n = logits_best(d->host_logits, n, SESSION_BEST, to->id, to->logit);
        return 0;
    }
    memcpy(to->id, b->id, sizeof b->id);
    memcpy(to->logit, b->logit, sizeof b->logit);
    return 0;
}

/* Sets *x to n contiguous rows: in place, or copied. */
static int together(struct cuda *d, const struct head_row *row, int64_t n, const float **x,
                    struct err *e) {
    const int64_t w = d->s->g->reg_width[d->s->g->hidden_out];
    for (int64_t i = 0, k; i < n; i += k) {
        for (k = 1; i + k < n && row[i + k].row == row[i].row + k; k++) {
        }
        *x = row_at(d, row[0].row);
        if (k == n) return 0;
        TRY(cu_copy(d->q, d->head_x + i * w, row_at(d, row[i].row), (uint64_t)(k * w) * sizeof **x,
                    e));
    }
    *x = d->head_x;
    return 0;
}

/* Returns the number of leading rows with the same kind of output; their logits are contiguous. */
static int64_t alike(const struct head_row *row, int64_t n, int64_t v) {
    int64_t k = 1;
    while (k < n && (row->logits ? row[k].logits == row->logits + k * v : row[k].logits == NULL))
        k++;
    return k;
}

/* Computes and fetches the outputs that each of n rows wants. */
static int some_outputs(struct cuda *d, const struct head_row *row, int64_t n, struct err *e) {
    const int64_t v = n_vocab(d);
    const float *x = NULL;
    TRY(together(d, row, n, &x, e));
    TRY(head(d, x, n, e));
    for (int64_t i = 0, k; i < n; i += k) {
        k = alike(row + i, n - i, v);
        if (row[i].logits)
            TRY(cu_download(d->q, row[i].logits, d->logits + i * v,
                            (uint64_t)(k * v) * sizeof *d->logits, e));
        else
            TRY(exec_cuda_find_best(d, i, k, e));
    }
    TRY(cu_sync(d->q, e));
    for (int64_t i = 0; i < n; i++)
        if (!row[i].logits) TRY(exec_cuda_take_best(d, i, row[i].best, e));
    return 0;
}

int exec_cuda_outputs(struct session *s, const struct head_row *row, int64_t n, struct err *e) {
    for (int64_t i = 0; i < n; i += HEAD_ROWS)
        TRY(some_outputs(exec_cuda_head(s), row + i, min_i64(HEAD_ROWS, n - i), e));
    return 0;
}
