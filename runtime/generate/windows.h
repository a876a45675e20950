// SPDX-License-Identifier: MIT
/* runtime/generate/windows.h - batched evaluation of the windows of a text in one session. */
#ifndef HONE_RUNTIME_GENERATE_WINDOWS_H
#define HONE_RUNTIME_GENERATE_WINDOWS_H

#include "base/progress.h"
#include "runtime/engine/session.h"

/* Returns the number of rows per pass (session_opts.n_ubatch) for evaluating windows of ctx tokens:
 * as many whole windows as fit in 2048 rows, or 2048. */
int64_t windows_rows(int64_t ctx);
enum { WINDOWS_PIECE = 2048 };
/* Windows are fed as many at a time as run in this many seconds, at least one. */
enum { WINDOWS_FEED_S = 3600 };
/* Windows of n_tok tokens, several at a time: in one pass or, with session_opts.reread, in a pass
 * per block and `batch` windows, so that each block is read once for all windows. */
struct windows {
    struct session *s;
    int64_t n_tok;
    int most;         /* windows that can be fed together; 1: fed one at a time, by eval_feed */
    int now;          /* windows to feed next; few if they take long */
    int batch;        /* windows of a pass */
    int32_t bos;      /* first token of every window; -1: unchanged */
    struct seq **seq; /* [batch] */
    struct session_row *row; /* [batch * n_tok] */
    float *residual;         /* [most][n_tok][n_embd] between blocks; NULL: one pass for all */
    int first;               /* index of the pass's first window */
    /* Set by the caller after windows_open: what to move forward by `per_token` for each token,
     * while windows are fed block by block; NULL: nothing. */
    struct progress *progress;
    double per_token;
};
/* Returns how many bytes rows between blocks may take: 1/16 of `room`, at most 1 GiB. */
double windows_room(double room);
/* Returns how many windows of n_tok tokens with n_embd values each n_alike sessions feed together,
 * block by block, at least 1: their rows between blocks, below a session that starts late, and
 * before the head take windows_room(room) bytes. */
int64_t windows_by_block(int64_t n_tok, int64_t n_embd, int n_alike, double room);
/* Returns how many windows of n_tok tokens fit in device memory, at least 1, if n_alike sessions
 * share it equally. INT_MAX in main memory. */
int windows_fit(const struct session *s, int64_t n_tok, int n_alike);
/* Opens windows, as many at a time as their length and memory allow, at most `most`. n_alike:
 * sessions that are open at the same time. bos: the first token of every window is replaced by the
 * vocabulary's BOS token if the vocabulary adds one. Call windows_close even after an error. */
int windows_open(struct windows *w, struct session *s, int64_t n_tok, int most, int n_alike,
                 bool bos, struct err *e);
void windows_close(struct windows *w);
/* Feeds n windows, at most w->most, each from an empty state. Only if w->most > 1. hidden: NULL or
 * [n][n_tok][n_embd]. block: 0, or the first block to compute; its input is then residual
 * [n][n_tok][n_embd]. */
int windows_feed(struct windows *w, const int32_t *const *window, int n, int block,
                 const float *residual, float *hidden, struct err *e);
/* Returns the index of the window whose sequence is q, which a probe receives. */
int windows_which(const struct windows *w, const struct seq *q);

#endif
