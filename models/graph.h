// SPDX-License-Identifier: MIT
/* models/graph.h - a forward pass as a list of operations on named activation registers. Building
 * only; runtime/exec_*.c executes. A register holds [n_tok][width] f32. Operations are coarse (a
 * whole attention, a whole MoE) so that executors can fuse; every operation's formula is given
 * here. */
#ifndef HONE_MODELS_GRAPH_H
#define HONE_MODELS_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

typedef int gr_reg; /* register index; GR_NONE when absent */
typedef int gr_w;   /* weight index into graph.weight[] */
enum { GR_NONE = -1 };

enum gr_op {
    OP_EMBED,      /* dst = scale * row(w0, token id); scale 0: 1 */
    OP_RMS,        /* dst = rms(src0; w0, eps) over the register's width; w0 absent: weights 1 */
    OP_RMS_HEADS,  /* dst = per head of `head_dim`: rms(src0; w0, eps); in place allowed; w0 absent:
                      1 */
    OP_MATMUL,     /* dst[t] = w0 . src0[t] */
    OP_ADD,        /* dst = src0 + src1; in place allowed */
    OP_SPLIT_GATE, /* src0 per head: 2*head_dim values, query then gate -> dst queries, dst2 gates
                    */
                   /* In-place operations have src[0] == dst. */
    OP_ROPE, /* dst(in place) first n_rot dims of each head, by token position: pair j of n_rot/2
                turns by pos * base^(-2j/n_rot) / w0[j] (w0 absent: 1); base: rope_base, 0: the
                graph's. Pairs are (j, j + n_rot/2), or (2j, 2j + 1) with `adjacent` */
    OP_ATTN, /* dst = causal attention(q = src0, k = src1, v = src2), appends to KV slot `slot`;
                scale; window > 0: query position p sees keys > p - window; src1 absent: nothing is
                appended, the slot's keys and values of an earlier layer are read */
    OP_SIGMOID_MUL, /* dst *= sigmoid(src0) elementwise */
    OP_CONV_SILU,   /* dst(in place) = silu(causal depthwise conv, weight w0), conv state `slot` */
    OP_DELTA, /* gated delta net: src0 = conv output (q | k | v), src1 = beta logits, src2 = alpha;
                 w0 = ssm_a, w1 = dt bias; dst = o [n_v_heads * v_dim]; state `slot`;
                 q,k l2-normalised per head (eps), q * 1/sqrt(k_dim), v head n uses k head n mod
                 n_k_heads */
    OP_GATED_RMS, /* dst = per head of head_dim: rms(src0; w0, eps) * silu(src1) */
    OP_SWIGLU,    /* dst = silu(src0) * src1 */
    OP_MOE, /* routed experts: src0 = h; w0 router [E][d], w1 gate, w2 up, w3 down (expert tensors);
               top n_used of softmax(router . h), ties to the lower index, weights renormalised;
               dst = sum_e p_e * down_e(silu(gate_e h) * up_e h);
               src1: what the router reads instead of h; w2 absent: w1 holds gate rows, then as many
               up rows; w4 [E]: factors of p_e after renormalising; `gelu`: as OP_GEGLU, not silu */
    OP_GATE_ADD, /* dst += src0 * sigmoid(w0 . src1)   (shared expert's gate; one scalar per token)
                  */
    OP_GEGLU,    /* dst = gelu(src0) * src1, columns of src1 from `offset`; in place allowed;
                    gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
    OP_SCALE,    /* dst(in place) *= scale (0: 1) * w0 ({1}; absent: 1) */
    OP_CONCAT,   /* dst = src0 | src1, row by row; not in place */
    OP_COUNT
};

struct gr_node {
    enum gr_op op;
    int layer; /* block index, -1 global: for messages, imatrix, probes */
    gr_reg dst, dst2, src[3];
    gr_w w[5];
    int slot; /* OP_ATTN: index among attention layers; OP_CONV/DELTA: among recurrent layers */
    int64_t n_heads, n_kv_heads, head_dim, n_rot, n_used, v_dim;
    float eps, scale;
    double rope_base;       /* OP_ROPE */
    int64_t window, offset; /* OP_ATTN; OP_GEGLU */
    bool adjacent, gelu;    /* OP_ROPE; OP_MOE */
};
struct gr_weight {
    char name[64];
    int64_t ne[4];
    int optional_of; /* -1, or an earlier weight: used when the tensor is absent (tied output) */
};
/* Context extension of every OP_ROPE: the angle of pair j is multiplied by (1 - r)/factor + r,
 * where r = 1 - clamp((j - low) / max(0.001, high - low), 0, 1), low = max(0, floor(c(fast))), high
 * = min(n_rot - 1, ceil(c(slow))), c(b) = n_rot ln(ctx / (2 pi b)) / (2 ln base); cos and sin by
 * attn * (0.1 ln(factor) + 1). factor 0: none. */
struct gr_yarn {
    double factor, attn, fast, slow, ctx;
};
struct graph {
    struct gr_node *node;
    int n_nodes, cap_nodes;
    struct gr_weight *weight;
    int n_weights, cap_weights;
    int64_t *reg_width;
    int n_regs, cap_regs;
    int n_attn_slots, n_rec_slots;
    double rope_base;
    struct gr_yarn yarn;
    double softcap;    /* of the head: logits = softcap * tanh(logits / softcap); 0: none */
    gr_reg hidden_in;  /* draft graphs: rows given with the tokens (session_forward_hidden) */
    gr_reg hidden_out; /* after the final norm: input of `output` */
    gr_w output;       /* the head; the executor multiplies only the rows asked for */
    /* Node index after which the residual of block i is complete (probes); [n_layers]: the final
     * norm. */
    int hidden_nodes[512 + 1];
    gr_reg residual;
};

void graph_init(struct graph *g);
void graph_release(struct graph *g);
gr_reg graph_reg(struct graph *g, int64_t width);
/* fmt with the layer number; shapes outer-to-inner as in arch.h but GGUF ne order here. */
gr_w graph_weight(struct graph *g, const char *fmt, int layer, int64_t ne0, int64_t ne1,
                  int64_t ne2);
struct gr_node *graph_node(struct graph *g, enum gr_op op,
                           int layer); /* all registers GR_NONE; borrowed until the next node */
const char *gr_op_name(enum gr_op op);

#endif
