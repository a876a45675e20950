// SPDX-License-Identifier: MIT
/* runtime/measure/eval.h - what we measure with a session. Procedures: docs/design/evaluation.md.
 */
#ifndef HONE_RUNTIME_MEASURE_EVAL_H
#define HONE_RUNTIME_MEASURE_EVAL_H

#include "chat/tool_place.h"
#include "base/results_cache.h"
#include "runtime/generate/constrain.h"
#include "runtime/engine/session.h"

/* Measurements keep what they have found as they go (base/results_cache.h), window by window and
 * case by case, and take over what is there: the result has the same bits, but for speeds.
 * `keep->what` says all that the numbers depend on besides the tokens and what is named here: the
 * models and how their sessions compute. NULL: nothing is kept. */
/* Returns a text for a model and how its session computes, which the caller frees. `hash` is one
 * of the file's content; where it is NULL, names, sizes and time stamps of the files stand for
 * it. */
char *eval_keep_model(const struct session *s, const char *hash);

struct eval_ppl {
    double ppl, ppl_stderr, mean_nll;
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
/* Computes the perplexity of ids, which are the whole text, as it is usually published: chunks
 * of ctx tokens of which the second half is scored, with the state reset for each. stride 0
 * means that; another one the strided variant. max_chunks 0: all. */
int eval_ppl(struct session *s, const struct ids *ids, int64_t ctx, int64_t stride,
             int64_t max_chunks, const struct results_cache_of *keep, struct eval_ppl *out,
             struct err *e);
/* Does the same for the published windows and gives the mean negative log-likelihood of each,
 * window[n_chunks], which the caller frees. */
int eval_ppl_windows(struct session *s, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                     const struct results_cache_of *keep, struct eval_ppl *out, double **window,
                     struct err *e);

struct eval_kld {
    double ppl, ppl_base, ppl_stderr, ppl_base_stderr, ppl_ratio, ppl_ratio_stderr, ln_ppl_ratio;
    double mean_kld, mean_kld_stderr, median_kld, kld_p90, kld_p95, kld_p99, kld_p999, max_kld,
        min_kld, kld_p10, kld_p05, kld_p01;
    double rms_dp, rms_dp_stderr, mean_dp, mean_dp_stderr; /* fractions, not percent */
    double same_top1, same_top1_stderr, correlation;
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
/* Runs base and n candidates together, chunk by chunk; nothing of size tokens x vocab is kept.
 * All sessions have the same vocabulary. kld[i], where kld is not NULL, gets the values per
 * position [n_tokens] of candidate i for paired comparisons; the caller frees them. */
int eval_kld(struct session *base, struct session *const *cand, int n_cand, const struct ids *ids,
             int64_t ctx, int64_t max_chunks, struct eval_kld *out, float **kld, struct err *e);
/* Compares with a file of base logits, in llama.cpp's format or the compact one
 * (docs/formats/kld.md); eval_kld_save writes the former. */
int eval_kld_file(struct session *cand, const char *base_file, int64_t max_chunks,
                  struct eval_kld *out, struct err *e);
int eval_kld_save(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                  const char *path, bool overwrite, struct err *e);
/* Writes the compact one: n_top tokens and n_tail samples a row, of rows from `from` (-1: ctx /
 * 2) on. */
int eval_kld_save_top(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                      int64_t from, int64_t n_top, int64_t n_tail, const char *path, bool overwrite,
                      struct err *e);

/* ---- the same with everything kept that a breakdown needs: some 60 bytes per scored position ----
 */

struct eval_domain { /* borrowed */
    const char *name;
    const int32_t *ids;
    int64_t n_ids;
};
struct eval_kld_job {
    struct session *base;  /* NULL: base_file */
    const char *base_file; /* its tokens, window length and rows; one domain */
    struct session *const *cand;
    int n_cand;
    const struct eval_domain *domain; /* windows never cross a border */
    int n_domains;
    int64_t ctx;
    int64_t max_chunks; /* windows in all, taken from the domains in turn; 0: all */
    int64_t from;       /* first scored row of a window; -1: ctx / 2. Row r predicts token r + 1 */
    bool routing;       /* also compare expert choices, of all tokens of the windows */
    /* All models are of one graph (model_with): blocks whose weights a candidate shares with the
     * base, or with a candidate before it, are computed once. Where that cannot be, all is. */
    bool same_graph;
    const struct results_cache_of
        *keep; /* [n_cand], each about its candidate and the base; NULL: none, also
         with routing. With same_graph: windows that took long */
    /* [n_cand], names under which the share of windows done is kept too, for forecasts
     * (kept_share); NULL: none */
    const char *const *name;
    bool unshared; /* this rank takes every window: the caller shares out whole jobs (base/ranks.h)
                    */
};
struct eval_route { /* of one candidate and one MoE layer */
    int layer;
    int64_t n_tokens, n_same;   /* tokens; those with the base's set of experts */
    int64_t n_chosen, n_common; /* experts chosen; those the base chose too */
};
struct eval_kld_run {
    int n_cand, n_domains, n_routes;
    int64_t ctx, from, per_chunk, n_chunks; /* rows [from, from + per_chunk) of a window */
    int32_t *tokens;                        /* [n_chunks][ctx] */
    int32_t *chunk_domain;                  /* [n_chunks] */
    struct kld_pos *pos;      /* [n_cand + 1], of n_chunks * per_chunk positions (internal.h); the
                                 last one is room for statistics */
    struct eval_route *route; /* [n_cand][n_routes] */
    double tok_per_s;         /* of the windows that were run now; 0: none was */
};
int eval_kld_open(const struct eval_kld_job *job, struct eval_kld_run *out, struct err *e);
void eval_kld_close(struct eval_kld_run *r);

/* Computes the published statistics: rows from ctx / 2 on, of all domains. */
void eval_kld_total(const struct eval_kld_run *r, int cand, struct eval_kld *out);
/* Returns the standard error of that mean KLD that comes from the samples of a compact base
 * file; 0 with any other base. */
double eval_kld_noise(const struct eval_kld_run *r, int cand);
struct eval_group {
    int64_t n_tokens, n_chunks;
    double mean_kld, mean_kld_stderr; /* error over window means; 0 with one window */
    double mean_kld_lo, mean_kld_hi;  /* 95 % interval: bootstrap of whole windows */
    double median_kld, kld_p99, max_kld, ppl, ppl_base, same_top1, rms_dp;
};
/* Computes statistics of rows [row0, row1) of the windows of a domain (-1: all). */
void eval_kld_group(const struct eval_kld_run *r, int cand, int domain, int64_t row0, int64_t row1,
                    struct eval_group *out);
struct eval_pair {                /* mean KLD of a minus that of b, same positions */
    double diff, stderr_, lo, hi; /* as in eval_group */
    double a_worse;               /* share of the positions where a's is larger */
};
void eval_kld_pair(const struct eval_kld_run *r, int a, int b, struct eval_pair *out);
struct eval_token {     /* one position */
    int64_t chunk, row; /* predicts tokens[chunk][row + 1] */
    int32_t token, top_base, top_cand;
    double kld, p_base, p_cand, p_top_base,
        p_top_cand; /* of token by both; of each one's favourite */
};
/* Finds the n positions of largest divergence among rows from ctx / 2 on; returns how many there
 * are. */
int64_t eval_kld_worst(const struct eval_kld_run *r, int cand, int64_t n, struct eval_token *out);

struct eval_kv {           /* a cache type on synthetic attention */
    double kld;            /* mean divergence of attention weights, cached keys from true ones */
    double output_error;   /* rms of the output's error, cached keys and values, over its rms */
    double bits;           /* per value, mean of keys and values */
    double put_ns, get_ns; /* per value, one thread */
};
/* Measures types k[i] and v[i] at one head size and depth. Queries look along a key with that
 * cosine. */
int eval_kv(int64_t head_dim, int64_t depth, double cosine, enum kern_isa isa,
            const struct kv_type *const *k, const struct kv_type *const *v, int n_types,
            struct eval_kv *out, struct err *e);

struct eval_mtp { /* the MTP block's guess of the token after next, along a text */
    double acceptance, acceptance_stderr; /* share equal to the trunk's likeliest token there */
    double overlap, overlap_stderr; /* mean of sum_v min(p_trunk(v), p_draft(v)): what is accepted
                                       of samples at temperature 1 */
    double trunk_top1, draft_top1;  /* share of the text's own tokens */
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
/* Windows as in eval_ppl; rows from ctx / 2 on are scored. draft: of draft_session, its context at
 * least ctx. Memory: hidden rows of one window for both, two blocks of logits. */
int eval_mtp(struct session *trunk, struct session *draft, const struct ids *ids, int64_t ctx,
             int64_t max_chunks, struct eval_mtp *out, struct err *e);

struct eval_gen {
    struct buf text; /* control tokens spelled out, the one that ended it not; buf_release */
    int64_t n_prompt, n_new;
    bool ended; /* by a token that ends a turn, not by the limit */
    struct constrain_counts counts;
    size_t *overruled; /* [counts.n_overruled] bytes of text (constrain.h); NULL: none; free */
    double decode_s;   /* behind the prompt */
};
/* Generates the likeliest continuation, token by token, of at most n_max tokens, from an empty
 * state. `constrain` says what it may be; NULL: anything. */
int eval_generate(struct session *s, const struct ids *prompt, int64_t n_max,
                  const struct constrain_opts *constrain, struct eval_gen *out, struct err *e);

/* ---- suites: runtime/measure/suite.h says what a case is ---- */

struct suite;
struct answer;
struct verdict;
struct chat;
struct toolfmt;
struct suite_plan { /* the prompts of some cases of a suite, for one model */
    const struct suite *suite;
    const struct toolfmt *format; /* of calls; NULL: the template has none that is known */
    int n;
    int *index;               /* [n] of the case within the suite */
    struct ids *prompt;       /* [n] */
    char **text;              /* [n] the same as text */
    int64_t longest;          /* tokens of the longest prompt */
    bool jump;                /* set by the caller, of those: what must come is not drawn */
    bool strict_calls;        /* set by the caller: bare JSON is no call */
    struct gram_vocab *vocab; /* set by the caller: calls are constrained to the tools offered; else
                                 NULL. suite_plan_close frees it */
};
/* Plans a suite: n_cases cases, evenly spread (0: all). `format` names a syntax of calls; NULL:
 * the one that the template asks for. ERR_DATA when calls are expected and no syntax is known. */
int suite_plan_open(struct suite_plan *p, const struct suite *suite, const struct model *m,
                    int64_t n_cases, const char *format, struct err *e);
void suite_plan_close(struct suite_plan *p);
struct suite_answers { /* what a model made of them */
    int n;
    struct answer *answer;   /* [n] */
    struct verdict *verdict; /* [n] */
    bool *ended;             /* [n] false: cut at the limit of tokens */
    int64_t n_prompt, n_new;
    int64_t n_loose; /* calls that were bare JSON */
    struct constrain_counts counts;
    struct tool_tally overruled; /* where in calls */
    double seconds, decode_s;    /* the second without the prompts; 0 of answers that were kept */
};
/* Generates greedy answers of at most max_tokens tokens (a case may say otherwise) and judges
 * them. */
int eval_suite(struct session *s, const struct suite_plan *p, int64_t max_tokens,
               const struct results_cache_of *keep, struct suite_answers *out, struct err *e);
void suite_answers_release(struct suite_answers *a);

/* ---- multiple choice: runtime/measure/choices.h says what a task is ---- */

struct choice_tasks;
struct choice_answers {
    int n;
    int *pick;      /* [n] choice of the largest score; the first of equal ones */
    bool *greedy;   /* [n] the right choice is what the model would write by itself */
    double **score; /* [n] mean log p of the scored tokens of each choice */
    double seconds;
};
int eval_choices(struct session *s, const struct choice_tasks *c,
                 const struct results_cache_of *keep, struct choice_answers *out, struct err *e);
void choice_answers_release(struct choice_answers *a);

struct eval_speed {
    char test[32]; /* "pp512", "tg128" */
    int64_t depth, n_tokens;
    double tok_per_s, tok_per_s_stddev, gb_per_s, share_of_bandwidth, bytes_per_token;
};
/* Measures speed at each depth. out[] has room for 2 * n_depths rows, *n_out gets their number.
 * With pp or tg 0 that test is left out. */
int eval_speed(struct session *s, int64_t pp, int64_t tg, const int64_t *depths, int n_depths,
               int reps, double bandwidth_gb_s, const struct results_cache_of *keep,
               struct eval_speed *out, int *n_out, struct err *e);
/* Returns the read bandwidth of this machine with this pool in GB/s, the best of reading one,
 * two and four streams per thread. It is measured once per process. */
double eval_bandwidth(struct pool *p);
/* Returns the same for the memory that a session's weights are read from: of a device its nominal
 * bandwidth, where the driver says it. */
double eval_session_bandwidth(const struct session *s, struct pool *p);

/* Returns how many rows of logits are computed together: enough for a matrix product, few enough
 * for memory. */
int64_t eval_head_rows(int64_t n_vocab);

#endif
