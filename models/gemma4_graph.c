// SPDX-License-Identifier: MIT
/* models/gemma4_graph.c - the forward pass of Gemma 4:
 *
 *   x = embd * sqrt(d)
 *   x += rms(attention(rms(x)));  r = x
 *   dense: f = ffn(rms(r));  mixture: f = rms(ffn(rms(r))) + rms(experts(r))
 *   x = r + rms(f);  E models: x += rms(proj(gelu(gate x) * ple[layer]));  x *= scale of the layer
 *
 * Attention has scale 1; values get a norm without weights, and neither rope nor the keys' norm.
 * Rope of full layers divides angles by rope_freqs.weight (1e30: no rotation). */
#include <math.h>

#include "models/gemma4.h"

struct gemma {
    struct build b;
    gr_reg ple;     /* [layers * width], GR_NONE without per-layer embeddings */
    int kv_slot[2]; /* of the last layer with own keys: full, window */
};

static void rms_heads(struct build *b, gr_reg dst, gr_reg src, const char *norm, int64_t head_dim) {
    gr_w w = norm ? part_weight(b, norm) : GR_NONE;
    struct gr_node *n = graph_node(b->g, OP_RMS_HEADS, b->layer);
    n->dst = dst;
    n->src[0] = src;
    n->w[0] = w;
    n->head_dim = head_dim;
    n->n_heads = b->g->reg_width[dst] / head_dim;
    n->eps = (float)b->h->f[HF_RMS_EPS];
}

static void scale(struct build *b, gr_reg r, double by) {
    struct gr_node *n = graph_node(b->g, OP_SCALE, b->layer);
    n->dst = n->src[0] = r;
    n->scale = (float)by;
}

/* a += c; c is given back */
static void add(struct build *b, gr_reg a, gr_reg c) {
    struct gr_node *n = graph_node(b->g, OP_ADD, b->layer);
    n->dst = n->src[0] = a;
    n->src[1] = c;
    part_give(b, c);
}

/* rms(in), in is given back */
static gr_reg after(struct build *b, const char *norm, gr_reg in) {
    gr_reg out = part_rms(b, norm, in);
    part_give(b, in);
    return out;
}

static void rope(struct gemma *m, gr_reg r, int64_t head_dim, bool window) {
    struct gr_node *n = graph_node(m->b.g, OP_ROPE, m->b.layer);
    n->dst = n->src[0] = r;
    n->head_dim = n->n_rot = head_dim;
    n->n_heads = m->b.g->reg_width[r] / head_dim;
    n->rope_base = m->b.h->f[window ? HF_ROPE_BASE_W : HF_ROPE_BASE];
    if (!window) n->w[0] = m->b.freqs;
}

/* Normed and rotated keys and normed values of this layer. */
static void keys_values(struct gemma *m, gr_reg in, bool window, int64_t hd, gr_reg kv[2]) {
    struct build *b = &m->b;
    kv[0] = part_matmul(b, "attn_k.weight", in);
    if (window || b->h->d[HD_FULL_V]) {
        kv[1] = part_matmul(b, "attn_v.weight", in);
        rms_heads(b, kv[1], kv[1], NULL, hd);
    } else {
        kv[1] = part_take(b, b->g->reg_width[kv[0]]);
        rms_heads(b, kv[1], kv[0], NULL, hd); /* of the raw keys: before their norm */
    }
    rms_heads(b, kv[0], kv[0], "attn_k_norm.weight", hd);
    rope(m, kv[0], hd, window);
}

static gr_reg attention(struct gemma *m, gr_reg in) {
    struct build *b = &m->b;
    const int64_t *d = b->h->d;
    bool window = b->h->window[b->layer], own = !b->h->shared_kv[b->layer];
    int64_t hd = d[window ? HD_HEAD_DIM_W : HD_HEAD_DIM];
    gr_reg q = part_matmul(b, "attn_q.weight", in), kv[2] = {GR_NONE, GR_NONE};
    rms_heads(b, q, q, "attn_q_norm.weight", hd);
    rope(m, q, hd, window);
    if (own) {
        keys_values(m, in, window, hd, kv);
        m->kv_slot[window] = b->g->n_attn_slots++;
    }
    gr_reg o = part_take(b, d[window ? HD_Q_OUT_W : HD_Q_OUT]);
    struct gr_node *n = graph_node(b->g, OP_ATTN, b->layer);
    n->dst = o;
    n->src[0] = q;
    n->src[1] = kv[0];
    n->src[2] = kv[1];
    n->slot = m->kv_slot[window];
    n->n_heads = d[HD_HEADS];
    n->n_kv_heads = d[window ? HD_KV_HEADS_W : HD_KV_HEADS];
    n->head_dim = n->v_dim = hd;
    n->window = window ? d[HD_WINDOW] : 0;
    n->scale = 1;
    part_give(b, q);
    for (int i = 0; own && i < 2; i++) part_give(b, kv[i]);
    gr_reg out = part_matmul(b, "attn_output.weight", o);
    part_give(b, o);
    return out;
}

/* gate = gelu(gate) * up, columns of up from `offset` */
static void geglu(struct build *b, gr_reg gate, gr_reg up, int64_t offset) {
    struct gr_node *n = graph_node(b->g, OP_GEGLU, b->layer);
    n->dst = n->src[0] = gate;
    n->src[1] = up;
    n->offset = offset;
}

