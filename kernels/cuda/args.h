// SPDX-License-Identifier: MIT
/* kernels/cuda/args.h - arguments of launchers that take many. The structs lie in host memory and
 * are read during the call; pointers in them are device pointers, sizes are in elements. */
#ifndef HONE_KERNELS_CUDA_ARGS_H
#define HONE_KERNELS_CUDA_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "containers/qtype.h"

/* f of cu_mul */
enum cu_factor { CU_FACTOR_VALUE, CU_FACTOR_SIGMOID, CU_FACTOR_SOFTPLUS };
/* f of cu_act_rows */
enum cu_act {
    CU_ACT_SILU,
    CU_ACT_GELU,
    CU_ACT_GELU_ERF,
    CU_ACT_RELU2,
    CU_ACT_XIELU,
    CU_ACT_TANH,
    CU_ACT_COUNT
};
struct cu_xielu { /* as struct gr_xielu */
    float p, n, b, eps;
};

/* Keys and values lie in pages of CU_PAGE positions of one sequence. A page of a layer: its keys,
 * then its values, both planar: codes [n_kv_heads][CU_PAGE][head_dim] (f32, f16, int8, or two 4-bit
 * codes a byte, the lower index in the low half), then for q8_0 and q4_0 the f16 scales
 * [n_kv_heads][CU_PAGE][head_dim / 32]. The same values as the CPU's blocks, and as many bytes. A
 * page begins at a multiple of 16 bytes. */
#define CU_PAGE 256

/* A segment: the rows of one sequence in a pass. Lies in device memory, with all it points to, so
 * that a captured launch serves every sequence at every depth. */
struct cu_seg {
    void *const *page; /* that of position p in layer `slot`: page[p / CU_PAGE * n_slots + slot] */
    float *state;      /* of all recurrent layers */
    int32_t pos, row, n; /* position of the first row; its place in the pass; rows */
    int32_t unused;
};
/* Which rows a launch is about. */
struct cu_rows_of {
    const struct cu_seg *seg; /* [n_segs] of them */
    int64_t n_segs, longest;  /* rows of the longest */
};

struct cu_attn {
    enum qtype k_type, v_type; /* QT_F32, QT_F16, QT_Q8_0, QT_Q4_0 */
    int64_t n_heads, n_kv_heads, head_dim;
    int64_t latent; /* cu_attn_latent: of head_dim, the values of a latent row, which the plane of
                       values has; 0: keys and values are apart */
    int64_t window; /* > 0: a query at p sees keys > p - window */
    bool chunked;   /* ... from p - p % window on (attn_any.cu) */
    float scale;    /* of scores */
    float softcap;  /* scores become softcap * tanh(scores / softcap); 0: they stay */
    const float *sink; /* NULL, or [n_heads]: exponentials that are added to the sums */
    int slot, n_slots;
    struct cu_rows_of rows;
    /* cu_kv_append, cu_qkv, cu_attn_any: all rows of the pass; row r is at position row_pos[r] of
     * the sequence of all_segs[row_seg[r]] */
    int64_t n_tok;
    const struct cu_seg *all_segs;
    const int32_t *row_pos, *row_seg;
    bool fast, fast_few; /* cu_attn_many, cu_attn_few: operands may be f16, on tensor cores */
    const float *q;      /* [n_tok][n_heads][head_dim] */
    const float *new_k, *new_v; /* cu_kv_append: [n_tok][n_kv_heads][head_dim] */
    float *out;                 /* [n_tok][n_heads][head_dim] */
    const float *gate;          /* NULL, or of head h at gate + h * gate_ld: out *= sigmoid(gate) */
    int64_t gate_ld;            /* 0: head_dim */
    /* cu_attn_few. out_q: where `out` is written once more as 8-bit blocks, for which head_dim must
     * be a multiple of 32; or NULL. n_splits: the most parts that the keys of a row are cut into.
     * part: sums of the parts, n_segs * longest * n_heads * n_splits * (head_dim + 2) floats. */
    void *out_q;
    int64_t n_splits;
    float *part;
    /* cu_qkv. raw_q: queries before norm and rope, head h of a token at raw_q + h * raw_q_ld.
     * q_norm, k_norm: weights of the norms, which are done where `normed` is set; NULL: all are 1.
     * cs, n_rot, adjacent: table, width and kind of the rope. q_out: where the queries go. */
    const float *raw_q, *q_norm, *k_norm, *cs;
    int64_t raw_q_ld, n_rot;
    float eps;
    bool normed, adjacent;
    float *q_out;
};

