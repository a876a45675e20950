// SPDX-License-Identifier: MIT
/* models/part_ffn.c - dense feed-forward: down(silu(gate x) * up x). */
#include "models/part.h"

gr_reg part_ffn(struct build *b, gr_reg in) {
    gr_reg gate = part_matmul(b, "ffn_gate.weight", in);
    gr_reg up = part_matmul(b, "ffn_up.weight", in);
    struct gr_node *n = graph_node(b->g, OP_SWIGLU, b->layer);
    n->dst = n->src[0] = gate;
    n->src[1] = up;
    part_give(b, up);
    gr_reg out = part_matmul(b, "ffn_down.weight", gate);
    part_give(b, gate);
    return out;
}
