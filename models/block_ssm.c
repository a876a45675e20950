// SPDX-License-Identifier: MIT
/* models/block_ssm.c - mixers with a state of fixed size: short convolution, Mamba 1 and 2, Kimi
 * delta attention. The formulas are under OP_SHORT_CONV, OP_MAMBA1, OP_MAMBA2 and OP_KDA
 * (models/ops.def). */
#include <math.h>
#include <stdio.h>

#include "models/block.h"

gr_reg block_columns(struct build *b, gr_reg r, int64_t offset, int64_t width) {
    gr_reg out = block_take(b, width);
    struct gr_node *n = graph_node(b->g, OP_COLUMNS, b->layer);
    n->dst = out;
    n->src[0] = r;
    n->pick.offset = offset;
    return out;
}

/* Replaces u with silu(causal convolution of u with the weight <name>). */
static void conv_silu(struct build *b, gr_reg u, const char *name, int slot) {
    const gr_w w = block_weight(b, name);
    const gr_w bias = block_weight_if(b, "ssm_conv1d.bias");
    struct gr_node *n = graph_node(b->g, OP_CONV_SILU, b->layer);
    n->dst = n->src[0] = u;
    n->conv.weight = w;
    n->conv.bias = bias;
    n->slot = slot;
}
void block_conv_silu(struct build *b, gr_reg u, int slot) {
    conv_silu(b, u, "ssm_conv1d.weight", slot);
}

gr_reg block_conv(struct build *b, gr_reg in) {
    gr_reg bcx = block_matmul(b, "shortconv.in_proj", in);
    const gr_w w = block_weight(b, "shortconv.conv.weight");
    gr_reg y = block_take(b, b->h->d[HD_EMBD]);
    struct gr_node *n = graph_node(b->g, OP_SHORT_CONV, b->layer);
    n->dst = y;
    n->src[0] = bcx;
    n->conv.weight = w;
    n->slot = b->g->n_rec_slots++;
    block_give(b, bcx);
    gr_reg out = block_matmul(b, "shortconv.out_proj", y);
    block_give(b, y);
    return out;
}

/* Multiplies y by silu of the first columns of z. */
static void apply_gate(struct build *b, gr_reg y, gr_reg z) {
    struct gr_node *n = graph_node(b->g, OP_ACT, b->layer);
    n->dst = n->src[1] = y;
    n->src[0] = z;
    n->pick.f = GR_SILU;
}

/* Appends the norm of each group of values of y, if the model has one. */
static void norm_groups(struct build *b, gr_reg y) {
    const gr_w w = block_weight_if(b, "ssm_norm.weight");
    if (w == GR_NONE) return;
    struct gr_node *n = graph_node(b->g, OP_RMS_HEADS, b->layer);
    n->dst = n->src[0] = y;
    n->norm.weight = w;
    n->norm.head_dim = b->h->d[HD_LIN_GROUP];
    n->norm.eps = (float)b->h->f[HF_RMS_EPS];
}

gr_reg block_mamba2(struct build *b, gr_reg in) {
    const int64_t *d = b->h->d;
    const int slot = b->g->n_rec_slots++;
    gr_reg all = block_matmul(b, "ssm_in", in); /* z | x B C | dt */
    gr_reg u = block_columns(b, all, d[HD_LIN_INNER], d[HD_CONV_CH]);
    block_conv_silu(b, u, slot);
    const gr_w a = block_weight(b, "ssm_a"), dt = block_weight(b, "ssm_dt.bias"),
               skip = block_weight(b, "ssm_d");
    gr_reg y = block_take(b, d[HD_LIN_INNER]);
    struct gr_node *n = graph_node(b->g, OP_MAMBA2, b->layer);
    n->dst = y;
    n->src[0] = u;
    n->src[1] = all;
    n->slot = slot;
    n->delta = (struct gr_delta){.a = a,
                                 .dt = dt,
                                 .skip = skip,
                                 .n_v_heads = d[HD_LIN_V_HEADS],
                                 .n_k_heads = d[HD_LIN_K_HEADS],
                                 .k_dim = d[HD_LIN_K_DIM],
                                 .v_dim = d[HD_LIN_V_DIM],
                                 .offset = d[HD_LIN_INNER] + d[HD_CONV_CH]};
    block_give(b, u);
    apply_gate(b, y, all);
    block_give(b, all);
    norm_groups(b, y);
    gr_reg out = block_matmul(b, "ssm_out", y);
    block_give(b, y);
    return out;
}

/* Returns the norm of `in` without weights, with the eps that Falcon Mamba calls mixer_rms_eps.
 * Releases `in`. */
static gr_reg plain_norm(struct build *b, gr_reg in) {
    gr_reg out = block_rms_by(b, GR_NONE, in);
    b->g->node[b->g->n_nodes - 1].norm.eps = 1e-6f;
    block_give(b, in);
    return out;
}

/* Returns some columns of x, the output of ssm_x, normalised if the model does so. */
static gr_reg ssm_x_part(struct build *b, const char *norm, gr_reg x, int64_t offset,
                         int64_t width) {
    gr_reg r = block_columns(b, x, offset, width);
    char name[32];
    snprintf(name, sizeof name, "%s.weight", norm);
    if (b->h->d[HD_DT_B_C]) return plain_norm(b, r);
    return block_norm_after(b, &(struct norm_spec){block_has(b, name) ? NORM_RMS : NORM_NONE, norm},
                            r);
}

