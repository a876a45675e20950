// SPDX-License-Identifier: MIT
/* models/block_ffn.c - dense feed-forward: down(act(gate x, up x)). */
#include "models/block.h"

void block_gate(struct build *b, enum act act, gr_reg gate, gr_reg up, int64_t offset) {
    struct gr_node *n = graph_node(b->g, act == ACT_GEGLU ? OP_GEGLU : OP_SWIGLU, b->layer);
    n->dst = n->src[0] = gate;
    n->src[1] = up;
    n->offset = offset;
}

gr_reg block_ffn(struct build *b, const struct ffn_spec *s, gr_reg in) {
    gr_reg gate = block_matmul(b, "ffn_gate", in);
    gr_reg up = block_matmul(b, "ffn_up", in);
    block_gate(b, s->act, gate, up, 0);
    block_give(b, up);
    gr_reg out = block_matmul(b, "ffn_down", gate);
    block_give(b, gate);
    return out;
}
