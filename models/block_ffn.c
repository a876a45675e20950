// SPDX-License-Identifier: MIT
/* models/block_ffn.c - dense feed-forward: down(act(gate x, up x)), or down(act(up x)). Without
 * ffn_gate, the first half of ffn_up is the gate. */
#include <math.h>

#include "base/fp.h"
#include "models/block.h"

static const struct {
    bool gated;
    enum gr_act f;
} acts[ACT_COUNT] = {
    [ACT_SWIGLU] = {true, GR_SILU},        [ACT_GEGLU] = {true, GR_GELU},
    [ACT_GEGLU_ERF] = {true, GR_GELU_ERF}, [ACT_GELU] = {false, GR_GELU},
    [ACT_GELU_ERF] = {false, GR_GELU_ERF}, [ACT_RELU2] = {false, GR_RELU2},
    [ACT_XIELU] = {false, GR_XIELU},       [ACT_RELU2_GATED] = {true, GR_RELU2},
    [ACT_SWIGLU_OAI] = {true, GR_CLAMPED},
};

static double softplus(double x) {
    return x > 0 ? x + fp_log1p(fp_exp(-x)) : fp_log1p(fp_exp(x));
}
/* Converts a layer's stored xIELU parameters to those of the formula (models/ops.def). */
static struct gr_xielu xielu_of(const float x[4]) {
    return (struct gr_xielu){.p = (float)softplus((double)x[0]),
                             .n = (float)((double)x[2] + softplus((double)x[1])),
                             .b = x[2],
                             .eps = x[3]};
}

/* Appends dst = act(src), multiplied, unless up is GR_NONE, by the columns of `up` that start at
 * `offset`. */
static void activate(struct build *b, enum act act, gr_reg dst, gr_reg src, gr_reg up,
                     int64_t offset) {
    struct gr_node *n = graph_node(b->g, OP_ACT, b->layer);
    n->dst = dst;
    n->src[0] = src;
    n->src[1] = up;
    n->pick.offset = offset;
    n->pick.f = acts[act].f;
    if (act == ACT_XIELU) n->pick.xielu = xielu_of(b->h->layer[b->layer].xielu);
}

void block_clamp(struct build *b, gr_reg r, double by) {
    struct gr_node *n = graph_node(b->g, OP_CLAMP, b->layer);
    n->dst = n->src[0] = r;
    n->scale.by = (float)by;
}
void block_mul(struct build *b, enum gr_factor f, gr_reg dst, gr_reg by) {
    struct gr_node *n = graph_node(b->g, OP_MUL, b->layer);
    n->dst = dst;
    n->src[0] = by;
    n->mul.f = f;
}
/* Sets gate to min(silu(gate), limit) times the clamped up. silu is never below -limit. */
static void late_clamp(struct build *b, double limit, gr_reg gate, gr_reg up) {
    activate(b, ACT_SWIGLU, gate, gate, GR_NONE, 0);
    block_clamp(b, gate, limit);
    block_clamp(b, up, limit);
    block_mul(b, GR_VALUE, gate, up);
}

void block_gate(struct build *b, enum act act, gr_reg gate, gr_reg up, int64_t offset) {
    const float limit = b->h->layer[b->layer].limit;
    if (act == ACT_SWIGLU && limit > 0 && !offset) {
        late_clamp(b, (double)limit, gate, up);
        return;
    }
    if (act != ACT_GEGLU && (act != ACT_SWIGLU || offset)) {
        activate(b, act, gate, gate, up, offset);
        return;
    }
    struct gr_node *n = graph_node(b->g, act == ACT_GEGLU ? OP_GEGLU : OP_SWIGLU, b->layer);
    n->dst = n->src[0] = gate;
    n->src[1] = up;
    n->pick.offset = offset;
}

/* Returns the input of ffn_down: the activation of the product of `in` with the up matrix, or with
 * the gate and up matrices. */
static gr_reg activated(struct build *b, enum act act, gr_reg in) {
    if (acts[act].gated && block_has(b, "ffn_gate.weight")) {
        gr_reg gate = block_matmul(b, "ffn_gate", in);
        gr_reg up = block_matmul(b, "ffn_up", in);
        block_gate(b, act, gate, up, 0);
        block_give(b, up);
        return gate;
    }
    gr_reg up = block_matmul(b, "ffn_up", in);
    if (!acts[act].gated) {
        activate(b, act, up, up, GR_NONE, 0);
        return up;
    }
    const int64_t ff = b->g->reg_width[up] / 2;
    gr_reg out = block_take(b, ff);
    activate(b, act, out, up, up, ff);
    block_give(b, up);
    return out;
}

gr_reg block_ffn(struct build *b, const struct ffn_spec *s, gr_reg in) {
    gr_reg h = block_norm_after(b, &s->mid_norm, activated(b, s->act, in));
    gr_reg out = block_matmul(b, "ffn_down", h);
    block_give(b, h);
    return out;
}