struct cu_delta { /* as OP_CONV_SILU, OP_DELTA and OP_GATED_RMS of models/graph.h */
    struct cu_rows_of rows;
    int64_t n_v_heads, n_k_heads, k_dim, v_dim;
    float eps, scale;          /* of the l2 norms; of q */
    float *u;                  /* [n_tok][channels]: q heads | k heads | v heads */
    const float *beta, *alpha; /* [n_tok][n_v_heads] */
    const float *a, *dt;       /* [n_v_heads] */
    int64_t state_at;          /* in seg.state: [n_v_heads][v_dim][k_dim], a multiple of 4 */
    float *out;                /* [n_tok][n_v_heads][v_dim] */
    /* the convolution: weights [channels][taps]; at ring_at in seg.state raw inputs
     * [taps][channels], that of position p in slot p % taps */
    const float *conv, *conv_bias; /* NULL, or [channels] */
    int64_t ring_at, taps;
    bool grouped; /* as OP_DELTA: beta has what alpha would; value heads lie by their key head */
    /* cu_delta_step: the gated norm */
    const float *z, *norm; /* [n_v_heads][v_dim]; [v_dim] */
    float norm_eps;
    int32_t *arrived; /* [n_v_heads], 0 before and after */
    bool chunked;     /* cu_delta_rows may compute CU_CHUNK tokens at once, operands in bf16; every
                         segment has so many */
    void *yq;         /* NULL, or a quantized copy of the normed output; v_dim a multiple of 32 */
};
struct cu_short { /* as OP_SHORT_CONV */
    struct cu_rows_of rows;
    const float *u; /* [n_tok][b | c | x], n_ch each */
    const float *w; /* [n_ch][taps] */
    float *out;     /* [n_tok][n_ch] */
    int64_t n_ch, taps;
    int64_t ring_at; /* in seg.state: b * x, [taps][n_ch], that of position p in slot p % taps */
};
struct cu_scan { /* as OP_MAMBA2, or with `first` as OP_MAMBA1: one head, one group */
    struct cu_rows_of rows;
    bool first;
    int64_t n_heads, n_groups, k_dim, v_dim;
    const float *x, *dt, *b; /* rows of a token are x_ld, dt_ld, bc_ld apart; C lies behind B */
    int64_t x_ld, dt_ld, bc_ld;
    const float *a, *dt_bias, *skip;
    int64_t state_at; /* in seg.state: [n_heads][v_dim][k_dim] */
    float *out;       /* [n_tok][n_heads][v_dim] */
};
struct cu_kda { /* as OP_KDA */
    struct cu_rows_of rows;
    int64_t n_tok, n_heads, k_dim, v_dim;
    float eps, scale;
    float *u;            /* [n_tok][q heads | k heads | v heads]; q and k become normed */
    float *f;            /* [n_tok][n_heads][k_dim]; becomes the decays */
    const float *beta;   /* [n_tok][n_heads] */
    const float *a, *dt; /* [n_heads]; [n_heads][k_dim] */
    int64_t state_at;    /* in seg.state: [n_heads][v_dim][k_dim] */
    float *out;          /* [n_tok][n_heads][v_dim] */
};
#define CU_MAX_TAPS 8
#define CU_CHUNK 64

/* t = a [+ x * sigmoid(gate . h)] [+ res], y = rms(t; w, eps), rows of n. x, res, w may be NULL,
 * sum (where t goes) too when nothing is added. */
struct cu_norm {
    const float *a, *x, *gate, *h, *res, *w;
    int64_t d; /* values of gate and of a row of h */
    float *sum, *y;
    void *yq; /* NULL, or a quantized copy of y for cu_products; n a multiple of 64 */
    int64_t n;
    float eps;
};

