// SPDX-License-Identifier: MIT
/* models/block_delta.c - gated delta net (linear attention): projections, causal depthwise
 * convolution with SiLU, the delta rule over a per-head state, gated norm, output projection. GGUF
 * orders value heads so that v head n uses k head n mod n_k_heads, except for Qwen3-Next, which
 * keeps the checkpoint's order. */
#include <math.h>

#include "models/block.h"

/* eps of the L2 normalisation of q and k: a constant, not the model's RMS eps. */
static const float l2_eps = 1e-6f;

/* Returns the output of the delta rule, [v heads * v dim]. u is the output of the convolution; beta
 * and alpha are logits. If alpha is GR_NONE, `beta` holds both, grouped by key head. */
static gr_reg delta_rule(struct build *b, gr_reg u, gr_reg beta, gr_reg alpha, int slot) {
    const int64_t *d = b->h->d;
    gr_w a = block_weight(b, "ssm_a"), dt = block_weight(b, "ssm_dt.bias");
    gr_reg o = block_take(b, d[HD_LIN_INNER]);
    struct gr_node *n = graph_node(b->g, OP_DELTA, b->layer);
    n->dst = o;
    n->src[0] = u;
    n->src[1] = beta;
    n->src[2] = alpha;
    n->slot = slot;
    n->delta = (struct gr_delta){.a = a,
                                 .dt = dt,
                                 .n_v_heads = d[HD_LIN_V_HEADS],
                                 .n_k_heads = d[HD_LIN_K_HEADS],
                                 .k_dim = d[HD_LIN_K_DIM],
                                 .v_dim = d[HD_LIN_V_DIM],
                                 .grouped = alpha == GR_NONE,
                                 .eps = l2_eps,
                                 .scale = (float)(1.0 / sqrt((double)d[HD_LIN_K_DIM]))};
    return o;
}

gr_reg block_delta(struct build *b, gr_reg in) {
    const int64_t *d = b->h->d;
    int slot = b->g->n_rec_slots++;
    gr_reg u = block_matmul(b, "attn_qkv", in);
    gr_reg z = block_matmul(b, "attn_gate", in);
    const bool grouped = block_has(b, "ssm_ba.weight"); /* Qwen3-Next */
    gr_reg beta = block_matmul(b, grouped ? "ssm_ba" : "ssm_beta", in);
    gr_reg alpha = grouped ? GR_NONE : block_matmul(b, "ssm_alpha", in);
    block_conv_silu(b, u, slot);
    gr_reg o = delta_rule(b, u, beta, alpha, slot);
    block_give(b, u);
    block_give(b, beta);
    block_give(b, alpha);
    gr_w norm = block_weight(b, "ssm_norm.weight");
    struct gr_node *n = graph_node(b->g, OP_GATED_RMS, b->layer);
    n->dst = n->src[0] = o;
    n->src[1] = z;
    n->norm.weight = norm;
    n->norm.head_dim = d[HD_LIN_V_DIM];
    n->norm.eps = (float)b->h->f[HF_RMS_EPS];
    block_give(b, z);
    gr_reg out = block_matmul(b, "ssm_out", o);
    block_give(b, o);
    return out;
}
