// SPDX-License-Identifier: MIT
/* runtime/measure/eval.h - measurements made with a session. Procedures:
 * docs/design/evaluation.md. */
#ifndef HONE_RUNTIME_MEASURE_EVAL_H
#define HONE_RUNTIME_MEASURE_EVAL_H

#include "chat/tool_place.h"
#include "base/results_cache.h"
#include "runtime/generate/constrain.h"
#include "runtime/engine/session.h"

/* Measurements record their results in a cache (base/results_cache.h), window by window and case by
 * case, and reuse earlier ones. Apart from speeds, the results are bit-identical. `keep->what`
 * names everything besides the tokens and the arguments here that the numbers depend on: the models
 * and how their sessions compute. keep NULL: no cache. */
/* Returns a text that identifies a model and how its session computes; the caller frees it. `hash`:
 * of the file's content; NULL: the names, sizes and time stamps of its files are used instead. */
char *eval_keep_model(const struct session *s, const char *hash);

struct eval_ppl {
    double ppl, ppl_stderr, mean_nll;
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
/* Computes the perplexity of ids, a whole text, the way it is usually published: in chunks of ctx
 * tokens, scoring the second half of each, with the state reset before each chunk. stride > 0: the
 * strided variant. max_chunks 0: all. */
int eval_ppl(struct session *s, const struct ids *ids, int64_t ctx, int64_t stride,
             int64_t max_chunks, const struct results_cache_of *keep, struct eval_ppl *out,
             struct err *e);
/* Like eval_ppl with stride 0, and sets *window to the mean negative log-likelihood of each window
 * [n_chunks]; the caller frees it. */
int eval_ppl_windows(struct session *s, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                     const struct results_cache_of *keep, struct eval_ppl *out, double **window,
                     struct err *e);

struct eval_kld {
    double ppl, ppl_base, ppl_stderr, ppl_base_stderr, ppl_ratio, ppl_ratio_stderr, ln_ppl_ratio;
    double mean_kld, mean_kld_stderr, median_kld, kld_p90, kld_p95, kld_p99, kld_p999, max_kld,
        min_kld, kld_p10, kld_p05, kld_p01;
    double rms_dp, rms_dp_stderr, mean_dp, mean_dp_stderr; /* fractions, not percent */
    double same_top1, same_top1_stderr, correlation;
    /* Error of mean_kld over windows and its 95 % interval, as in eval_group; the errors above
     * assume independent tokens. NaN: too few windows. */
    double mean_kld_stderr_windows, mean_kld_ci95_low, mean_kld_ci95_high;
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
/* Runs the base and n candidates together, chunk by chunk; no buffer grows with tokens x
 * vocabulary. All sessions have the same vocabulary. If kld is not NULL, kld[i] receives candidate
 * i's values per position [n_tokens], for paired comparisons; the caller frees them. */
int eval_kld(struct session *base, struct session *const *cand, int n_cand, const struct ids *ids,
             int64_t ctx, int64_t max_chunks, struct eval_kld *out, float **kld, struct err *e);
/* Compares with a file of base logits, in llama.cpp's format or the compact one
 * (docs/formats/kld.md). eval_kld_save writes llama.cpp's. */
int eval_kld_file(struct session *cand, const char *base_file, int64_t max_chunks,
                  struct eval_kld *out, struct err *e);
/* Writes the base's logits over the text to a file; max_chunks 0: all windows. */
int eval_kld_save(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                  const char *path, bool overwrite, struct err *e);
/* Writes the compact format: n_top tokens and n_tail samples per row, starting at row `from` (-1:
 * ctx / 2). */
int eval_kld_save_top(struct session *base, const struct ids *ids, int64_t ctx, int64_t max_chunks,
                      int64_t from, int64_t n_top, int64_t n_tail, const char *path, bool overwrite,
                      struct err *e);

/* ---- with breakdowns: about 60 bytes per scored position ---- */

struct eval_domain { /* borrowed */
    const char *name;
    const int32_t *ids;
    int64_t n_ids;
};
struct eval_kld_run;
/* Looks at the results of a comparison that is still running. Sets stop[i] of each candidate that
 * needs no more windows; its results then cover the windows so far. */
typedef void (*eval_look)(void *ud, const struct eval_kld_run *r, bool *stop);
struct eval_rows;
struct eval_kld_job {
    struct session *base;  /* NULL: base_file */
    const char *base_file; /* supplies tokens, window length and rows; one domain */
    struct session *const *cand;
    int n_cand;
    const struct eval_domain *domain; /* windows never cross a domain boundary */
    int n_domains;
    int64_t ctx;
    int64_t max_chunks; /* windows in total, taken from the domains in turn; 0: all */
    int64_t from;       /* first scored row of a window; -1: ctx / 2. Row r predicts token r + 1 */
    bool routing;       /* also compare expert choices, for all tokens of the windows */
    /* All models share a graph (model_with): blocks whose weights a candidate shares with the base
     * or an earlier candidate are computed once, where the sessions allow it. */
    bool same_graph;
    const struct results_cache_of
        *keep; /* [n_cand] cache per candidate and base; NULL or with `routing`: none. With
                  same_graph, only slow windows are stored */
    /* [n_cand] names under which the completed share of windows is stored, for forecasts
     * (kept_share); NULL: none. */
    const char *const *name;
    bool unshared; /* this process runs every window: the caller distributes whole jobs
                      (base/ranks.h) */
    /* `look` is called after looks[0], looks[1]... windows, in ascending order, with results that
     * do not depend on time or threads; never if ranks share out the windows. NULL: no looks. */
    eval_look look;
    void *ud;
    const int64_t *looks;
    int n_looks;
    struct eval_rows *rows; /* the base's hidden rows, from and for other jobs; NULL: none */
};
struct eval_route { /* one candidate, one MoE layer */
    int layer;
    int64_t n_tokens,
        n_same; /* tokens; of these, tokens with the same set of experts as the base */
    int64_t n_chosen, n_common; /* experts chosen; of these, experts also chosen by the base */
};
struct eval_kld_run {
    int n_cand, n_domains, n_routes;
    int64_t ctx, from, per_chunk, n_chunks; /* scored rows of a window: [from, from + per_chunk) */
    int32_t *tokens;                        /* [n_chunks][ctx] */
    int32_t *chunk_domain;                  /* [n_chunks] */
    struct kld_pos *
        pos; /* [n_cand + 1] n_chunks * per_chunk positions (internal.h); the last one is scratch */
    struct eval_route *route; /* [n_cand][n_routes] */
    double tok_per_s;         /* speed of the windows computed in this run; 0: none */
};
/* Runs the job and fills *out; on error, nothing is left to close. */
int eval_kld_open(const struct eval_kld_job *job, struct eval_kld_run *out, struct err *e);
void eval_kld_close(struct eval_kld_run *r);
/* Returns the number of windows on which a candidate was measured: n_chunks, unless a look stopped
 * it. */
int64_t eval_kld_windows(const struct eval_kld_run *r, int cand);

/* Creates a store of a base's hidden rows, so that jobs with the same base, windows and first
 * scored row run the base once. It holds only scored rows, n_embd floats each. Sessions on a device
 * do not use it. */
struct eval_rows *eval_rows_new(void);
void eval_rows_free(struct eval_rows *s);

/* Computes the published statistics: over rows ctx / 2 and later, of all domains. */
void eval_kld_total(const struct eval_kld_run *r, int cand, struct eval_kld *out);
/* Returns the standard error of the mean KLD that is due to sampling in a compact base file; 0 for
 * any other base, NaN for a file with fewer than two samples per row. */
double eval_kld_noise(const struct eval_kld_run *r, int cand);
struct eval_group {
    int64_t n_tokens, n_chunks;
    double mean_kld, mean_kld_stderr; /* standard error over window means; 0 for one window */
    double mean_kld_lo, mean_kld_hi;  /* 95 % interval over windows (eval_cluster) */
    double median_kld, kld_p99, max_kld, ppl, ppl_base, same_top1, rms_dp;
};
/* Computes statistics of rows [row0, row1) of the windows of a domain (-1: all windows). */
void eval_kld_group(const struct eval_kld_run *r, int cand, int domain, int64_t row0, int64_t row1,
                    struct eval_group *out);
struct eval_pair {                /* mean KLD of a minus mean KLD of b, same positions */
    int64_t n_chunks;             /* windows that both have */
    double diff, stderr_, lo, hi; /* as in eval_group */
    double a_worse;               /* share of the positions where a diverges more */
    /* mean KLD of a divided by that of b; 95 % as in eval_group */
    double ratio, ratio_lo, ratio_hi;
};
/* Compares files a and b by the differences of their divergences, clustered by chunk, on the
 * windows that both have. */
void eval_kld_pair(const struct eval_kld_run *r, int a, int b, struct eval_pair *out);
/* Compares them on rows [row0, row1) of the windows of a domain (-1: all windows). */
void eval_kld_pair_group(const struct eval_kld_run *r, int a, int b, int domain, int64_t row0,
                         int64_t row1, struct eval_pair *out);
struct eval_token {     /* one position */
    int64_t chunk, row; /* predicts tokens[chunk][row + 1] */
    int32_t token, top_base, top_cand;
    double kld, p_base, p_cand, p_top_base,
        p_top_cand; /* p of the token under both models; p of each model's top token */
};
/* Finds the n positions with the largest divergence among rows ctx / 2 and later; returns the
 * number found. */
int64_t eval_kld_worst(const struct eval_kld_run *r, int cand, int64_t n, struct eval_token *out);

struct eval_kv {         /* a cache type on synthetic attention */
    double kld;          /* mean divergence of attention weights: cached keys against exact ones */
    double output_error; /* relative RMS error of the output with cached keys and values */
    double bits;         /* per value, mean of keys and values */
    double put_ns, get_ns; /* per value, one thread */
};
/* Measures types k[i] and v[i] at one head size and depth, with queries whose cosine to a key is
 * given. */
int eval_kv(int64_t head_dim, int64_t depth, double cosine, enum kern_isa isa,
            const struct kv_type *const *k, const struct kv_type *const *v, int n_types,
            struct eval_kv *out, struct err *e);

struct eval_mtp { /* a draft's guesses of the token after next, along a text */
    double acceptance, acceptance_stderr; /* share equal to the trunk's top token */
    double overlap, overlap_stderr; /* mean of sum_v min(p_trunk(v), p_draft(v)): acceptance rate
                                       when sampling at temperature 1 */
    double trunk_top1, draft_top1;  /* share equal to the text's token */
    int64_t n_tokens, n_chunks, ctx;
    double tok_per_s;
};
struct drafter;
/* Measures an MTP block or a draft file over the same windows as eval_ppl, scoring rows ctx / 2 and
 * later. draft: opened for the trunk, a session with a context of at least ctx. Memory: hidden rows
 * of one window for both sessions, and two blocks of logits. hit, if not NULL, receives 1 or 0 for
 * each of the n_tokens guesses, owned by the caller (free). */
int eval_mtp(struct session *trunk, struct drafter *draft, const struct ids *ids, int64_t ctx,
             int64_t max_chunks, struct eval_mtp *out, double **hit, struct err *e);

struct eval_gen {
    struct buf text; /* includes control tokens, except the final one; buf_release */
    int64_t n_prompt, n_new;
    bool ended; /* by an end-of-turn token or by `done`, not by the limit */
    struct constrain_counts counts;
    size_t
        *overruled; /* [counts.n_overruled] byte offsets in text (constrain.h), owned; NULL: none */
    double decode_s; /* excludes the prompt */
};
struct eval_gen_opts {
    int64_t n_max;                          /* tokens */
    const struct constrain_opts *constrain; /* restricts the text; NULL: no restriction */
    /* Returns whether the answer is complete, after each token that adds text; NULL: never. */
    bool (*done)(void *ud, const char *text, size_t n);
    void *ud;
};
/* Generates greedily, from an empty state. */
int eval_generate(struct session *s, const struct ids *prompt, const struct eval_gen_opts *how,
                  struct eval_gen *out, struct err *e);

/* ---- suites: cases as in runtime/measure/suite.h ---- */

struct suite;
struct answer;
struct verdict;
struct chat;
struct toolfmt;
struct suite_plan { /* prompts of a suite's selected cases for one model */
    const struct suite *suite;
    const struct toolfmt *format; /* call syntax; NULL: none is known for the template */
    int n;
    int *index;               /* [n] index of the case in the suite */
    struct ids *prompt;       /* [n] */
    char **text;              /* [n] the prompts as text */
    int64_t longest;          /* tokens of the longest prompt */
    struct chat *chat;        /* the model's template, for loops; NULL: no case needs one */
    bool jump;                /* set by the caller, used with vocab: forced tokens are not drawn */
    bool strict_calls;        /* set by the caller: bare JSON does not count as a call */
    struct gram_vocab *vocab; /* set by the caller, owned by the plan: constrains calls to the
                                 offered tools; NULL: unconstrained */
};
/* Prepares n_cases evenly spaced cases (0: all) of a suite. `format` names the call syntax; NULL:
 * the template's. ERR_DATA if calls are expected and no syntax is known. */
int suite_plan_open(struct suite_plan *p, const struct suite *suite, const struct model *m,
                    int64_t n_cases, const char *format, struct err *e);
void suite_plan_close(struct suite_plan *p);
struct suite_answers { /* a model's answers to the cases */
    int n;
    struct answer *answer;   /* [n] */
    struct verdict *verdict; /* [n] */
    bool *ended;             /* [n] false: cut at the token limit */
    int64_t n_prompt, n_new;
    int64_t n_loose; /* calls written as bare JSON */
    struct constrain_counts counts;
    struct tool_tally overruled; /* positions within calls */
    double seconds, decode_s;    /* decode_s excludes prompts and is 0 for cached answers */
};
/* Generates greedy answers of at most max_tokens tokens (a case may set its own limit) and judges
 * them. */
int eval_suite(struct session *s, const struct suite_plan *p, int64_t max_tokens,
               const struct results_cache_of *keep, struct suite_answers *out, struct err *e);
void suite_answers_release(struct suite_answers *a);

/* ---- multiple choice: tasks as in runtime/measure/choices.h ---- */

struct choice_tasks;
struct choice_answers {
    int n;
    int *pick;      /* [n] choice with the highest score; the first in a tie */
    bool *greedy;   /* [n] the right choice is the greedy continuation */
    double **score; /* [n] mean log p of the scored tokens of each choice */
    double seconds;
};
/* Answers all tasks. keep: cache for results, or NULL. Free *out after success. */
int eval_choices(struct session *s, const struct choice_tasks *c,
                 const struct results_cache_of *keep, struct choice_answers *out, struct err *e);
void choice_answers_release(struct choice_answers *a);

struct eval_speed {
    char test[32]; /* "pp512", "tg128" */
    int64_t depth, n_tokens;
    double tok_per_s, tok_per_s_stddev, gb_per_s, share_of_bandwidth, bytes_per_token;
};
/* Measures speed at each depth. out[] has room for 2 * n_depths rows; *n_out receives the number of
 * rows. pp or tg 0: that test is skipped. */
int eval_speed(struct session *s, int64_t pp, int64_t tg, const int64_t *depths, int n_depths,
               int reps, double bandwidth_gb_s, const struct results_cache_of *keep,
               struct eval_speed *out, int *n_out, struct err *e);
/* Returns the machine's read bandwidth with this pool in GB/s, the best of one, two and four
 * streams per thread. Measured once per process. */
double eval_bandwidth(struct pool *p);
/* Returns the bandwidth in GB/s of the memory that holds a session's weights; for a device, the
 * nominal bandwidth if the driver reports it. */
double eval_session_bandwidth(const struct session *s, struct pool *p);

/* Returns the number of rows whose logits are computed together: enough for a matrix product, few
 * enough for memory. */
int64_t eval_head_rows(int64_t n_vocab);

#endif
