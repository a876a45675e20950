// SPDX-License-Identifier: MIT
/* kernels/cuda/args.h - arguments of launchers that take many. The structs lie in host memory and
 * are read during the call; pointers in them are device pointers, sizes are in elements. */
#ifndef HONE_KERNELS_CUDA_ARGS_H
#define HONE_KERNELS_CUDA_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/qtype.h"

/* Keys or values of one layer, planar: codes [n_kv_heads][n_ctx][head_dim] (f32, f16, int8, or two
 * 4-bit codes a byte, the lower index in the low half), then for q8_0 and q4_0 the f16 scales
 * [n_kv_heads][n_ctx][head_dim / 32] in the same buffer. The same values as the CPU's blocks, and
 * as many bytes. */
struct cu_kv {
    enum qtype type; /* QT_F32, QT_F16, QT_Q8_0, QT_Q4_0 */
    void *data;
};
struct cu_attn {
    struct cu_kv k, v;
    int64_t n_ctx, n_heads, n_kv_heads, head_dim;
    int64_t window;     /* > 0: a query at p sees keys > p - window */
    float scale;        /* of scores */
    const int32_t *pos; /* {tokens in the cache before this pass} */
    int64_t n_tok;
    const float *q;             /* [n_tok][n_heads][head_dim] */
    const float *new_k, *new_v; /* cu_kv_append: [n_tok][n_kv_heads][head_dim] */
    float *out;                 /* [n_tok][n_heads][head_dim] */
    const float *gate;          /* NULL, or of head h at gate + h * gate_ld: out *= sigmoid(gate) */
    int64_t gate_ld;            /* 0: head_dim */
    int64_t n_splits;           /* cu_attn_one: most parts of the keys */
    float *part;                /* cu_attn_one: n_heads * n_splits * (head_dim + 2) floats */
    /* cu_qkv: queries before norm and rope, head h of all tokens at raw_q + h * raw_q_ld; norms
     * (normed; weights NULL: 1); table, width and kind of the rope; where the queries go */
    const float *raw_q, *q_norm, *k_norm, *cs;
    int64_t raw_q_ld, n_rot;
    float eps;
    bool normed, adjacent;
    float *q_out;
};

struct cu_delta { /* as OP_CONV_SILU, OP_DELTA and OP_GATED_RMS of models/graph.h */
    int64_t n_tok, n_v_heads, n_k_heads, k_dim, v_dim;
    float eps, scale;          /* of the l2 norms; of q */
    float *u;                  /* [n_tok][channels]: q heads | k heads | v heads */
    const float *beta, *alpha; /* [n_tok][n_v_heads] */
    const float *a, *dt;       /* [n_v_heads] */
    float *state;              /* [n_v_heads][v_dim][k_dim] */
    float *out;                /* [n_tok][n_v_heads][v_dim] */
    /* the convolution: weights [channels][taps], raw inputs [taps][channels]: that of position p in
     * slot p % taps */
    const float *conv;
    float *ring;
    int64_t taps;
    const int32_t *pos;
    /* cu_delta_step: the gated norm */
    const float *z, *norm; /* [n_v_heads][v_dim]; [v_dim] */
    float norm_eps;
    int32_t *arrived; /* [n_v_heads], 0 before and after */
};
#define CU_MAX_TAPS 8

#endif
