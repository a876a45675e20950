// SPDX-License-Identifier: MIT
/* runtime/eval.h - what we measure with a session. Procedures: docs/design/evaluation.md. */
#ifndef HONE_RUNTIME_EVAL_H
#define HONE_RUNTIME_EVAL_H

#include "runtime/session.h"

struct eval_ppl {
    double ppl, ppl_stderr, mean_nll;
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
/* ids: whole text; window procedure of the field: chunks of ctx, second half scored, state reset per chunk.
 * stride 0: as published; else the strided variant. max_chunks 0: all. */
int eval_ppl(struct session *s, const struct ids *ids, int64_t ctx, int64_t stride,
             int64_t max_chunks, struct eval_ppl *out, struct err *e);

struct eval_kld {
    double ppl, ppl_base, ppl_stderr, ppl_base_stderr, ppl_ratio, ppl_ratio_stderr, ln_ppl_ratio;
    double mean_kld, mean_kld_stderr, median_kld, kld_p90, kld_p95, kld_p99, kld_p999, max_kld,
        min_kld, kld_p10, kld_p05, kld_p01;
    double rms_dp, rms_dp_stderr, mean_dp, mean_dp_stderr; /* fractions, not percent */
    double same_top1, same_top1_stderr, correlation;
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
/* Base and n candidates run together chunk by chunk; nothing of size tokens x vocab is kept. All
 * sessions have the same vocabulary. on_chunk may be NULL. kld[i] optional: per-position values [n_tokens] of candidate i
 * (free()), for paired comparisons. */
int eval_kld(struct session *base, struct session *const *cand, int n_cand, const struct ids *ids,
             int64_t ctx, int64_t max_chunks, struct eval_kld *out, float **kld, struct err *e);
/* Against / into the field's base-logits file. */
int eval_kld_file(struct session *cand, const char *base_file, int64_t max_chunks,
                  struct eval_kld *out, struct err *e);
int eval_kld_save(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                  const char *path, bool overwrite, struct err *e);

struct eval_speed {
    char test[32]; /* "pp512", "tg128" */
    int64_t depth, n_tokens;
    double tok_per_s, tok_per_s_stddev, gb_per_s, share_of_bandwidth, bytes_per_token;
};
/* out[] has room for 2 * n_depths rows; *n_out set. pp or tg 0: left out. */
int eval_speed(struct session *s, int64_t pp, int64_t tg, const int64_t *depths, int n_depths,
               int reps, double bandwidth_gb_s, struct eval_speed *out, int *n_out, struct err *e);
/* Measured read bandwidth of this machine with this pool, GB/s (cached per process). */
double eval_bandwidth(struct pool *p);

#endif
