// SPDX-License-Identifier: MIT
/* runtime/eval_int.h - what the evaluators share. Internal to runtime/ and its tests. */
#ifndef HONE_RUNTIME_EVAL_INT_H
#define HONE_RUNTIME_EVAL_INT_H

#include "runtime/eval.h"

/* log(sum exp(x)); terms in f32, sum in f64, the largest taken out. */
double eval_lse(const float *x, int64_t n);
int64_t eval_argmax(const float *x, int64_t n); /* first maximum */

/* Sequence of one chunk: state reset, BOS replaces the first token where the vocabulary adds it, hidden
 * rows of all n tokens. */
int eval_chunk(struct session *s, const int32_t *ids, int64_t n, float *hidden, struct err *e);
/* Checks ctx against the session and the text against ctx; *n_chunks = chunks to run. */
int eval_plan(const struct session *s, int64_t n_ids, int64_t ctx, int64_t max_chunks,
              int64_t *n_chunks, struct err *e);
/* Rows of logits computed together: bounded memory, enough rows for a matrix product. */
int64_t eval_head_rows(int64_t n_vocab);

/* Mean and its standard error over n values (0 for n <= 10, as the field does). */
void eval_mean(const double *x, int64_t n, double *mean, double *stderr_out);

struct kld_pos { /* of all scored positions */
    double *nll_q, *nll_p, *kld, *dp;
    uint8_t *same;
    int64_t n;
};
void kld_pos_init(struct kld_pos *p, int64_t cap);
void kld_pos_release(struct kld_pos *p);
/* One position into slot i: base log-probabilities, candidate logits, the true token. */
void kld_pos_row(struct kld_pos *p, int64_t i, const float *logp, const float *logits_q,
                 int64_t n_vocab, int32_t target);
void kld_stats(const struct kld_pos *p, struct eval_kld *out);

#endif
