// SPDX-License-Identifier: MIT
/* runtime/measure/internal.h - helpers shared by the evaluators. Internal to runtime/ and its
 * tests. */
#ifndef HONE_RUNTIME_MEASURE_INTERNAL_H
#define HONE_RUNTIME_MEASURE_INTERNAL_H

#include "runtime/measure/kld_file_top.h"
#include "runtime/measure/eval.h"
#include "runtime/generate/windows.h"
#include "runtime/engine/fault.h"
#include "runtime/engine/logits.h"

/* Returns log(sum exp(x)), with the maximum subtracted first; terms are f32, the sum is f64. */
double eval_lse(const float *x, int64_t n);

/* Returns the number of tokens of a long window to run at a time: one pass if rows are scored on a
 * device (session_score), else WINDOWS_PIECE. */
int64_t eval_piece(const struct session *s);
/* Feeds tokens [at, at + n) of a chunk, n at most WINDOWS_PIECE, and returns their hidden rows. At
 * position 0 it resets the state and replaces the first token by BOS if the vocabulary adds it.
 * Feeding in chunks keeps memory independent of the window length. */
int eval_feed(struct session *s, const int32_t *chunk, int64_t at, int64_t n, float *hidden,
              struct err *e);
/* Feeds p->n tokens like eval_feed, with the results that p requests; sets p->ids. */
int eval_pass(struct session *s, const int32_t *chunk, int64_t at, struct session_pass *p,
              struct err *e);
/* Returns the cache key of a window of n tokens with scored positions [first, last). The caller
 * frees it. */
char *eval_keep_window(const char *kind, const int32_t *ids, int64_t n, int64_t first,
                       int64_t last);
/* Checks ctx against the session and the text against ctx; sets *n_chunks to the number of chunks
 * to run. */
int eval_plan(const struct session *s, int64_t n_ids, int64_t ctx, int64_t max_chunks,
              int64_t *n_chunks, struct err *e);

/* Computes the mean of n values and its standard error, which is NaN, unknown, for n <= 10. */
void eval_mean(const double *x, int64_t n, double *mean, double *stderr_out);

struct kld_pos { /* arrays over all scored positions */
    double *nll_q, *nll_p, *kld, *dp;
    uint8_t *same;
    int32_t *top_p, *top_q; /* top tokens and their probabilities */
    float *prob_p, *prob_q;
    float *noise; /* sampling variance of kld: compact base files only */
    int64_t n;
};
/* Allocates scores for cap positions; ERR_SYS if memory runs out. */
int kld_pos_init(struct kld_pos *p, int64_t cap, struct err *e);
void kld_pos_release(struct kld_pos *p);
/* Computes one position into slot i from the base's log-probabilities, the candidate's logits and
 * the true token. */
void kld_pos_row(struct kld_pos *p, int64_t i, const float *logp, const float *logits_q,
                 int64_t n_vocab, int32_t target);
/* Sets one position from scores computed on a device. */
void kld_pos_set(struct kld_pos *p, int64_t i, const struct session_score *row);
/* Like kld_pos_row, but from a row of a compact base file: exact over the stored tokens, an
 * unbiased estimate over the rest (docs/formats/kld.md). logits_q serves as scratch. */
void kld_pos_top(struct kld_pos *p, int64_t i, const struct kld_top_row *row, int64_t n_top,
                 int64_t n_tail, float *logits_q, int64_t n_vocab, int32_t target);
/* Computes the statistics; sorts p->kld and squares p->dp in place. */
void kld_stats(struct kld_pos *p, struct eval_kld *out);

/* Weighted mean over windows whose values sum to sum[c] over count[c] positions (0: window not
 * used), its standard error over window means, and its 95 % interval: the percentiles of
 * BOOT_SAMPLES resamples of whole windows (fixed seed), widened for few windows. Windows are
 * weighted by their counts. */
enum { BOOT_SAMPLES = 1000 };
struct cluster {
    double mean, stderr_, lo, hi;
};
void eval_cluster(const double *sum, const int64_t *count, int64_t n_windows, struct cluster *out);
/* Ends the interval at the limits of its quantity, which widening may pass: 0 for a divergence, 0
 * and 1 for a share. Rounding may leave the mean itself outside. */
void eval_cluster_bound(struct cluster *c, double least, double most);
/* Sets lo and hi of *out to the 95 % interval of sum a / sum b over the same resamples, and mean to
 * that ratio: NaN if b sums to 0. */
void eval_cluster_ratio(const double *a, const double *b, int64_t n_windows, struct cluster *out);
/* Returns the 97.5 % quantile of Student's t with df degrees of freedom, to 0.0002: a table below
 * 7, Cornish-Fisher's expansion from there. */
double eval_student(int64_t df);
/* Returns the quantile f (0 to 1) of n sorted values, interpolated between neighbors. */
double eval_percentile(const double *sorted, int64_t n, double f);
/* Sorts n numbers in ascending order. */
void eval_sort(double *x, int64_t n);

/* Experts chosen for one chunk (route.c). */
struct route_log {
    int n_layers;
    int *layer;            /* block of MoE layer i */
    int64_t *n_used;       /* experts per token of MoE layer i */
    int64_t at;            /* position of the chunk */
    int32_t **base;        /* [n_layers][WINDOWS_PIECE * n_used], sorted per token */
    struct eval_route *to; /* NULL while the base runs; then [n_layers] receives the comparison */
};
/* Prepares recording the base's expert choices; nothing is recorded for dense models. */
int route_init(struct route_log *l, const struct session *base, struct err *e);
void route_release(struct route_log *l);
/* Returns ERR_DATA if the MoE layers of s differ from the base's. */
int route_check(const struct route_log *l, const struct session *s, struct err *e);
/* Observes s, starting at position `at`. to: a candidate's counts, or NULL for the base. */
void route_watch(struct route_log *l, struct session *s, int64_t at, struct eval_route *to);

#endif
