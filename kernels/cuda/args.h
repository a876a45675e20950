// SPDX-License-Identifier: MIT
/* kernels/cuda/args.h - argument structs of the CUDA launchers. The structs are in host memory
 * and are read during the call; their pointers are device pointers, and sizes are in elements. */
#ifndef HONE_KERNELS_CUDA_ARGS_H
#define HONE_KERNELS_CUDA_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/qtype.h"

/* Function f of cu_mul. */
enum cu_factor { CU_FACTOR_VALUE, CU_FACTOR_SIGMOID, CU_FACTOR_SOFTPLUS };
/* Function f of cu_act_rows. */
enum cu_act {
    CU_ACT_SILU,
    CU_ACT_GELU,
    CU_ACT_GELU_ERF,
    CU_ACT_RELU2,
    CU_ACT_XIELU,
    CU_ACT_TANH,
    CU_ACT_CLAMPED, /* gate * sigmoid(alpha gate) * (up + 1), both clamped by the limit */
    CU_ACT_COUNT
};
struct cu_xielu { /* same fields as struct gr_xielu */
    float p, n, b, eps;
};

/* Keys and values are stored in pages of CU_PAGE positions of one sequence. A layer's page has
 * keys, then values, both planar: codes [n_kv_heads][CU_PAGE][head_dim] (f32, f16, int8, or two
 * 4-bit codes per byte, the lower index in the low half), then for q8_0 and q4_0 the f16 scales
 * [n_kv_heads][CU_PAGE][head_dim / 32]. Values and sizes are the same as in the CPU's blocks. A
 * page is aligned to 16 bytes. */
#define CU_PAGE 256

/* A segment: the rows of one sequence in a pass. The struct and all its data are in device
 * memory, so that a captured launch serves every sequence at every depth. */
struct cu_seg {
    void *const *page; /* page of position p in layer `slot`: page[p / CU_PAGE * n_slots + slot] */
    float *state;      /* states of all recurrent layers */
    int32_t pos, row, n; /* position of the first row; its index in the pass; rows */
    int32_t unused;
};
/* Which of a token's positions rotates each pair of RoPE (graph.section). */
struct cu_sections {
    int n[3];   /* pairs per position */
    bool mixed; /* positions alternate from pair to pair */
    bool any;   /* tokens have three positions; otherwise one */
};
/* The rows that a launch works on. */
struct cu_rows_of {
    const struct cu_seg *seg; /* [n_segs] */
    int64_t n_segs, longest;  /* longest: rows of the longest segment */
};

struct cu_attn {
    enum qtype k_type, v_type; /* QT_F32, QT_F16, QT_Q8_0, QT_Q4_0 */
    int64_t n_heads, n_kv_heads, head_dim;
    /* cu_attn_latent: length of the latent part of head_dim, which is stored in the plane of
     * values; 0: separate keys and values. */
    int64_t latent;
    int64_t window;    /* > 0: a query at position p sees keys > p - window */
    bool chunked;      /* a query at position p sees no keys before p - p % window (attn_any.cu) */
    float scale;       /* factor of scores */
    float softcap;     /* scores become softcap * tanh(scores / softcap); 0: unchanged */
    const float *sink; /* NULL, or [n_heads]: exponentials added to the sums */
    int slot, n_slots;
    struct cu_rows_of rows;
    /* cu_kv_append, cu_qkv, cu_attn_any: all rows of the pass. Row r is at position row_pos[r]
     * of the sequence all_segs[row_seg[r]]. */
    int64_t n_tok;
    const struct cu_seg *all_segs;
    const int32_t *row_pos, *row_seg;
    bool fast, fast_few;        /* cu_attn_many, cu_attn_few: f16 operands on tensor cores */
    const float *q;             /* [n_tok][n_heads][head_dim] */
    const float *new_k, *new_v; /* cu_kv_append: [n_tok][n_kv_heads][head_dim] */
    float *out;                 /* [n_tok][n_heads][head_dim] */
    const float *gate;          /* NULL, or head h's at gate + h * gate_ld: out *= sigmoid(gate) */
    int64_t gate_ld;            /* 0: head_dim */
    /* cu_attn_few. out_q: NULL, or receives a copy of `out` as 8-bit blocks; head_dim must then be
     * a multiple of 32. n_splits: maximum number of parts into which a row's keys are split. part:
     * sums of the parts, n_segs * longest * n_heads * n_splits * (head_dim + 2) floats. */
    void *out_q;
    int64_t n_splits;
    float *part;
    /* cu_qkv. raw_q: queries before norm and RoPE, head h of a token at raw_q + h * raw_q_ld.
     * q_norm, k_norm: weights of the norms, used if `normed` is set; NULL: 1. cs, n_rot, adjacent:
     * table, width and kind of RoPE. q_out: receives the queries. */
    const float *raw_q, *q_norm, *k_norm, *cs;
    int64_t raw_q_ld, n_rot;
    float eps;
    bool normed, adjacent;
    float *q_out;
};

