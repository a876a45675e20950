// SPDX-License-Identifier: MIT
/* models/part_moe.c - mixture of experts: top-k routed experts, and optionally one shared expert
 * whose output is scaled by a sigmoid gate per token. */
#include "models/part.h"

gr_reg part_moe(struct build *b, gr_reg in) {
    static const char *const name[4] = {"ffn_gate_inp.weight", "ffn_gate_exps.weight",
                                        "ffn_up_exps.weight", "ffn_down_exps.weight"};
    gr_w w[4];
    for (int i = 0; i < 4; i++) w[i] = part_weight(b, name[i]);
    gr_reg out = part_take(b, b->h->d[HD_EMBD]);
    struct gr_node *n = graph_node(b->g, OP_MOE, b->layer);
    n->dst = out;
    n->src[0] = in;
    for (int i = 0; i < 4; i++) n->w[i] = w[i];
    n->n_used = b->h->d[HD_EXPERTS_USED];
    return out;
}

gr_reg part_moe_shared(struct build *b, gr_reg in) {
    gr_reg out = part_moe(b, in);
    gr_reg gate = part_matmul(b, "ffn_gate_shexp.weight", in);
    gr_reg up = part_matmul(b, "ffn_up_shexp.weight", in);
    struct gr_node *n = graph_node(b->g, OP_SWIGLU, b->layer);
    n->dst = n->src[0] = gate;
    n->src[1] = up;
    part_give(b, up);
    gr_reg shared = part_matmul(b, "ffn_down_shexp.weight", gate);
    part_give(b, gate);
    gr_w w = part_weight(b, "ffn_gate_inp_shexp.weight");
    n = graph_node(b->g, OP_GATE_ADD, b->layer);
    n->dst = out;
    n->src[0] = shared;
    n->src[1] = in;
    n->w[0] = w;
    part_give(b, shared);
    return out;
}
