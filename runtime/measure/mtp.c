// SPDX-License-Identifier: MIT
/* runtime/measure/mtp.c - acceptance rate of the drafts of an MTP block or a draft file.
 *
 * Follows a given text, not generated tokens. For row t, the draft reads the trunk's row t and
 * token t + 1; its top token is compared with the trunk's at row t + 1. Both predict token t + 2.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "runtime/generate/drafter.h"
#include "runtime/measure/internal.h"

struct run {
    struct session *trunk;
    struct drafter *draft;
    int64_t ctx, d, n_vocab, n_rows; /* n_rows: rows of logits computed at a time */
    int64_t d_draft;
    float *y, *h;   /* [ctx][d], [ctx][d_draft] hidden rows of trunk and draft */
    float *x, *in;  /* [ctx] rows of the trunk that the draft reads (y for MTP), and its input */
    float *lt, *ld; /* [n_rows][n_vocab], [n_rows][n_logits] logits of trunk and draft */
    const int32_t *target; /* the text's tokens for these rows */
    double *hit, *overlap; /* per scored position */
    /* 1 if the top token of the trunk (of the draft) is the text's token, per scored position. */
    uint8_t *trunk_hit, *draft_hit;
    int64_t n; /* positions done */
};

/* Returns the overlap of the trunk's distribution and the draft's, given as logits: the sum of
 * min(p, q). */
static double overlap_of(const struct run *r, const float *a, const float *b) {
    const int64_t n = r->draft->n_logits;
    double la = eval_lse(a, r->n_vocab), lb = eval_lse(b, n), sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fp_exp(fmin((double)a[drafter_token(r->draft, i)] - la, (double)b[i] - lb));
    return sum;
}

/* Compares drafts i0 to i1 - 1 with the trunk's logits. */
static void score_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct run *r = ctx;
    (void)worker;
    for (int64_t i = i0; i < i1; i++) {
        const float *t = r->lt + i * r->n_vocab, *d = r->ld + i * r->draft->n_logits;
        int64_t a = logits_argmax(t, r->n_vocab), b = drafter_best(r->draft, d), at = r->n + i;
        r->hit[at] = a == b;
        r->overlap[at] = overlap_of(r, t, d);
        r->trunk_hit[at] = a == r->target[i];
        r->draft_hit[at] = b == r->target[i];
    }
}

/* Runs trunk and draft over one window. */
static int run_window(struct run *r, const int32_t *ids, struct err *e) {
    const struct drafter *d = r->draft;
    for (int64_t i = 0, k; i < r->ctx; i += k) {
        k = min_i64(WINDOWS_PIECE, r->ctx - i);
        struct session_pass p = {.n = k};
        drafter_wants(d, &p, r->x + i * d->n_row, r->y + i * r->d);
        TRY(eval_pass(r->trunk, ids, i, &p, e));
    }
    for (int64_t i = 0; i < r->ctx; i++) drafter_put(d, r->in + i * d->n_in, r->x + i * d->n_row);
    session_reset(d->s);
    const struct session_pass p = {
        .ids = ids + 1, .n = r->ctx - 1, .hidden_in = r->in, .hidden = r->h};
    return session_pass(d->s, &p, e);
}

/* Scores every position of a window. */
static int score_window(struct run *r, const int32_t *ids, struct err *e) {
    const struct drafter *d = r->draft;
    TRY(run_window(r, ids, e));
    for (int64_t t = r->ctx / 2, k; t < r->ctx - 2; t += k) {
        k = min_i64(r->n_rows, r->ctx - 2 - t);
        TRY(session_head(r->trunk, r->y + (t + 1) * r->d, k, r->lt, e));
        TRY(session_head(d->s, r->h + t * r->d_draft, k, r->ld, e));
        r->target = ids + t + 2;
        if (fault_in_logits(r->lt, k * r->n_vocab)) return fault_find(r->trunk, ids, r->ctx, e);
        if (fault_in_logits(r->ld, k * d->n_logits)) return fault_find(d->s, NULL, 0, e);
        pool_for(session_get_opts(r->trunk)->pool, k, 1, score_range, r);
        r->n += k;
    }
    return 0;
}

