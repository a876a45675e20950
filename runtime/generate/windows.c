// SPDX-License-Identifier: MIT
/* runtime/generate/windows.c - batched evaluation of windows: several per pass, so that the weights
 * of a product are read and decoded once for all of them, or block by block, so that a block is
 * read from disk once. A window's results are bit-identical in any batch, so batching affects only
 * time and memory. */
#include "runtime/generate/windows.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/ranks.h"

int64_t windows_rows(int64_t ctx) {
    return ctx > 0 && ctx < WINDOWS_PIECE ? WINDOWS_PIECE / ctx * ctx : WINDOWS_PIECE;
}

int windows_fit(const struct session *s, int64_t n_tok, int n_alike) {
    const uint64_t room = session_room(s), held = session_held_bytes(s),
                   one = session_seq_bytes(s, n_tok);
    if (room == UINT64_MAX || !one) return INT_MAX;
    const uint64_t fit = room > held ? (room - held) / (uint64_t)n_alike / one : 0;
    return fit < 1 ? 1 : fit < INT_MAX ? (int)fit : INT_MAX;
}

double windows_room(double room) {
    return fmin(room / 16, 1 << 30);
}

int64_t windows_by_block(int64_t n_tok, int64_t n_embd, int n_alike, double room) {
    enum { COPIES = 3 };
    const double each = (double)(COPIES * n_alike) * (double)(n_tok * n_embd) * sizeof(float);
    return (int64_t)fmin(fmax(1, windows_room(room) / each), INT_MAX);
}

/* Opens as many sequences as fit in memory, at most w->batch. */
static int open_seqs(struct windows *w, struct err *e) {
    int n = 0, rc = 0;
    w->seq = xcalloc((size_t)w->batch, sizeof(struct seq *));
    while (n < w->batch && !rc) {
        rc = session_new_seq(w->s, w->n_tok, &w->seq[n], e);
        n += !rc;
    }
    w->batch = n;
    return rc == ERR_SYS && n ? 0 : rc;
}

/* Returns windows that are fed one at a time, by eval_feed. */
static struct windows alone(struct session *s, int64_t n_tok) {
    return (struct windows){.s = s, .n_tok = n_tok, .now = 1, .most = 1, .batch = 1, .bos = -1};
}

/* Returns how many windows can be fed block by block. 1: none, on a device, if only all blocks can
 * run together, or if a row between blocks has other values than one embedding. */
static int64_t by_block(const struct session *s, int64_t n_tok, int n_alike) {
    const int64_t *d = session_model(s)->hp.d;
    const struct graph *g = &session_model(s)->graph;
    uint64_t limit;
    bool can = false;
    for (int b = 1; b < d[HD_LAYERS] && !can; b++) can = session_can_begin(s, b);
    if (!can || g->reg_width[g->residual] != d[HD_EMBD] || !session_get_opts(s)->reread ||
        strcmp(session_info(s).device, "cpu") != 0)
        return 1;
    return windows_by_block(n_tok, d[HD_EMBD], n_alike, (double)buf_room(&limit));
}

int windows_open(struct windows *w, struct session *s, int64_t n_tok, int most, int n_alike,
                 bool bos, struct err *e) {
    const struct tok *tok = session_model(s)->tok;
    const int64_t fit = min_i64(session_get_opts(s)->n_ubatch, WINDOWS_PIECE) / n_tok,
                  d = session_model(s)->hp.d[HD_EMBD];
    *w = alone(s, n_tok);
    most = ranks_n() > 1 ? 1 : (int)min_i64(most, windows_fit(s, n_tok, 1));
    w->batch = (int)max_i64(1, min_i64(most, fit));
    w->most = (int)min_i64(most, max_i64(w->batch, by_block(s, n_tok, n_alike)));
    if (w->most == 1) return 0;
    const bool apart = w->most > w->batch;
    if (bos && tok && tok_add_bos(tok)) w->bos = (int32_t)tok_special(tok, TS_BOS);
    w->row = try_calloc((size_t)w->batch * (size_t)n_tok, sizeof *w->row, "rows of windows", e);
    if (!w->row) return ERR_SYS;
    const int rc = open_seqs(w, e);
    if (!apart) w->most = w->batch;
    if (rc == ERR_SYS || w->most == 1) {
        windows_close(w);
        *w = alone(s, n_tok);
        return 0;
    }
    if (rc || !apart) return rc;
    void *p = NULL;
    TRY(mem_alloc(&p, (uint64_t)(w->most * n_tok * d) * sizeof(float), "residuals", e));
    w->residual = p;
    w->now = w->batch;
    return 0;
}

