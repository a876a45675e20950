// SPDX-License-Identifier: MIT
/* runtime/measure/ppl.c - perplexity as usually published (docs/design/evaluation.md, section 1),
 * and helpers shared with the other evaluators: chunks, log-sum-exp, means. Memory: one chunk's
 * hidden rows and a block of logits. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "runtime/measure/internal.h"

enum { HEAD_BYTES = 64 << 20, HEAD_MIN_ROWS = 17, HEAD_MAX_ROWS = 128 };

double eval_lse(const float *x, int64_t n) {
    float max = logits_max(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)fp_expf(x[i] - max);
    return (double)max + fp_log(sum);
}

void eval_mean(const double *x, int64_t n, double *mean, double *stderr_out) {
    double s = 0, s2 = 0;
    for (int64_t i = 0; i < n; i++) {
        s += x[i];
        s2 += x[i] * x[i];
    }
    *mean = n ? s / (double)n : 0;
    double var = (s2 / (double)n - *mean * *mean) / (double)(n - 1);
    *stderr_out = n <= 10 ? (double)NAN : var > 0 ? sqrt(var) : 0;
}

int64_t eval_head_rows(int64_t n_vocab) {
    int64_t r = HEAD_BYTES / (4 * n_vocab);
    return r < HEAD_MIN_ROWS ? HEAD_MIN_ROWS : r > HEAD_MAX_ROWS ? HEAD_MAX_ROWS : r;
}

int64_t eval_piece(const struct session *s) {
    if (!session_can_score(s, NULL)) return WINDOWS_PIECE;
    return min_i64(WINDOWS_PIECE, session_get_opts(s)->n_ubatch);
}

int eval_pass(struct session *s, const int32_t *chunk, int64_t at, struct session_pass *p,
              struct err *e) {
    const struct tok *tok = session_model(s)->tok;
    int64_t bos = tok && tok_add_bos(tok) ? tok_special(tok, TS_BOS) : -1;
    int32_t first[WINDOWS_PIECE];
    p->ids = chunk + at;
    if (!at) session_reset(s);
    if (at || bos < 0) return session_pass(s, p, e);
    memcpy(first, chunk, (size_t)p->n * sizeof *first);
    first[0] = (int32_t)bos;
    p->ids = first;
    return session_pass(s, p, e);
}

int eval_feed(struct session *s, const int32_t *chunk, int64_t at, int64_t n, float *hidden,
              struct err *e) {
    return eval_pass(s, chunk, at, &(struct session_pass){.n = n, .hidden = hidden}, e);
}

/* Returns ERR_USAGE unless a window of ctx tokens is long enough and fits the session. */
static int check_ctx(const struct session *s, int64_t ctx, struct err *e) {
    if (ctx < 4)
        return err_set(e, ERR_USAGE,
                       "a window of %" PRId64 " tokens is too short: use --ctx 4 or more", ctx);
    if (ctx > session_get_opts(s)->n_ctx)
        return err_set(e, ERR_USAGE,
                       "a window of %" PRId64 " tokens does not fit a session of %" PRId64, ctx,
                       session_get_opts(s)->n_ctx);
    return 0;
}

int eval_plan(const struct session *s, int64_t n_ids, int64_t ctx, int64_t max_chunks,
              int64_t *n_chunks, struct err *e) {
    TRY(check_ctx(s, ctx, e));
    if (n_ids < 2 * ctx)
        return err_set(e, ERR_DATA,
                       "the text has %" PRId64 " tokens, a window of %" PRId64
                       " needs at least %" PRId64 ": use a longer text or a smaller --ctx",
                       n_ids, ctx, 2 * ctx);
    *n_chunks = n_ids / ctx;
    if (max_chunks > 0 && max_chunks < *n_chunks) *n_chunks = max_chunks;
    return 0;
}

struct ppl_run {
    struct session *s;
    int64_t d, n_vocab, block;
    int64_t piece;          /* tokens of a long window run at a time */
    float *hidden, *logits; /* rows of one chunk; NULL: they stay on the device */
    const int32_t *target;  /* tokens predicted by the block's rows */
    /* Negative log-likelihoods of all rows; n_done are complete. */
    double *nll;
    int64_t n_done;
    struct windows windows;
};

/* Computes the negative log likelihood of the targets of rows r0 to r1 - 1. */
static void nll_range(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct ppl_run *p = ctx;
    (void)worker;
    for (int64_t r = r0; r < r1; r++) {
        const float *x = p->logits + r * p->n_vocab;
        p->nll[p->n_done + r] = eval_lse(x, p->n_vocab) - (double)x[p->target[r]];
    }
}

/* Scores rows [first, last) of the chunk by the token that follows each. Row r of the chunk is row
 * r - at of the rows fed last. */
