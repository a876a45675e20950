// SPDX-License-Identifier: MIT
/* runtime/generate/windows.h - windows of a text through a session, several to a pass. */
#ifndef HONE_RUNTIME_GENERATE_WINDOWS_H
#define HONE_RUNTIME_GENERATE_WINDOWS_H

#include "runtime/engine/session.h"

/* Returns the rows that a pass of a session should hold (session_opts.n_ubatch) where windows of
 * ctx tokens are evaluated: as many whole windows as fit 2048 rows, or 2048. */
int64_t windows_rows(int64_t ctx);
enum { WINDOWS_PIECE = 2048 };

/* Windows of n_tok tokens, several to a pass. */
struct windows {
    struct session *s;
    int64_t n_tok;
    int most;                /* windows that fit a pass; 1: they are fed one by one, by eval_feed */
    int now;                 /* as many as a pass should take now: few where they take long */
    int32_t bos;             /* the first token of every window, or -1: the text's own */
    struct seq **seq;        /* [most] */
    struct session_row *row; /* [most * n_tok] */
};
/* Returns how many windows of n_tok tokens the memory of a device has room for, at least 1, when
 * n_alike sessions on it take as many each. In main memory: INT_MAX. */
int windows_fit(const struct session *s, int64_t n_tok, int n_alike);
/* Opens windows, as many to a pass as its length and the memory allow, at most `most`. With
 * `bos` the vocabulary's first token replaces that of every window, where the vocabulary adds
 * one. windows_close must be called also after an error. */
int windows_open(struct windows *w, struct session *s, int64_t n_tok, int most, bool bos,
                 struct err *e);
void windows_close(struct windows *w);
/* Feeds n windows, at most `most`, each from an empty state; not where `most` is 1. hidden: NULL or
 * [n][n_tok][n_embd]. block: 0, or the first block that is computed, residual [n][n_tok][n_embd]
 * being what enters it. */
int windows_feed(struct windows *w, const int32_t *const *window, int n, int block,
                 const float *residual, float *hidden, struct err *e);
/* Returns the number of the window whose sequence is q: of what a probe is shown. */
int windows_which(const struct windows *w, const struct seq *q);

#endif