struct cu_delta { /* arguments of OP_CONV_SILU, OP_DELTA and OP_GATED_RMS (models/graph.h) */
    struct cu_rows_of rows;
    int64_t n_v_heads, n_k_heads, k_dim, v_dim;
    float eps, scale;          /* eps of the l2 norms; scale of q */
    float *u;                  /* [n_tok][channels]: q heads | k heads | v heads */
    const float *beta, *alpha; /* [n_tok][n_v_heads] */
    const float *a, *dt;       /* [n_v_heads] */
    int64_t state_at;          /* in seg.state: [n_v_heads][v_dim][k_dim]; a multiple of 4 */
    float *out;                /* [n_tok][n_v_heads][v_dim] */
    /* The convolution: weights [channels][taps]. Raw inputs are at ring_at in seg.state,
     * [taps][channels]; position p is in slot p % taps. */
    const float *conv, *conv_bias; /* NULL, or [channels] */
    int64_t ring_at, taps;
    bool grouped; /* as OP_DELTA: beta also holds alpha; value heads are stored by key head */
    /* cu_delta_token: the gated norm. */
    const float *z, *norm; /* [n_v_heads][v_dim]; [v_dim] */
    float norm_eps;
    int32_t *arrived; /* [n_v_heads], 0 before and after */
    /* cu_delta_rows may compute CU_CHUNK tokens at once, with operands in bf16; every segment
     * has at least that many. */
    bool chunked;
    void *yq; /* NULL, or a quantized copy of the normed output; v_dim a multiple of 32 */
};
struct cu_short { /* arguments of OP_SHORT_CONV */
    struct cu_rows_of rows;
    const float *u; /* [n_tok][b | c | x], n_ch each */
    const float *w; /* [n_ch][taps] */
    float *out;     /* [n_tok][n_ch] */
    int64_t n_ch, taps;
    int64_t ring_at; /* in seg.state: b * x, [taps][n_ch], position p in slot p % taps */
};
struct cu_scan { /* arguments of OP_MAMBA2; with `first`, of OP_MAMBA1: one head, one group */
    struct cu_rows_of rows;
    bool first;
    int64_t n_heads, n_groups, k_dim, v_dim;
    const float *x, *dt, *b; /* a token's rows are x_ld, dt_ld, bc_ld apart; C follows B */
    int64_t x_ld, dt_ld, bc_ld;
    const float *a, *dt_bias, *skip;
    int64_t state_at; /* in seg.state: [n_heads][v_dim][k_dim] */
    float *out;       /* [n_tok][n_heads][v_dim] */
};
struct cu_kda { /* arguments of OP_KDA */
    struct cu_rows_of rows;
    int64_t n_tok, n_heads, k_dim, v_dim;
    float eps, scale, bound;
    float *u;            /* [n_tok][q heads | k heads | v heads]; q and k are normed in place */
    float *f;            /* [n_tok][n_heads][k_dim]; replaced by the decays */
    const float *beta;   /* [n_tok][n_heads] */
    const float *a, *dt; /* [n_heads]; [n_heads][k_dim] */
    int64_t state_at;    /* in seg.state: [n_heads][v_dim][k_dim] */
    float *out;          /* [n_tok][n_heads][v_dim] */
};
#define CU_CHUNK 64

/* t = a [+ x * sigmoid(gate . h)] [+ res], y = rms(t; w, eps), rows of n. x, res and w may be NULL.
 * sum receives t; it may be NULL if nothing is added. */
struct cu_norm {
    const float *a, *x, *gate, *h, *res, *w;
    int64_t d; /* length of gate and of a row of h */
    float *sum, *y;
    void *yq; /* NULL, or a quantized copy of y for cu_products; n a multiple of 64 */
    int64_t n;
    float eps;
};

/* expert, weight [n_tok][n_used]: the top n_used of softmax(logits[n_tok][n_experts]), with
 * weights renormalized, times factor[expert] (NULL: 1). */