static gr_reg dense(struct build *b) {
    gr_reg h = part_rms(b, "ffn_norm.weight", b->g->residual);
    gr_reg gate = part_matmul(b, "ffn_gate.weight", h), up = part_matmul(b, "ffn_up.weight", h);
    geglu(b, gate, up, 0);
    gr_reg out = part_matmul(b, "ffn_down.weight", gate);
    part_give(b, h);
    part_give(b, gate);
    part_give(b, up);
    return out;
}

/* The router reads the residual by its own norm, the experts by another. */
static gr_reg experts(struct build *b) {
    const int64_t *d = b->h->d;
    gr_reg u = part_rms(b, "ffn_gate_inp.scale", b->g->residual);
    scale(b, u, 1 / sqrt((double)d[HD_EMBD]));
    gr_reg z = part_rms(b, "pre_ffw_norm_2.weight", b->g->residual);
    gr_w router = part_weight(b, "ffn_gate_inp.weight");
    gr_w gate_up = part_weight(b, "ffn_gate_up_exps.weight");
    gr_w down = part_weight(b, "ffn_down_exps.weight");
    gr_w factor = part_weight(b, "ffn_down_exps.scale");
    gr_reg out = part_take(b, d[HD_EMBD]);
    struct gr_node *n = graph_node(b->g, OP_MOE, b->layer);
    n->dst = out;
    n->src[0] = z;
    n->src[1] = u;
    n->w[0] = router;
    n->w[1] = gate_up;
    n->w[3] = down;
    n->w[4] = factor;
    n->n_used = d[HD_EXPERTS_USED];
    n->gelu = true;
    part_give(b, u);
    part_give(b, z);
    return out;
}

static void per_layer_input(struct gemma *m) {
    struct build *b = &m->b;
    gr_reg gate = part_matmul(b, "inp_gate.weight", b->g->residual);
    geglu(b, gate, m->ple, b->layer * b->h->d[HD_PLE]);
    gr_reg out = part_matmul(b, "proj.weight", gate);
    part_give(b, gate);
    add(b, b->g->residual, after(b, "post_norm.weight", out));
}

static void block(struct gemma *m) {
    struct build *b = &m->b;
    struct graph *g = b->g;
    gr_reg h = part_rms(b, "attn_norm.weight", g->residual);
    gr_reg mixed = attention(m, h);
    part_give(b, h);
    add(b, g->residual, after(b, "post_attention_norm.weight", mixed));
    gr_reg f = dense(b);
    if (b->h->d[HD_EXPERTS]) {
        f = after(b, "post_ffw_norm_1.weight", f);
        add(b, f, after(b, "post_ffw_norm_2.weight", experts(b)));
    }
    add(b, g->residual, after(b, "post_ffw_norm.weight", f));
    if (m->ple != GR_NONE) per_layer_input(m);
    gr_w by = part_weight(b, "layer_output_scale.weight");
    scale(b, g->residual, 0);
    g->node[g->n_nodes - 1].w[0] = by;
    g->hidden_nodes[b->layer] = g->n_nodes - 1;
}

static gr_w embed(struct build *b, const char *name, gr_reg dst, int64_t width) {
    gr_w w = part_weight(b, name);
    struct gr_node *n = graph_node(b->g, OP_EMBED, -1);
    n->dst = dst;
    n->w[0] = w;
    n->scale = (float)sqrt((double)width);
    return w;
}

/* (rms(proj x0 / sqrt(d)) + token rows * sqrt(width)) / sqrt(2), for all layers at once. */
static void per_layer_embeddings(struct gemma *m) {
    struct build *b = &m->b;
    const int64_t *d = b->h->d;
    gr_reg t = part_take(b, d[HD_PLE_ALL]);
    embed(b, "per_layer_token_embd.weight", t, d[HD_PLE]);
    m->ple = part_matmul(b, "per_layer_model_proj.weight", b->g->residual);
    scale(b, m->ple, 1 / sqrt((double)d[HD_EMBD]));
    rms_heads(b, m->ple, m->ple, "per_layer_proj_norm.weight", d[HD_PLE]);
    add(b, m->ple, t);
    scale(b, m->ple, sqrt(0.5));
}

int gemma4_build(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e) {
    struct gemma m = {.b = {.arch = a, .h = h, .g = g, .layer = -1}, .ple = GR_NONE};
    struct build *b = &m.b;
    g->rope_base = h->f[HF_ROPE_BASE];
    g->softcap = h->f[HF_SOFTCAP];
    g->residual = graph_reg(g, h->d[HD_EMBD]);
    gr_w embd = embed(b, "token_embd.weight", g->residual, h->d[HD_EMBD]);
    b->freqs = part_weight(b, "rope_freqs.weight");
    if (h->d[HD_PLE]) per_layer_embeddings(&m);
    for (b->layer = 0; b->layer < h->d[HD_LAYERS]; b->layer++) block(&m);
    b->layer = -1;
    g->hidden_out = part_rms(b, "output_norm.weight", g->residual);
    g->hidden_nodes[h->d[HD_LAYERS]] = g->n_nodes - 1;
    g->output = part_weight(b, "output.weight");
    if (b->missing)
        return err_set(e, ERR_DATA, "%s: the graph uses %s, which its table lacks", a->name,
                       b->missing);
    g->weight[g->output].optional_of = embd;
    return 0;
}
