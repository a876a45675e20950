// SPDX-License-Identifier: MIT
/* runtime/measure/kld_file.h - reader and writer of llama.cpp's base-logits file ("_logits_"), row
 * by row. Rows are 16-bit codes of log-probabilities over a range of 16 nats. Layout:
 * docs/formats/kld.md. */
#ifndef HONE_EVAL_KLD_FILE_H
#define HONE_EVAL_KLD_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Returns the natural logarithm of x > 0, by Halley's iteration on fp_exp: the same bits on every
 * machine. */
double kld_log(double x);

struct kld_w;
/* Creates a file with tokens[n_chunk * n_ctx]. Exactly n_chunk * (n_ctx - 1 - n_ctx/2) rows must
 * follow, in order. */
int kld_w_open(struct kld_w **out, const char *path, bool overwrite, int32_t n_ctx, int32_t n_vocab,
               int32_t n_chunk, const int32_t *tokens, struct err *e);
/* Writes the next row of logits [n_vocab]. ERR_DATA: a logit is NaN or +infinity. */
int kld_w_row(struct kld_w *w, const float *logits, struct err *e);
/* Puts the complete file into place; an error if rows are missing. */
int kld_w_commit(struct kld_w *w, struct err *e);
/* Frees w, which may be NULL; removes a file that was not committed. */
void kld_w_close(struct kld_w *w);

struct kld_r;
/* Opens a base file. On error *out is NULL. */
int kld_r_open(struct kld_r **out, const char *path, struct err *e);
int32_t kld_r_ctx(const struct kld_r *r);
int32_t kld_r_vocab(const struct kld_r *r);
int32_t kld_r_chunks(const struct kld_r *r);
const int32_t *kld_r_tokens(const struct kld_r *r); /* [n_chunk][n_ctx], owned by r */
/* Decodes row i (0 .. n_chunk * rows per chunk - 1) to log-probabilities. */
void kld_r_row(const struct kld_r *r, int64_t i, float *logp);
/* Returns ERR_DATA if row i does not exist, or its scale or minimum is invalid (NaN, infinite,
 * positive). */
int kld_r_check_row(const struct kld_r *r, int64_t i, struct err *e);
void kld_r_close(struct kld_r *r);

#endif
