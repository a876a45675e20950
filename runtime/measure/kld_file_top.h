// SPDX-License-Identifier: MIT
/* runtime/measure/kld_file_top.h - compact base file: for every scored position the most likely
 * tokens, the probability mass of the rest, and a sample of the rest. Layout and estimator:
 * docs/formats/kld.md. */
#ifndef HONE_EVAL_KLD_FILE_TOP_H
#define HONE_EVAL_KLD_FILE_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct kld_top_shape {
    int32_t n_ctx, n_vocab, n_chunk;
    int32_t from;   /* first scored row of a chunk; the last is n_ctx - 2 */
    int32_t n_top;  /* tokens stored, most likely first; at most n_vocab */
    int32_t n_tail; /* samples of the other tokens */
};
struct kld_top_row {                  /* borrowed until close, unaligned: read with base/bytes.h */
    float logp_true;                  /* log probability of the next token */
    float log_rest;                   /* mass outside the stored tokens; -INFINITY: none */
    const uint8_t *top_id, *top_logp; /* u32, f32 [n_top] */
    const uint8_t *tail_id, *tail_logp; /* [n_tail]; meaningless if log_rest is -INFINITY */
};

struct kld_top_w;
/* Creates a file for sh and writes its header and tokens. On error *out is NULL. */
int kld_top_w_open(struct kld_top_w **out, const char *path, bool overwrite,
                   const struct kld_top_shape *sh, const int32_t *tokens, struct err *e);
/* Writes the next row; `next` is the token that follows it. ERR_DATA if a logit is NaN or +inf, or
 * all are -inf. */
int kld_top_w_row(struct kld_top_w *w, const float *logits, int32_t next, struct err *e);
/* Puts the complete file into place; an error if rows are missing. */
int kld_top_w_commit(struct kld_top_w *w, struct err *e);
/* Frees w, which may be NULL; removes a file that was not committed. */
void kld_top_w_close(struct kld_top_w *w);

struct kld_top_r;
bool kld_top_is(
    const char *path); /* checks the first bytes; also false if the file cannot be read */
/* Opens a base file. On error *out is NULL. */
int kld_top_r_open(struct kld_top_r **out, const char *path, struct err *e);
const struct kld_top_shape *kld_top_r_shape(const struct kld_top_r *r);
const int32_t *kld_top_r_tokens(const struct kld_top_r *r);
/* Reads row i of the file and checks every id and value. */
int kld_top_r_row(const struct kld_top_r *r, int64_t i, struct kld_top_row *out, struct err *e);
void kld_top_r_close(struct kld_top_r *r);

#endif