gr_reg block_mamba1(struct build *b, gr_reg in) {
    const int64_t *d = b->h->d, inner = d[HD_LIN_INNER], n_state = d[HD_LIN_K_DIM];
    const int slot = b->g->n_rec_slots++;
    gr_reg all = block_matmul(b, "ssm_in", in); /* x | z */
    gr_reg u = block_columns(b, all, 0, inner), z = block_columns(b, all, inner, inner);
    block_give(b, all);
    block_conv_silu(b, u, slot);
    gr_reg x = block_matmul(b, "ssm_x", u); /* dt | B | C */
    const int64_t rank = d[HD_LIN_V_HEADS];
    gr_reg low = ssm_x_part(b, "ssm_dt_norm", x, 0, rank);
    gr_reg dt = block_matmul(b, "ssm_dt", low);
    block_give(b, low);
    gr_reg bs = ssm_x_part(b, "ssm_b_norm", x, rank, n_state);
    gr_reg cs = ssm_x_part(b, "ssm_c_norm", x, rank + n_state, n_state);
    gr_reg bc = block_take(b, 2 * n_state);
    struct gr_node *n = graph_node(b->g, OP_CONCAT, b->layer);
    n->dst = bc;
    n->src[0] = bs;
    n->src[1] = cs;
    block_give(b, x);
    block_give(b, bs);
    block_give(b, cs);
    const gr_w a = block_weight(b, "ssm_a"), skip = block_weight(b, "ssm_d");
    gr_reg y = block_take(b, inner);
    n = graph_node(b->g, OP_MAMBA1, b->layer);
    n->dst = y;
    n->src[0] = u;
    n->src[1] = dt;
    n->src[2] = bc;
    n->slot = slot;
    n->delta = (struct gr_delta){
        .a = a, .dt = GR_NONE, .skip = skip, .n_v_heads = 1, .k_dim = n_state, .v_dim = inner};
    block_give(b, u);
    block_give(b, dt);
    block_give(b, bc);
    apply_gate(b, y, z);
    block_give(b, z);
    gr_reg out = block_matmul(b, "ssm_out", y);
    block_give(b, y);
    return out;
}

/* Returns queries, keys or values: the product with `proj`, then the convolution with `conv`. */
static gr_reg convolved(struct build *b, const char *proj, const char *conv, gr_reg in, int slot) {
    gr_reg r = block_matmul(b, proj, in);
    conv_silu(b, r, conv, slot);
    return r;
}
/* Concatenates x and y, and releases both registers. */
static gr_reg joined(struct build *b, gr_reg x, gr_reg y) {
    gr_reg r = block_take(b, b->g->reg_width[x] + b->g->reg_width[y]);
    struct gr_node *n = graph_node(b->g, OP_CONCAT, b->layer);
    n->dst = r;
    n->src[0] = x;
    n->src[1] = y;
    block_give(b, x);
    block_give(b, y);
    return r;
}
/* Returns the product of `in` with a low-rank pair of matrices: `first`, then `second`. */
/* Returns `in` times the matrix `first` and then, if the model has it, times `second`. */
static gr_reg narrow(struct build *b, const char *first, const char *second, gr_reg in) {
    char full[64];
    const gr_reg low = block_matmul(b, first, in);
    snprintf(full, sizeof full, "%s.weight", second);
    if (!block_has(b, full)) return low;
    const gr_reg r = block_matmul(b, second, low);
    block_give(b, low);
    return r;
}

gr_reg block_kda(struct build *b, gr_reg in) {
    const int64_t *d = b->h->d, dim = d[HD_LIN_K_DIM];
    const int slot = b->g->n_rec_slots;
    b->g->n_rec_slots += 3; /* for the convolutions; the matrices are in the first */
    gr_reg q = convolved(b, "attn_q", "ssm_conv1d_q.weight", in, slot);
    gr_reg k = convolved(b, "attn_k", "ssm_conv1d_k.weight", in, slot + 1);
    gr_reg v = convolved(b, "attn_v", "ssm_conv1d_v.weight", in, slot + 2);
    gr_reg u = joined(b, joined(b, q, k), v);
    gr_reg f = narrow(b, "ssm_f_a", "ssm_f_b", in);
    gr_reg beta = block_matmul(b, "ssm_beta", in);
    const gr_w a = block_weight(b, "ssm_a"), dt = block_weight(b, "ssm_dt.bias");
    gr_reg o = block_take(b, d[HD_LIN_INNER]);
    struct gr_node *n = graph_node(b->g, OP_KDA, b->layer);
    n->dst = o;
    n->src[0] = u;
    n->src[1] = beta;
    n->src[2] = f;
    n->slot = slot;
    n->delta = (struct gr_delta){.a = a,
                                 .dt = dt,
                                 .n_v_heads = d[HD_LIN_V_HEADS],
                                 .n_k_heads = d[HD_LIN_V_HEADS],
                                 .k_dim = dim,
                                 .v_dim = dim,
                                 .bound = (float)b->h->f[HF_DECAY_BOUND],
                                 .eps = 1e-6f, /* of the l2 norms */
                                 .scale = (float)(1.0 / sqrt((double)dim))};
    block_give(b, u);
    block_give(b, f);
    block_give(b, beta);
    const struct norm_spec norm = {NORM_RMS, "ssm_norm"};
    block_norm_heads(b, &norm, o, o, dim);
    gr_reg gate = narrow(b, "ssm_g_a", "ssm_g_b", in);
    n = graph_node(b->g, OP_SIGMOID_MUL, b->layer);
    n->dst = o;
    n->src[0] = gate;
    block_give(b, gate);
    gr_reg out = block_matmul(b, "attn_output", o);
    block_give(b, o);
    return out;
}