/* Allocates n rows of `width` floats; `what` names them in the error. */
static int floats(float **out, int64_t n, int64_t width, const char *what, struct err *e) {
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)n * (uint64_t)width * sizeof **out, what, e));
    *out = p;
    return 0;
}

/* Scores the drafts of n_chunks windows of ids. */
static int run_windows(struct run *r, const int32_t *ids, int64_t n_chunks, struct err *e) {
    struct progress p;
    int rc = 0;
    TRY(floats(&r->y, r->ctx, r->d, "hidden rows", e));
    TRY(floats(&r->h, r->ctx, r->d_draft, "hidden rows", e));
    TRY(floats(&r->in, r->ctx, r->draft->n_in, "hidden rows", e));
    r->x = r->y;
    if (r->draft->taps) TRY(floats(&r->x, r->ctx, r->draft->n_row, "hidden rows", e));
    TRY(floats(&r->lt, r->n_rows, r->n_vocab, "logits", e));
    TRY(floats(&r->ld, r->n_rows, r->draft->n_logits, "logits", e));
    progress_begin(&p, "eval mtp", PROG_TOKENS, (uint64_t)(n_chunks * r->ctx));
    for (int64_t i = 0; i < n_chunks && !rc; i++) {
        rc = score_window(r, ids + i * r->ctx, e);
        progress_update(&p, (uint64_t)((i + 1) * r->ctx));
    }
    progress_end(&p);
    return rc;
}

/* Returns the share of non-zero hits; 0 if n is 0. */
static double share_of(const uint8_t *hit, int64_t n) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += hit[i];
    return n ? (double)sum / (double)n : 0;
}

int eval_mtp(struct session *trunk, struct drafter *draft, const struct ids *ids, int64_t ctx,
             int64_t max_chunks, struct eval_mtp *out, double **hit, struct err *e) {
    struct run r = {.trunk = trunk, .draft = draft, .ctx = ctx};
    const struct model *m = session_model(trunk);
    int64_t n_chunks;
    if (hit) *hit = NULL;
    TRY(eval_plan(trunk, ids->n, ctx, max_chunks, &n_chunks, e));
    r.d = m->hp.d[HD_EMBD];
    r.d_draft = draft->m->hp.d[HD_EMBD];
    r.n_vocab = m->hp.d[HD_VOCAB];
    r.n_rows = eval_head_rows(r.n_vocab);
    const size_t n = (size_t)(n_chunks * ctx);
    const char *what = "the scores of tokens";
    double t0 = progress_now_s();
    int rc = (r.hit = try_calloc(n, sizeof *r.hit, what, e)) &&
                     (r.overlap = try_calloc(n, sizeof *r.overlap, what, e)) &&
                     (r.trunk_hit = try_calloc(n, 1, what, e)) &&
                     (r.draft_hit = try_calloc(n, 1, what, e))
                 ? run_windows(&r, ids->v, n_chunks, e)
                 : ERR_SYS;
    double seconds = progress_now_s() - t0;
    *out = (struct eval_mtp){.n_tokens = r.n, .n_chunks = n_chunks, .ctx = ctx};
    eval_mean(r.hit, r.n, &out->acceptance, &out->acceptance_stderr);
    eval_mean(r.overlap, r.n, &out->overlap, &out->overlap_stderr);
    out->trunk_top1 = share_of(r.trunk_hit, r.n);
    out->draft_top1 = share_of(r.draft_hit, r.n);
    out->tok_per_s = seconds > 0 ? (double)(n_chunks * ctx) / seconds : 0;
    if (r.x != r.y) mem_free(r.x);
    mem_free(r.y);
    mem_free(r.in);
    mem_free(r.h);
    mem_free(r.lt);
    mem_free(r.ld);
    if (hit) *hit = rc ? NULL : r.hit;
    if (!hit || rc) free(r.hit);
    free(r.overlap);
    free(r.trunk_hit);
    free(r.draft_hit);
    return rc;
}