void windows_close(struct windows *w) {
    for (int i = 0; i < w->batch && w->seq; i++) seq_free(w->seq[i]);
    free(w->seq);
    free(w->row);
    mem_free(w->residual);
    memset(w, 0, sizeof *w);
}

int windows_which(const struct windows *w, const struct seq *q) {
    for (int i = 0; i < w->batch && w->seq; i++)
        if (w->seq[i] == q) return w->first + i;
    return 0;
}

/* Runs n windows in one pass, each in an emptied sequence. p has the pass's blocks, inputs and
 * outputs. */
static int feed_windows(struct windows *w, const int32_t *const *window, int n,
                        struct session_pass p, struct err *e) {
    struct session_row *row = w->row;
    for (int i = 0; i < n; i++) {
        seq_reset(w->seq[i]);
        for (int64_t t = 0; t < w->n_tok; t++)
            *row++ = (struct session_row){.id = t == 0 && w->bos >= 0 ? w->bos : window[i][t],
                                          .seq = w->seq[i],
                                          .want = p.hidden ? WANT_HIDDEN : 0};
    }
    p.row = w->row;
    p.n = n * w->n_tok;
    return session_pass(w->s, &p, e);
}

/* Returns the block after `begin` at which a pass can start; 0: none. */
static int next_block(const struct session *s, int begin) {
    int b = begin + 1;
    while (b < session_model(s)->hp.d[HD_LAYERS] && !session_can_begin(s, b)) b++;
    return b < session_model(s)->hp.d[HD_LAYERS] ? b : 0;
}

/* Runs n windows block by block; arguments as in windows_feed. */
static int feed_blocks(struct windows *w, const int32_t *const *window, int n, int block,
                       const float *residual, float *hidden, struct err *e) {
    const int64_t *d = session_model(w->s)->hp.d, each = w->n_tok * d[HD_EMBD];
    const double began = w->progress ? (double)w->progress->done : 0,
                 per_block = w->per_token * (double)(n * w->n_tok) /
                             fmax(1, (double)(d[HD_LAYERS] - block));
    int rc = 0;
    for (int begin = block, end = 1; end && !rc; begin = end) {
        end = next_block(w->s, begin);
        for (w->first = 0; w->first < n && !rc; w->first += w->batch) {
            const float *from = begin == block ? residual : w->residual;
            const struct session_pass p = {
                .begin = begin,
                .end = end,
                .residual = from ? from + w->first * each : NULL,
                .residual_out = end ? w->residual + w->first * each : NULL,
                .hidden = hidden && !end ? hidden + w->first * each : NULL};
            rc = feed_windows(w, window + w->first, (int)min_i64(w->batch, n - w->first), p, e);
        }
        if (w->progress && end)
            progress_update(w->progress, (uint64_t)(began + per_block * (end - block)));
    }
    w->first = 0;
    return rc;
}

int windows_feed(struct windows *w, const int32_t *const *window, int n, int block,
                 const float *residual, float *hidden, struct err *e) {
    const double t0 = progress_now_s();
    const struct session_pass p = {.begin = block, .residual = residual, .hidden = hidden};
    TRY(n > w->batch ? feed_blocks(w, window, n, block, residual, hidden, e)
                     : feed_windows(w, window, n, p, e));
    const double per_window = (progress_now_s() - t0) / n;
    const double fit = per_window > 0 ? WINDOWS_FEED_S / per_window : w->most;
    w->now = fit < 1 ? 1 : fit < w->most ? (int)fit : w->most;
    return 0;
}