/* expert, weight [n_tok][n_used]: the best of softmax(logits[n_tok][n_experts]), weights
 * renormalised, times factor[expert] (NULL: 1). */
enum cu_router_score { CU_SCORE_SOFTMAX, CU_SCORE_SIGMOID, CU_SCORE_LOGIT, CU_SCORE_MIXER };
struct cu_choice { /* as OP_MOE of models/ops.def */
    const float *logits, *factor;
    int64_t n_experts, n_used;
    int32_t *expert;
    float *weight;
    /* the rest is 0 for plain routers: p by softmax, weights divided by their sum. Pointers:
     * [n_experts] or NULL */
    int score;           /* enum cu_router_score */
    bool keep;           /* weights are not divided by their sum */
    float scale;         /* of weights; 0: 1 */
    const float *prefer; /* added to p for the choice */
    const float *bias;   /* added to logits */
    int64_t groups, top; /* of neighbours, the `top` best of which are chosen from; 0: none */
    float margin;        /* of CU_SCORE_MIXER */
};

/* The largest finite logits, largest first, ties to the lower id. n < 0: too many are about as
 * large (ties) to be sorted here. */
enum { CU_BEST = 128 };
struct cu_best {
    int32_t n, broken; /* broken: not 0 where one is NaN or infinite upwards */
    int32_t id[CU_BEST];
    float logit[CU_BEST];
};
#define CU_BEST_WORK (16 << 10)

/* Rows of logits against the tokens that follow, and against those of another model. */
struct cu_score_row {     /* p: the other model, q: this one */
    double nll_q;         /* -log q(target) */
    double nll_p, kld;    /* -log p(target); sum p log(p/q) over p > exp(-16) */
    int32_t top_p, top_q; /* the first of the largest */
    float prob_p, prob_q; /* their probabilities */
};
struct cu_score {
    const float *q, *p;    /* [n][n_vocab] logits; p NULL: what is said of p is 0 */
    const int32_t *target; /* [n] */
    int64_t n, n_vocab;
    struct cu_score_row *row; /* [n] */
};

/* Bytes of a row of k activations in 8 bits, for cu_products; k a multiple of 64. */
#define CU_ACT_BYTES(k) ((int64_t)(k) + (int64_t)(k) / 4)
#define CU_FEW 8 /* tokens; more go through tensor cores */

/* h[i] = act(h[i] + gate_bias[e], up[i] + up_bias[e]), e = ids[i], rows of n; a bias that is NULL
 * is 0. With limit > 0: g * sigmoid(alpha g) * (u + 1), g = min(h, limit), u = up clamped to
 * [-limit, limit]; else silu or gelu, times up. */
struct cu_moe_act {
    float *h;
    const float *up, *gate_bias, *up_bias;
    const float *p; /* NULL, or [n_pairs] what h and up are multiplied by before */
    const int32_t *ids;
    int64_t n_pairs, n;
    float alpha, limit;
    bool gelu, late; /* late: min(silu(h), limit) * u */
};

/* Products of few tokens in one launch. Input row i of a part is row i / x_div of x; n_sum
 * consecutive ones, times p[i], add up to an output row; one of x_div and n_sum is 1. */
struct cu_weight;
struct cu_term {
    const struct cu_weight *w;  /* as cu_part_can wants it */
    const struct cu_weight *up; /* of a gated unit: out = act(w . x) * (up . x) */
    bool gated, gelu, exact;    /* gated with up NULL: the second half of w's rows */
    const void *x;              /* quantized rows; exact: f32 rows */
    const int32_t *ids;         /* matrix of each input row; NULL: matrix 0 */
    const float *p;             /* NULL: 1 */
    int64_t n_in, x_div, n_sum;
    float *y; /* NULL: not wanted */
    int64_t ldy;
    void *yq; /* NULL, or quantized rows; gated units of a multiple of 64 rows only */
};
#define CU_MAX_PARTS 6
struct cu_products {
    struct cu_term part[CU_MAX_PARTS];
    int n;
};

#endif
