// SPDX-License-Identifier: MIT
/* runtime/generate/windows.h - batched evaluation of the windows of a text in one session. */
#ifndef HONE_RUNTIME_GENERATE_WINDOWS_H
#define HONE_RUNTIME_GENERATE_WINDOWS_H

#include "runtime/engine/session.h"

/* Returns the number of rows per pass (session_opts.n_ubatch) for evaluating windows of ctx tokens:
 * as many whole windows as fit in 2048 rows, or 2048. */
int64_t windows_rows(int64_t ctx);
enum { WINDOWS_PIECE = 2048 };
/* A pass takes as many windows as fit in this many seconds, at least one. Each pass reads all
 * weights, which takes long if they do not fit in memory. */
enum { WINDOWS_PASS_S = 3600 };

/* Windows of n_tok tokens, several per pass. */
struct windows {
    struct session *s;
    int64_t n_tok;
    int most;    /* windows that fit in a pass; 1: windows are fed one at a time, by eval_feed */
    int now;     /* windows to run in the next pass; few if they take long */
    int32_t bos; /* first token of every window; -1: unchanged */
    struct seq **seq;        /* [most] */
    struct session_row *row; /* [most * n_tok] */
};
/* Returns how many windows of n_tok tokens fit in device memory, at least 1, if n_alike sessions
 * share it equally. INT_MAX in main memory. */
int windows_fit(const struct session *s, int64_t n_tok, int n_alike);
/* Opens windows, as many per pass as their length and memory allow, at most `most`. bos: the first
 * token of every window is replaced by the vocabulary's BOS token if the vocabulary adds one. Call
 * windows_close even after an error. */
int windows_open(struct windows *w, struct session *s, int64_t n_tok, int most, bool bos,
                 struct err *e);
void windows_close(struct windows *w);
/* Feeds n windows, at most w->most, each from an empty state. Only if w->most > 1. hidden: NULL or
 * [n][n_tok][n_embd]. block: 0, or the first block to compute; its input is then residual
 * [n][n_tok][n_embd]. */
int windows_feed(struct windows *w, const int32_t *const *window, int n, int block,
                 const float *residual, float *hidden, struct err *e);
/* Returns the index of the window whose sequence is q, which a probe receives. */
int windows_which(const struct windows *w, const struct seq *q);

#endif
