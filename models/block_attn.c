// SPDX-License-Identifier: MIT
/* models/block_attn.c - attention: projections to queries, keys and values; norms; RoPE; causal
 * attention with grouped key/value heads; optionally an output gate, stored in attn_q next to each
 * head's query. A layer that reads another layer's keys and values computes queries only. */
#include <math.h>

#include "models/block.h"

struct heads {
    gr_reg q, k, v, gate; /* GR_NONE: absent */
};

/* Splits the output of attn_q, which holds a query and a gate per head. */
static void split_gate(struct build *b, const struct layer_hp *l, struct heads *r) {
    const gr_reg qg = r->q;
    r->q = block_take(b, l->heads * l->head_dim);
    r->gate = block_take(b, l->heads * l->head_dim);
    struct gr_node *n = graph_node(b->g, OP_SPLIT_GATE, b->layer);
    n->dst = r->q;
    n->dst2 = r->gate;
    n->src[0] = qg;
    n->heads.head_dim = l->head_dim;
    block_give(b, qg);
}

/* Returns queries, keys and values from a fused product. */
static struct heads project_fused(struct build *b, const struct layer_hp *l, gr_reg in) {
    const gr_reg all = block_matmul(b, "attn_qkv", in);
    struct heads r = {.gate = GR_NONE};
    const int64_t q = l->heads * l->head_dim, kv = l->kv_heads * l->head_dim;
    r.q = block_columns(b, all, 0, q);
    r.k = block_columns(b, all, q, kv);
    r.v = block_columns(b, all, q + kv, kv);
    block_give(b, all);
    return r;
}

/* Adds the projections to queries, keys, values and gate; GR_NONE: absent. */
static struct heads project_heads(struct build *b, const struct attn_spec *s,
                                  const struct layer_hp *l, gr_reg in) {
    if (block_has(b, "attn_qkv.weight")) return project_fused(b, l, in);
    struct heads r = {block_matmul(b, "attn_q", in), GR_NONE, GR_NONE, GR_NONE};
    if (s->gate == GATE_IN_Q) split_gate(b, l, &r);
    if (l->kv_of != b->layer) return r;
    r.k = block_matmul(b, "attn_k", in);
    const struct norm_spec plain = {.kind = NORM_RMS};
    if (!l->keys_are_values)
        r.v = block_matmul(b, "attn_v", in);
    else /* copied before keys are normalised */
        r.v = s->value_norm ? block_take(b, b->g->reg_width[r.k])
                            : block_columns(b, r.k, 0, b->g->reg_width[r.k]);
    if (s->value_norm)
        block_norm_heads(b, &plain, r.v, l->keys_are_values ? r.k : r.v, l->head_dim);
    return r;
}

void block_rope(struct build *b, const struct rope_spec *s, gr_reg r, int64_t head_dim,
                int64_t n_rot) {
    const struct layer_hp *l = &b->h->layer[b->layer];
    struct gr_node *n = graph_node(b->g, OP_ROPE, b->layer);
    n->dst = n->src[0] = r;
    n->rope.adjacent = s->kind == ROPE_PAIRS;
    n->rope.head_dim = head_dim;
    n->rope.n_rot = n_rot;
    n->rope.base = l->rope_base;
    if (s->scaling == SCALING_FULL && l->window) {
        n->rope.no_yarn = true;
        return;
    }
    n->rope.factor = b->h->f[HF_ROPE_FACTOR];
    n->rope.divisors = b->freqs;
    n->rope.far = b->far;
}

/* Appends the norm of queries or keys, if the table has one, and their RoPE, if any. */
static void norm_rope(struct build *b, const struct attn_spec *s, const struct norm_spec *norm,
                      const struct layer_hp *l, gr_reg r) {
    if (norm->kind && !s->norm_after_rope) block_norm_heads(b, norm, r, r, l->head_dim);
    if (s->rope.kind != ROPE_NONE && !l->no_rope) block_rope(b, &s->rope, r, l->head_dim, l->n_rot);
    if (norm->kind && s->norm_after_rope) block_norm_heads(b, norm, r, r, l->head_dim);
}

void block_temper(struct build *b, const struct gr_temper *by, gr_reg q) {
    if (!(by->scale > 0)) return;
    struct gr_node *n = graph_node(b->g, OP_TEMPER, b->layer);
    n->dst = n->src[0] = q;
    n->temper = *by;
}

/* Returns the heads of r, resized from `from` to `to` values each, and releases r. Values narrower
 * than keys are zero-padded, so that every cache and device supports them. In the only family with
 * such values (MiMo-V2), the padding takes a sixth of the cache. */
static gr_reg fit_heads(struct build *b, gr_reg r, int64_t from, int64_t to) {
    if (from == to || r == GR_NONE) return r;
    const gr_reg out = block_take(b, b->g->reg_width[r] / from * to);
    struct gr_node *n = graph_node(b->g, OP_FIT_HEADS, b->layer);
    n->dst = out;
    n->src[0] = r;
    n->heads = (struct gr_heads){.head_dim = to, .from = from};
    block_give(b, r);
    return out;
}

