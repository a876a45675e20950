// SPDX-License-Identifier: MIT
/* runtime/measure/internal.h - what the evaluators share. Internal to runtime/ and its tests. */
#ifndef HONE_RUNTIME_MEASURE_INTERNAL_H
#define HONE_RUNTIME_MEASURE_INTERNAL_H

#include "runtime/measure/kld_file_top.h"
#include "runtime/measure/eval.h"
#include "runtime/generate/windows.h"
#include "runtime/engine/fault.h"
#include "runtime/engine/logits.h"

/* Returns log(sum exp(x)). The largest value is taken out; terms are f32, the sum is f64. */
double eval_lse(const float *x, int64_t n);

/* Returns how many tokens of a long window go together: where rows are scored on a device
 * (session_score), those of one pass. */
int64_t eval_piece(const struct session *s);
/* Feeds tokens [at, at + n) of a chunk, n at most WINDOWS_PIECE, and returns their hidden rows. At
 * 0 the state is reset and BOS replaces the first token where the vocabulary adds it. Pieces make
 * memory independent of the window. */
int eval_feed(struct session *s, const int32_t *chunk, int64_t at, int64_t n, float *hidden,
              struct err *e);
/* Returns the name of a record of n tokens, of which the positions [first, last) are scored. The
 * caller frees it. */
char *eval_keep_window(const char *kind, const int32_t *ids, int64_t n, int64_t first,
                       int64_t last);
/* Checks ctx against the session and the text against ctx; *n_chunks = chunks to run. */
int eval_plan(const struct session *s, int64_t n_ids, int64_t ctx, int64_t max_chunks,
              int64_t *n_chunks, struct err *e);

/* Computes the mean of n values and its standard error, which is 0 for n <= 10, as in llama.cpp. */
void eval_mean(const double *x, int64_t n, double *mean, double *stderr_out);

struct kld_pos { /* of all scored positions */
    double *nll_q, *nll_p, *kld, *dp;
    uint8_t *same;
    int32_t *top_p, *top_q; /* favourite tokens and their probabilities */
    float *prob_p, *prob_q;
    float *noise; /* variance of kld by sampling: compact base files only */
    int64_t n;
};
int kld_pos_init(struct kld_pos *p, int64_t cap, struct err *e);
void kld_pos_release(struct kld_pos *p);
/* Computes one position into slot i from the base's log-probabilities, the candidate's logits
 * and the true token. */
void kld_pos_row(struct kld_pos *p, int64_t i, const float *logp, const float *logits_q,
                 int64_t n_vocab, int32_t target);
/* Sets one position to what a device found. */
void kld_pos_set(struct kld_pos *p, int64_t i, const struct session_score *row);
/* Does the same from a row of a compact base file: exact over the kept tokens, an unbiased
 * estimate over the rest (docs/formats/kld.md). logits_q is changed on the way. */
void kld_pos_top(struct kld_pos *p, int64_t i, const struct kld_top_row *row, int64_t n_top,
                 int64_t n_tail, float *logits_q, int64_t n_vocab, int32_t target);
/* Sorts p->kld and squares p->dp on the way. */
void kld_stats(struct kld_pos *p, struct eval_kld *out);

/* Mean over all windows of values with sums sum[c] over count[c] positions (0: window not there),
 * its standard error over window means, and the 95 % percentile interval of BOOT_SAMPLES resamples
 * of whole windows (seed fixed). Windows weigh by their counts. */
enum { BOOT_SAMPLES = 1000 };
struct cluster {
    double mean, stderr_, lo, hi;
};
void eval_cluster(const double *sum, const int64_t *count, int64_t n_windows, struct cluster *out);
/* Returns the value below which the fraction f (0 to 1) of n sorted values lies; between two
 * neighbours it is interpolated. */
double eval_percentile(const double *sorted, int64_t n, double f);
void eval_sort(double *x, int64_t n);

/* Expert choices of one piece (route.c). */
struct route_log {
    int n_layers;
    int *layer;            /* block of MoE layer i */
    int64_t *n_used;       /* of MoE layer i */
    int64_t at;            /* position of the piece */
    int32_t **base;        /* [n_layers][WINDOWS_PIECE * n_used], sorted per token */
    struct eval_route *to; /* NULL: the base is running; else [n_layers] */
};
int route_init(struct route_log *l, const struct session *base, struct err *e);
void route_release(struct route_log *l);
/* Fails with ERR_DATA when s has other MoE layers than the base. */
int route_check(const struct route_log *l, const struct session *s, struct err *e);
void route_watch(struct route_log *l, struct session *s, int64_t at, struct eval_route *to);

#endif