static int score(struct ppl_run *p, const int32_t *chunk, int64_t at, int64_t first, int64_t last,
                 struct err *e) {
    struct session_score row[SESSION_SCORES];
    for (int64_t r = first; r < last; r += p->block) {
        int64_t n = min_i64(p->block, last - r);
        p->target = chunk + r + 1;
        if (p->logits) {
            TRY(session_head(p->s, p->hidden + (r - at) * p->d, n, p->logits, e));
            pool_for(session_get_opts(p->s)->pool, n, 1, nll_range, p);
        } else {
            TRY(session_score(p->s, NULL, r - at, n, p->target, row, e));
            for (int64_t i = 0; i < n; i++) p->nll[p->n_done + i] = row[i].nll_q;
        }
        p->n_done += n;
    }
    return 0;
}

/* Allocates buffers for n_chunks windows of tokens and n_scores scores. */
static int ppl_alloc(struct ppl_run *p, int64_t window, int64_t n_chunks, int64_t n_scores,
                     struct err *e) {
    void *h = NULL, *l = NULL;
    p->d = session_model(p->s)->hp.d[HD_EMBD];
    p->n_vocab = session_model(p->s)->hp.d[HD_VOCAB];
    p->block = eval_head_rows(p->n_vocab);
    p->nll = try_calloc((size_t)n_scores + 1, sizeof *p->nll, "the scores of tokens", e);
    if (!p->nll) return ERR_SYS;
    p->piece = eval_piece(p->s);
    TRY(windows_open(&p->windows, p->s, window, (int)min_i64(n_chunks, INT_MAX), 1, true, e));
    if (session_can_score(p->s, NULL)) {
        p->block = SESSION_SCORES;
        return 0;
    }
    const int64_t rows = p->windows.most > 1 ? p->windows.most * window : min_i64(window, p->piece);
    TRY(mem_alloc(&h, (uint64_t)(rows * p->d) * sizeof(float), "hidden rows", e));
    p->hidden = h;
    TRY(mem_alloc(&l, (uint64_t)(p->block * p->n_vocab) * sizeof(float), "logits", e));
    p->logits = l;
    return 0;
}

/* Windows of `window` tokens, one every `step` tokens; rows [first, last) of each are scored. */
struct ppl_plan {
    int64_t window, step, first, last, n_chunks;
};

/* Plans windows and scored tokens. stride <= 0: disjoint windows whose second half is scored. */
static int plan_windows(const struct session *s, int64_t n_ids, int64_t ctx, int64_t stride,
                        int64_t max_chunks, struct ppl_plan *p, struct err *e) {
    if (stride <= 0) {
        TRY(eval_plan(s, n_ids, ctx, max_chunks, &p->n_chunks, e));
        p->window = p->step = ctx;
        p->first = ctx / 2;
        p->last = ctx - 1;
        return 0;
    }
    TRY(check_ctx(s, ctx + stride / 2, e));
    p->window = ctx + stride / 2;
    p->step = stride;
    if (stride >= p->window)
        return err_set(e, ERR_USAGE, "--stride %" PRId64 " is longer than the window", stride);
    if (n_ids <= p->window)
        return err_set(e, ERR_DATA,
                       "the text has %" PRId64 " tokens, more than %" PRId64 " are needed", n_ids,
                       p->window);
    p->last = p->window - 1;
    p->first = p->last - stride;
    p->n_chunks = div_up(n_ids - p->window, stride);
    if (max_chunks > 0) p->n_chunks = min_i64(p->n_chunks, max_chunks);
    return 0;
}

/* Shows the perplexity so far in the progress line. */
static void show_progress(const struct ppl_run *p, struct progress *prog, uint64_t n_tokens) {
    double mean = 0, u;
    if (p->n_done) {
        eval_mean(p->nll, p->n_done, &mean, &u);
        snprintf(prog->note, sizeof prog->note, "ppl %.4f", fp_exp(mean));
    }
    progress_update(prog, n_tokens > prog->done ? n_tokens : prog->done);
}

/* Scores window c. Updates the progress after each chunk, because a long window takes minutes. */
static int window(struct ppl_run *p, const struct ppl_plan *w, int64_t c, const int32_t *chunk,
                  struct progress *prog, struct err *e) {
    for (int64_t at = 0; at < w->window; at += p->piece) {
        int64_t n = min_i64(p->piece, w->window - at);
        TRY(eval_feed(p->s, chunk, at, n, p->hidden, e));
        TRY(score(p, chunk, at, max_i64(at, w->first), min_i64(at + n, w->last), e));
        show_progress(p, prog, (uint64_t)(c * w->window + at + n));
    }
    return 0;
}

/* Computes perplexity and its standard error from the scores. */
static void ppl_result(const struct ppl_run *p, struct eval_ppl *out) {
    double u;
    eval_mean(p->nll, p->n_done, &out->mean_nll, &u);
    out->ppl = fp_exp(out->mean_nll);
    out->ppl_stderr = out->ppl * u;
    out->n_tokens = p->n_done;
}

/* Returns the mean loss of each window [n_chunks]; the caller frees it. */
static double *window_means(const struct ppl_run *p, int64_t n_chunks) {
    double *mean = xcalloc((size_t)n_chunks + 1, sizeof *mean), u;
    int64_t n = p->n_done / n_chunks;
    for (int64_t c = 0; c < n_chunks; c++) eval_mean(p->nll + c * n, n, &mean[c], &u);
    return mean;
}