/* Multiplies the heads' outputs by their gates. */
static void gated(struct build *b, const struct attn_spec *s, gr_reg in, gr_reg gate, gr_reg o) {
    if (s->gate >= GATE_ELEMENT) gate = block_matmul(b, "attn_gate", in);
    if (gate == GR_NONE) return;
    if (s->gate >= GATE_HEAD)
        block_mul(b, s->gate == GATE_HEAD ? GR_SIGMOID_OF : GR_SOFTPLUS_OF, o, gate);
    else {
        struct gr_node *n = graph_node(b->g, OP_SIGMOID_MUL, b->layer);
        n->dst = o;
        n->src[0] = gate;
    }
    block_give(b, gate);
}

/* Clamps queries, keys and values (HF_CLAMP_QKV) and scales the values (HF_VALUE_SCALE). */
static void tamed(struct build *b, const struct heads *r) {
    const double most = b->h->f[HF_CLAMP_QKV], by = b->h->f[HF_VALUE_SCALE];
    const gr_reg all[] = {r->q, r->k, r->v};
    for (int i = 0; i < 3; i++)
        if (most > 0 && all[i] != GR_NONE) block_clamp(b, all[i], most);
    if (by > 0 && r->v != GR_NONE) block_scale(b, r->v, by);
}

void block_select(struct build *b, const struct rope_spec *rope, gr_reg q, gr_reg k, gr_reg w) {
    const int64_t *d = b->h->d, heads = d[HD_INDEX_HEADS], dim = d[HD_INDEX_DIM];
    const int64_t turned = b->h->layer[b->layer].n_rot;
    block_rope(b, rope, q, dim, turned);
    block_rope(b, rope, k, dim, turned);
    if (b->keys == GR_NONE)
        b->keys = graph_reg(b->g, d[HD_TOP_KEYS] * (d[HD_INDEX_BLOCK] ? heads : 1));
    struct gr_node *n = graph_node(b->g, OP_INDEX, b->layer);
    n->dst = b->keys;
    n->src[0] = q;
    n->src[1] = k;
    n->src[2] = w;
    n->slot = b->g->n_attn_slots++;
    n->index = (struct gr_index){.n_heads = heads,
                                 .head_dim = dim,
                                 .top = d[HD_TOP_KEYS],
                                 .block = d[HD_INDEX_BLOCK],
                                 .local = d[HD_INDEX_LOCAL]};
    b->g->selecting = false;
    block_give(b, q);
    block_give(b, k);
    block_give(b, w);
}

/* Appends the indexer of a layer, if it has one, and returns the selected keys. */
static gr_reg selected_keys(struct build *b, const struct attn_spec *s, gr_reg in) {
    static const struct norm_spec q_norm = {NORM_RMS, "indexer.q_norm"},
                                  k_norm = {NORM_RMS, "indexer.k_norm"};
    const int64_t dim = b->h->d[HD_INDEX_DIM];
    if (!block_has(b, "indexer.q_proj.weight")) return GR_NONE;
    b->g->selecting = true;
    const gr_reg q = block_matmul(b, "indexer.q_proj", in);
    const gr_reg k = block_matmul(b, "indexer.k_proj", in);
    block_norm_heads(b, &q_norm, q, q, dim);
    block_norm_heads(b, &k_norm, k, k, dim);
    block_select(b, &s->rope, q, k, GR_NONE);
    return b->keys;
}

gr_reg block_attn(struct build *b, const struct attn_spec *s, gr_reg in) {
    const struct layer_hp *l = &b->h->layer[b->layer];
    const bool own = l->kv_of == b->layer;
    const int64_t v_dim = b->h->d[HD_V_DIM] ? b->h->d[HD_V_DIM] : l->head_dim;
    const gr_reg keys = selected_keys(b, s, in);
    struct heads r = project_heads(b, s, l, in);
    tamed(b, &r);
    r.v = fit_heads(b, r.v, v_dim, l->head_dim);
    norm_rope(b, s, &s->q_norm, l, r.q);
    if (own) {
        norm_rope(b, s, &s->k_norm, l, r.k);
        b->slot[b->layer] = b->g->n_attn_slots++;
    }
    block_temper(b, &s->temper, r.q);
    const gr_w sinks = block_weight_if(b, "attn_sinks.weight");
    gr_reg o = block_take(b, l->heads * l->head_dim);
    struct gr_node *n = graph_node(b->g, OP_ATTN, b->layer);
    n->dst = o;
    n->src[0] = r.q;
    n->src[1] = r.k;
    n->src[2] = r.v;
    n->src[ATTN_KEYS] = keys;
    n->slot = b->slot[l->kv_of];
    n->attn = (struct gr_attn){
        .sinks = sinks,
        .n_heads = l->heads,
        .n_kv_heads = l->kv_heads,
        .head_dim = l->head_dim,
        .window = l->window,
        .key_block = keys == GR_NONE ? 0 : b->h->d[HD_INDEX_BLOCK],
        .chunked = s->chunked && l->window > 0,
        .whole = s->whole,
        .scale = (float)(s->scale > 0 ? s->scale : 1.0 / sqrt((double)l->head_dim)),
        .softcap = (float)s->softcap};
    block_give(b, r.q);
    block_give(b, r.k);
    block_give(b, r.v);
    o = fit_heads(b, o, l->head_dim, v_dim);
    gated(b, s, in, r.gate, o);
    o = block_norm_after(b, &s->out_norm, o);
    gr_reg out = block_matmul(b, "attn_output", o);
    block_give(b, o);
    return out;
}