enum cu_router_score { CU_SCORE_SOFTMAX, CU_SCORE_SIGMOID, CU_SCORE_LOGIT, CU_SCORE_MIXER };
struct cu_choice { /* arguments of OP_MOE (models/ops.def) */
    const float *logits, *factor;
    int64_t n_experts, n_used;
    int32_t *expert;
    float *weight;
    /* The fields below are 0 for plain routers, with p by softmax and weights divided by their sum.
     * Pointers are [n_experts] or NULL. */
    int score;           /* enum cu_router_score */
    bool keep;           /* weights are not divided by their sum */
    float scale;         /* factor of weights; 0: 1 */
    const float *prefer; /* added to p for the choice only */
    const float *bias;   /* added to logits */
    /* Groups of adjacent experts; only the `top` best are eligible; 0: no groups. */
    int64_t groups, top;
    float margin; /* for CU_SCORE_MIXER */
};

/* The largest finite logits, largest first, ties to the lower id. n < 0: too many near-ties to
 * sort here. */
enum { CU_BEST = 128 };
struct cu_best {
    int32_t n, broken; /* broken: not 0 if a logit is NaN or +infinity */
    int32_t id[CU_BEST];
    float logit[CU_BEST];
};
#define CU_BEST_WORK (16 << 10)

/* Scores of logits against the tokens that follow, and against a second model's logits. */
struct cu_score_row {     /* p: the other model, q: this one */
    double nll_q;         /* -log q(target) */
    double nll_p, kld;    /* -log p(target); sum p log(p/q) over p > exp(-16) */
    int32_t top_p, top_q; /* argmax; ties go to the first */
    float prob_p, prob_q; /* their probabilities */
};
struct cu_score {
    const float *q, *p;    /* [n][n_vocab] logits; p NULL: p's results are 0 */
    const int32_t *target; /* [n] */
    int64_t n, n_vocab;
    struct cu_score_row *row; /* [n] */
};

/* Bytes of a row of k 8-bit activations, for cu_products; k a multiple of 64. */
#define CU_ACT_BYTES(k) ((int64_t)(k) + (int64_t)(k) / 4)
#define CU_FEW 8 /* maximum tokens for the GEMV; more use tensor cores */

/* h[i] = act(h[i] + gate_bias[e], up[i] + up_bias[e]), e = ids[i], rows of n; a NULL bias is 0.
 * With limit > 0: g * sigmoid(alpha g) * (u + 1), g = min(h, limit), u = up clamped to [-limit,
 * limit]; otherwise silu or gelu, times up. */
struct cu_moe_act {
    float *h;
    const float *up, *gate_bias, *up_bias;
    const float *p; /* NULL, or [n_pairs] factors applied to h and up first */
    const int32_t *ids;
    int64_t n_pairs, n;
    float alpha, limit;
    bool gelu, late; /* late: min(silu(h), limit) * u */
};

/* Products of few tokens in one launch. Input row i of a part is row i / x_div of x; n_sum
 * consecutive rows, times p[i], add up to an output row. One of x_div and n_sum is 1. */
struct cu_weight;
struct cu_term {
    const struct cu_weight *w;  /* must satisfy cu_part_can */
    const struct cu_weight *up; /* second matrix of a gated unit: out = act(w . x) * (up . x) */
    bool gated, gelu, exact;    /* gated with up NULL: up is the second half of w's rows */
    const void *x;              /* quantized rows; exact: f32 rows */
    const int32_t *ids;         /* matrix of each input row; NULL: matrix 0 */
    const float *p;             /* NULL: 1 */
    int64_t n_in, x_div, n_sum;
    float *y; /* NULL: not needed */
    int64_t ldy;
    void *yq; /* NULL, or quantized output; only for gated units whose row length is a multiple of
                 64 */
};
#define CU_MAX_PARTS 6
struct cu_products {
    struct cu_term part[CU_MAX_PARTS];
    int n;
};

/* c[i][j] += the sum over p < k of a[i][p] b[p][j], for i < m and j < n; one accumulator per
 * element, in ascending order. Rows are lda, ldb and ldc apart. */
struct cu_multiply {
    float *c;
    const float *a, *b;
    int64_t ldc, lda, ldb;
    int64_t m, n, k;
    bool turned_a; /* a[p][i] instead of a[i][p] */
    bool turned_b; /* b[j][p] instead of b[p][j] */
    bool fresh;    /* c is set, not added to */
    bool fused;    /* each product and addition is rounded once */
    bool lower;    /* c[i][j] with j > i may be left out */
};

#endif
