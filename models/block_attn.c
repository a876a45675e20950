// SPDX-License-Identifier: MIT
/* models/block_attn.c - attention: products of queries, keys and values; norms; rope; causal
 * attention with grouped key/value heads; optionally an output gate that attn_q carries beside each
 * head's query. A layer that reads another layer's keys and values makes queries only. */
#include <math.h>

#include "models/block.h"

struct heads {
    gr_reg q, k, v, gate; /* GR_NONE: not there */
};

/* attn_q holds a query and a gate for each head: splits them. */
static void split_gate(struct build *b, const struct layer_hp *l, struct heads *r) {
    const gr_reg qg = r->q;
    r->q = block_take(b, l->heads * l->head_dim);
    r->gate = block_take(b, l->heads * l->head_dim);
    struct gr_node *n = graph_node(b->g, OP_SPLIT_GATE, b->layer);
    n->dst = r->q;
    n->dst2 = r->gate;
    n->src[0] = qg;
    n->n_heads = l->heads;
    n->head_dim = l->head_dim;
    block_give(b, qg);
}

static struct heads project(struct build *b, const struct attn_spec *s, const struct layer_hp *l,
                            gr_reg in) {
    struct heads r = {block_matmul(b, "attn_q", in), GR_NONE, GR_NONE, GR_NONE};
    if (s->gate == GATE_IN_Q) split_gate(b, l, &r);
    if (l->kv_of != b->layer) return r;
    r.k = block_matmul(b, "attn_k", in);
    const struct norm_spec plain = {.kind = NORM_RMS};
    if (!l->keys_are_values) r.v = block_matmul(b, "attn_v", in);
    const gr_reg raw = l->keys_are_values ? r.k : r.v;
    if (l->keys_are_values) r.v = block_take(b, b->g->reg_width[r.k]);
    if (s->value_norm) block_norm_heads(b, &plain, r.v, raw, l->head_dim);
    return r;
}

/* Norm, if any, and rope, if any, of queries or keys. */
static void norm_rope(struct build *b, const struct attn_spec *s, const struct norm_spec *norm,
                      const struct layer_hp *l, gr_reg r) {
    if (norm->kind) block_norm_heads(b, norm, r, r, l->head_dim);
    if (s->rope.kind == ROPE_NONE || l->no_rope) return;
    struct gr_node *n = graph_node(b->g, OP_ROPE, b->layer);
    n->adjacent = s->rope.kind == ROPE_PAIRS;
    n->dst = n->src[0] = r;
    n->n_heads = b->g->reg_width[r] / l->head_dim;
    n->head_dim = l->head_dim;
    n->n_rot = l->n_rot;
    n->rope_base = l->rope_base;
    if (s->rope.scaling == SCALING_MODEL || !l->window) n->w[0] = b->freqs;
}

gr_reg block_attn(struct build *b, const struct attn_spec *s, gr_reg in) {
    const struct layer_hp *l = &b->h->layer[b->layer];
    const bool own = l->kv_of == b->layer;
    struct heads r = project(b, s, l, in);
    norm_rope(b, s, &s->q_norm, l, r.q);
    if (own) {
        norm_rope(b, s, &s->k_norm, l, r.k);
        b->slot[b->layer] = b->g->n_attn_slots++;
    }
    gr_reg o = block_take(b, l->heads * l->head_dim);
    struct gr_node *n = graph_node(b->g, OP_ATTN, b->layer);
    n->dst = o;
    n->src[0] = r.q;
    n->src[1] = r.k;
    n->src[2] = r.v;
    n->slot = b->slot[l->kv_of];
    n->n_heads = l->heads;
    n->n_kv_heads = l->kv_heads;
    n->head_dim = n->v_dim = l->head_dim;
    n->window = l->window;
    n->scale = (float)(s->scale > 0 ? s->scale : 1.0 / sqrt((double)l->head_dim));
    block_give(b, r.q);
    block_give(b, r.k);
    block_give(b, r.v);
    if (s->gate == GATE_IN_Q) {
        n = graph_node(b->g, OP_SIGMOID_MUL, b->layer);
        n->dst = o;
        n->src[0] = r.gate;
        block_give(b, r.gate);
    }
    gr_reg out = block_matmul(b, "attn_output", o);
    block_give(b, o);
    return out;
}
