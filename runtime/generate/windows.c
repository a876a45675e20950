// SPDX-License-Identifier: MIT
/* runtime/generate/windows.c - batched evaluation of windows: several per pass, so that the weights
 * of a product are read and decoded once for all of them. A window's results are bit-identical in
 * any batch, so batching affects only time and memory. */
#include "runtime/generate/windows.h"

#include <limits.h>
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

/* Opens as many sequences as fit in memory, at most w->most. */
static int open_seqs(struct windows *w, struct err *e) {
    int n = 0, rc = 0;
    w->seq = xcalloc((size_t)w->most, sizeof(struct seq *));
    while (n < w->most && !rc) {
        rc = session_new_seq(w->s, w->n_tok, &w->seq[n], e);
        n += !rc;
    }
    w->most = n;
    if (rc && rc != ERR_SYS) return rc;
    if (n > 1) return 0;
    seq_free(w->seq[0]);
    free(w->seq);
    w->seq = NULL;
    w->most = 1;
    return 0;
}

int windows_open(struct windows *w, struct session *s, int64_t n_tok, int most, bool bos,
                 struct err *e) {
    const struct tok *tok = session_model(s)->tok;
    const int64_t fit = min_i64(session_get_opts(s)->n_ubatch, WINDOWS_PIECE) / n_tok;
    *w = (struct windows){.s = s, .n_tok = n_tok, .now = 1, .most = 1, .bos = -1};
    if (bos && tok && tok_add_bos(tok)) w->bos = (int32_t)tok_special(tok, TS_BOS);
    most = (int)min_i64(most, windows_fit(s, n_tok, 1));
    if (ranks_n() == 1) w->most = (int)max_i64(1, min_i64(most, fit));
    if (w->most == 1) return 0;
    w->row = try_calloc((size_t)w->most * (size_t)n_tok, sizeof *w->row, "rows of windows", e);
    if (!w->row) return ERR_SYS;
    return open_seqs(w, e);
}

void windows_close(struct windows *w) {
    for (int i = 0; i < w->most && w->seq; i++) seq_free(w->seq[i]);
    free(w->seq);
    free(w->row);
    memset(w, 0, sizeof *w);
}

int windows_which(const struct windows *w, const struct seq *q) {
    for (int i = 0; i < w->most && w->seq; i++)
        if (w->seq[i] == q) return i;
    return 0;
}

/* Runs n windows in one pass, each in an emptied sequence; outputs may be NULL. */
static int feed_windows(struct windows *w, const int32_t *const *window, int n, int block,
                        const float *residual, float *hidden, struct err *e) {
    struct session_row *row = w->row;
    for (int i = 0; i < n; i++) {
        seq_reset(w->seq[i]);
        for (int64_t t = 0; t < w->n_tok; t++)
            *row++ = (struct session_row){.id = t == 0 && w->bos >= 0 ? w->bos : window[i][t],
                                          .seq = w->seq[i],
                                          .want = hidden ? WANT_HIDDEN : 0};
    }
    const struct session_pass p = {
        .row = w->row, .n = n * w->n_tok, .begin = block, .residual = residual, .hidden = hidden};
    return session_pass(w->s, &p, e);
}

int windows_feed(struct windows *w, const int32_t *const *window, int n, int block,
                 const float *residual, float *hidden, struct err *e) {
    const double t0 = progress_now_s();
    TRY(feed_windows(w, window, n, block, residual, hidden, e));
    const double per_window = (progress_now_s() - t0) / n;
    const double fit = per_window > 0 ? WINDOWS_PASS_S / per_window : w->most;
    w->now = fit < 1 ? 1 : fit < w->most ? (int)fit : w->most;
    return 0;
}
