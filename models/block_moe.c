// SPDX-License-Identifier: MIT
/* models/block_moe.c - mixture of experts: top-k routed experts and, if the table has one, a shared
 * expert whose output is scaled by a sigmoid gate per token or simply added. Routed experts may
 * work on low-rank rows (Nemotron 3 Super). Without ffn_gate_exps, one tensor holds the experts'
 * gate and up matrices. */
#include "models/block.h"

gr_reg block_experts(struct build *b, const struct ffn_spec *s, gr_reg in, gr_reg router_in) {
    static const enum gr_score score[] = {[SCORE_SOFTMAX] = GR_SOFTMAX,
                                          [SCORE_SIGMOID] = GR_SIGMOID,
                                          [SCORE_SOFTMAX_CHOSEN] = GR_LOGIT,
                                          [SCORE_MIXER] = GR_MIXER};
    struct gr_moe m = {.router = block_weight(b, "ffn_gate_inp.weight"),
                       .relu2 = s->act == ACT_RELU2,
                       .joined = s->act != ACT_RELU2 && !block_has(b, "ffn_gate_exps.weight"),
                       .n_used = b->h->d[HD_EXPERTS_USED],
                       .gelu = s->act == ACT_GEGLU,
                       .scales_input = s->router.input_scaled};
    m.gate = block_weight(b, m.joined  ? "ffn_gate_up_exps.weight"
                             : m.relu2 ? "ffn_up_exps.weight"
                                       : "ffn_gate_exps.weight");
    m.up = m.joined || m.relu2 ? GR_NONE : block_weight(b, "ffn_up_exps.weight");
    m.down = block_weight(b, "ffn_down_exps.weight");
    m.factor = block_weight_if(b, "ffn_down_exps.scale");
    m.prefer = block_weight_if(b, block_has(b, "exp_probs_b") ? "exp_probs_b" : "exp_probs_b.bias");
    m.router_bias = block_weight_if(b, "ffn_gate_inp.bias");
    m.gate_bias = block_weight_if(b, "ffn_gate_exps.bias");
    m.up_bias = block_weight_if(b, "ffn_up_exps.bias");
    m.down_bias = block_weight_if(b, "ffn_down_exps.bias");
    if (s->act == ACT_SWIGLU_OAI) {
        m.alpha = GR_CLAMPED_ALPHA;
        m.limit = GR_CLAMPED_LIMIT;
    }
    const float limit = b->h->layer[b->layer].limit_exp;
    if (s->act == ACT_SWIGLU && limit > 0) {
        m.late = true;
        m.limit = limit;
    }
    m.choice = (struct gr_choice){.score = score[s->router.score],
                                  .keep = s->router.keep,
                                  .groups = s->router.groups,
                                  .top = s->router.top,
                                  .scale = (float)s->router.scale,
                                  .margin = (float)s->router.margin};
    gr_reg out = block_take(b, b->g->reg_width[in]);
    struct gr_node *n = graph_node(b->g, OP_MOE, b->layer);
    n->dst = out;
    n->src[0] = in;
    if (router_in != in) n->src[1] = router_in;
    n->moe = m;
    return out;
}

/* Adds the output of the shared expert to `out`. */
static void add_shared(struct build *b, const struct ffn_spec *s, gr_reg in, gr_reg out) {
    gr_reg gate = block_matmul(b, s->act == ACT_RELU2 ? "ffn_up_shexp" : "ffn_gate_shexp", in);
    if (s->act == ACT_RELU2)
        block_gate(b, s->act, gate, GR_NONE, 0);
    else {
        gr_reg up = block_matmul(b, "ffn_up_shexp", in);
        block_gate(b, s->act, gate, up, 0);
        block_give(b, up);
    }
    gr_reg add = block_matmul(b, "ffn_down_shexp", gate);
    block_give(b, gate);
    gr_w w = block_weight_if(b, "ffn_gate_inp_shexp.weight");
    if (w == GR_NONE) {
        block_add(b, out, add);
        return;
    }
    struct gr_node *n = graph_node(b->g, OP_GATE_ADD, b->layer);
    n->dst = out;
    n->src[0] = add;
    n->src[1] = in;
    n->gate.row = w;
    block_give(b, add);
}

/* Returns the output of experts that work on a low-rank row: ffn_latent_up . experts(
 * ffn_latent_down . in), while the router reads `in`. */
static gr_reg latent_experts(struct build *b, const struct ffn_spec *s, gr_reg in) {
    const gr_reg low = block_matmul(b, "ffn_latent_down", in);
    const gr_reg mixed = block_experts(b, s, low, in);
    const gr_reg out = block_matmul(b, "ffn_latent_up", mixed);
    block_give(b, low);
    block_give(b, mixed);
    return out;
}

gr_reg block_moe(struct build *b, const struct ffn_spec *s, gr_reg in) {
    const bool latent = b->h->d[HD_MOE_LATENT] > 0;
    gr_reg out = latent ? latent_experts(b, s, in) : block_experts(b, s, in, in);
    if (!block_has(b, "ffn_up_shexp.weight")) return out;
    add_shared(b, s, in, out);
    if (s->mean_shared) block_scale(b, out, 0.5);
    return out;
}
