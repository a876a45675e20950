// SPDX-License-Identifier: MIT
/* models/part_attn.c - full attention: q, k, v, with or without biases; per-head norms; rope;
 * causal attention with grouped key/value heads; optionally an output gate that attn_q carries
 * beside each head's query. */
#include <math.h>

#include "models/part.h"

/* Per-head norm (if any) then rope, in place on a register of n_heads heads. */
static void norm_rope(struct build *b, gr_reg r, const char *norm, int64_t n_heads,
                      unsigned flags) {
    const int64_t *d = b->h->d;
    struct gr_node *n;
    if (!(flags & PART_NO_NORM)) {
        gr_w w = part_weight(b, norm);
        n = graph_node(b->g, OP_RMS_HEADS, b->layer);
        n->dst = n->src[0] = r;
        n->w[0] = w;
        n->n_heads = n_heads;
        n->head_dim = d[HD_HEAD_DIM];
        n->eps = (float)b->h->f[HF_RMS_EPS];
    }
    n = graph_node(b->g, OP_ROPE, b->layer);
    n->adjacent = (flags & PART_ADJACENT) != 0;
    n->dst = n->src[0] = r;
    n->n_heads = n_heads;
    n->head_dim = d[HD_HEAD_DIM];
    n->n_rot = d[HD_ROT];
    n->w[0] = b->freqs;
}

/* weight . in, and its bias where there is one */
static gr_reg project(struct build *b, gr_reg in, const char *weight, const char *bias,
                      unsigned flags) {
    gr_reg out = part_matmul(b, weight, in);
    if (!(flags & PART_BIAS)) return out;
    gr_w w = part_weight(b, bias);
    struct gr_node *n = graph_node(b->g, OP_BIAS, b->layer);
    n->dst = n->src[0] = out;
    n->w[0] = w;
    return out;
}

/* The query register; *gate: what multiplies the output, or GR_NONE. */
static gr_reg query(struct build *b, gr_reg in, unsigned flags, gr_reg *gate) {
    const int64_t *d = b->h->d;
    gr_reg qg = project(b, in, "attn_q.weight", "attn_q.bias", flags);
    *gate = GR_NONE;
    if (!(flags & PART_Q_GATED)) return qg;
    gr_reg q = part_take(b, d[HD_ATTN_OUT]);
    *gate = part_take(b, d[HD_ATTN_OUT]);
    struct gr_node *n = graph_node(b->g, OP_SPLIT_GATE, b->layer);
    n->dst = q;
    n->dst2 = *gate;
    n->src[0] = qg;
    n->n_heads = d[HD_HEADS];
    n->head_dim = d[HD_HEAD_DIM];
    part_give(b, qg);
    return q;
}

gr_reg part_attn(struct build *b, gr_reg in, unsigned flags) {
    const int64_t *d = b->h->d;
    gr_reg gate;
    gr_reg q = query(b, in, flags, &gate);
    gr_reg k = project(b, in, "attn_k.weight", "attn_k.bias", flags);
    gr_reg v = project(b, in, "attn_v.weight", "attn_v.bias", flags);
    norm_rope(b, q, "attn_q_norm.weight", d[HD_HEADS], flags);
    norm_rope(b, k, "attn_k_norm.weight", d[HD_KV_HEADS], flags);
    gr_reg o = part_take(b, d[HD_ATTN_OUT]);
    struct gr_node *n = graph_node(b->g, OP_ATTN, b->layer);
    n->dst = o;
    n->src[0] = q;
    n->src[1] = k;
    n->src[2] = v;
    n->slot = b->g->n_attn_slots++;
    n->n_heads = d[HD_HEADS];
    n->n_kv_heads = d[HD_KV_HEADS];
    n->head_dim = n->v_dim = d[HD_HEAD_DIM];
    n->scale = (float)(1.0 / sqrt((double)d[HD_HEAD_DIM]));
    part_give(b, q);
    part_give(b, k);
    part_give(b, v);
    if (gate != GR_NONE) {
        n = graph_node(b->g, OP_SIGMOID_MUL, b->layer);
        n->dst = o;
        n->src[0] = gate;
        part_give(b, gate);
    }
    gr_reg out = part_matmul(b, "attn_output.weight", o);
    part_give(b, o);
    return out;
}