/* Returns the number of windows, starting with window c, that can run together, and sets chunk[i]
 * to the start of window c + i. 0: window c is cached, and its results are now in p->nll. */
static int find_windows(struct ppl_run *p, const struct ppl_plan *w, const struct ids *ids,
                        const struct results_cache_of *keep, int64_t c, const int32_t **chunk) {
    const int64_t n = w->last - w->first;
    int count = 0;
    while (count < p->windows.now && c + count < w->n_chunks) {
        chunk[count] = ids->v + (c + count) * w->step;
        char *which = eval_keep_window("nll", chunk[count], w->window, w->first, w->last);
        const bool known =
            results_cache_get(keep, which, p->nll + (c + count) * n, (size_t)n * sizeof *p->nll);
        free(which);
        if (known) break;
        count++;
    }
    return count;
}

/* Runs `count` windows, starting with window c, and caches their results. chunk [count]: their
 * tokens. */
static int run_windows(struct ppl_run *p, const struct ppl_plan *w, int64_t c, int count,
                       const int32_t **chunk, const struct results_cache_of *keep,
                       struct progress *prog, struct err *e) {
    const int64_t n = w->last - w->first;
    if (p->windows.most > 1) TRY(windows_feed(&p->windows, chunk, count, 0, NULL, p->hidden, e));
    for (int i = 0; i < count; i++) {
        p->n_done = (c + i) * n;
        if (p->windows.most == 1)
            TRY(window(p, w, c, chunk[0], prog, e));
        else
            TRY(score(p, chunk[i], -i * w->window, w->first, w->last, e));
        TRY(fault_check(p->s, p->nll + (c + i) * n, n, chunk[i], w->window, e));
        char *which = eval_keep_window("nll", chunk[i], w->window, w->first, w->last);
        results_cache_put(keep, which, p->nll + (c + i) * n, (size_t)n * sizeof *p->nll);
        free(which);
        show_progress(p, prog, (uint64_t)((c + i + 1) * w->window));
    }
    return 0;
}

/* Scores all windows. If means is not NULL, *means receives the mean of each window; the caller
 * frees it. */
static int ppl_run(struct session *s, const struct ids *ids, int64_t ctx, int64_t stride,
                   int64_t max_chunks, const struct results_cache_of *keep, struct eval_ppl *out,
                   double **means, struct err *e) {
    struct ppl_plan w = {0};
    struct ppl_run p = {.s = s};
    struct progress prog = {0};
    memset(out, 0, sizeof *out);
    TRY(plan_windows(s, ids->n, ctx, stride, max_chunks, &w, e));
    double t0 = progress_now_s();
    progress_begin(&prog, "perplexity", PROG_TOKENS, (uint64_t)(w.n_chunks * w.window));
    int rc = ppl_alloc(&p, w.window, w.n_chunks, w.n_chunks * (w.last - w.first), e);
    int64_t n_run = 0;
    const int64_t n = w.last - w.first;
    p.windows.progress = &prog;
    p.windows.per_token = 1;
    const int32_t **chunk = xcalloc((size_t)p.windows.most + 1, sizeof *chunk);
    for (int64_t c = 0; c < w.n_chunks && !rc;) {
        p.n_done = c * n;
        int count = ranks_mine(c) ? find_windows(&p, &w, ids, keep, c, chunk) : 0;
        if (count)
            rc = run_windows(&p, &w, c, count, chunk, keep, &prog, e);
        else if (ranks_mine(c))
            progress_from(&prog, (uint64_t)((c + 1) * w.window));
        if (rc) break;
        n_run += count;
        if (!count) count = 1;
        ranks_send(c, p.nll + c * n, (uint64_t)n * sizeof *p.nll);
        c += count;
        p.n_done = c * n;
    }
    free(chunk);
    windows_close(&p.windows);
    progress_end(&prog);
    if (!rc) {
        ppl_result(&p, out);
        if (means) *means = window_means(&p, w.n_chunks);
        out->ctx = ctx;
        out->n_chunks = w.n_chunks;
        if (ranks_n() > 1) n_run = w.n_chunks;
        out->tok_per_s = (double)(n_run * w.window) / (progress_now_s() - t0);
    }
    free(p.nll);
    mem_free(p.hidden);
    mem_free(p.logits);
    return rc;
}

int eval_ppl(struct session *s, const struct ids *ids, int64_t ctx, int64_t stride,
             int64_t max_chunks, const struct results_cache_of *keep, struct eval_ppl *out,
             struct err *e) {
    return ppl_run(s, ids, ctx, stride, max_chunks, keep, out, NULL, e);
}

int eval_ppl_windows(struct session *s, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                     const struct results_cache_of *keep, struct eval_ppl *out, double **window,
                     struct err *e) {
    return ppl_run(s, ids, ctx, 0, max_chunks, keep, out, window, e);
}
