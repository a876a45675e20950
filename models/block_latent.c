// SPDX-License-Identifier: MIT
/* models/block_latent.c - latent attention (MLA, DeepSeek V2). For each token the cache stores one
 * row, shared by all heads: `rank` latent values c, and the rotated part k of a key.
 *
 *     q = W_q x, or q_b . rms(q_a x); per head an unrotated and a rotated part
 *     c | k = kv_a x; c = rms(c)
 *     scores of head h = (q_rotated | k_b[h] q_unrotated) . (k | c), values are c
 *     output of head h = v_b[h] . (weighted sum of values)
 *
 * These are the "absorbed" products: k_b and v_b are applied to queries and outputs, so per-head
 * keys and values, (k_b[h]^T c | k) and v_b[h] c, are never materialized. The results are
 * mathematically equal. Materialized keys would be faster for long prompts, but then the bits of a
 * row would depend on how the text is split into passes.
 *
 * In sparse attention (DeepSeek V3.2) an indexer, with its own small queries and keys, selects the
 * keys that a query sees. Layers without an indexer reuse the last selection. */
#include <math.h>

#include "models/block.h"

/* Copies, for each head, the values past the first `cols`, then appends the head's weight times
 * the first `cols`. */
static gr_reg per_head(struct build *b, const char *name, gr_reg in, int64_t head_dim) {
    const gr_w w = block_weight(b, name);
    if (w == GR_NONE) return in;
    const int64_t *ne = b->g->weight[w].ne, cols = ne[0], rows = ne[1], heads = ne[2];
    const gr_reg out = block_take(b, heads * (head_dim - cols + rows));
    struct gr_node *n = graph_node(b->g, OP_MATMUL_HEADS, b->layer);
    n->dst = out;
    n->src[0] = in;
    n->product.matrix = w;
    block_give(b, in);
    return out;
}

/* Returns the norm of a low-rank row, and releases `in`. The eps is 1e-6 instead of the model's, as
 * in all reference implementations. */
static gr_reg low_norm(struct build *b, const struct norm_spec *s, gr_reg in) {
    const gr_reg out = block_norm_after(b, s, in);
    b->g->node[b->g->n_nodes - 1].norm.eps = 1e-6f;
    return out;
}

/* Appends an indexer: its queries from the normed low-rank row `low`, its key and its heads'
 * weights from the layer's input. */
static void select_keys(struct build *b, const struct rope_spec *rope, gr_reg in, gr_reg low) {
    static const struct norm_spec norm = {NORM_LAYER, "indexer.k_norm"};
    b->g->selecting = true;
    const gr_reg q = block_matmul(b, "indexer.attn_q_b", low);
    const gr_reg k = low_norm(b, &norm, block_matmul(b, "indexer.attn_k", in));
    block_select(b, rope, q, k, block_matmul(b, "indexer.proj", in));
}

/* Adds the queries, through a low-rank projection if the model has one. */
static gr_reg latent_queries(struct build *b, const struct attn_spec *s, gr_reg in) {
    static const struct norm_spec norm = {NORM_RMS, "attn_q_a_norm"};
    if (!b->h->d[HD_Q_RANK]) return block_matmul(b, "attn_q", in);
    const gr_reg low = low_norm(b, &norm, block_matmul(b, "attn_q_a", in));
    if (b->h->d[HD_INDEXED] && !b->h->layer[b->layer].index_shared)
        select_keys(b, &s->index_rope, in, low);
    const gr_reg q = block_matmul(b, "attn_q_b", low);
    block_give(b, low);
    return q;
}

gr_reg block_latent(struct build *b, const struct attn_spec *s, gr_reg in) {
    static const struct norm_spec norm = {NORM_RMS, "attn_kv_a_norm"};
    const struct layer_hp *l = &b->h->layer[b->layer];
    const int64_t rank = b->h->d[HD_KV_RANK], turned = l->n_rot, key = b->h->d[HD_KEY_MLA];
    const gr_reg q = per_head(b, "attn_k_b.weight", latent_queries(b, s, in), key);
    const gr_reg both = block_matmul(b, "attn_kv_a_mqa", in);
    const gr_reg k = block_columns(b, both, rank, turned);
    const gr_reg c = low_norm(b, &norm, block_columns(b, both, 0, rank));
    block_give(b, both);
    if (s->rope.kind != ROPE_NONE && !l->no_rope) {
        block_rope(b, &s->rope, q, turned + rank, turned);
        block_rope(b, &s->rope, k, turned, turned);
    }
    block_temper(b, &s->temper, q);
    const gr_reg o = block_take(b, l->heads * rank);
    struct gr_node *n = graph_node(b->g, OP_ATTN, b->layer);
    n->dst = o;
    n->src[0] = q;
    n->src[1] = k;
    n->src[2] = c;
    n->src[ATTN_KEYS] = b->keys;
    n->slot = b->slot[b->layer] = b->g->n_attn_slots++;
    n->attn.n_heads = l->heads;
    n->attn.n_kv_heads = 1;
    n->attn.head_dim = turned + rank;
    n->attn.latent = rank;
    n->attn.scale = (float)(s->scale > 0 ? s->scale : 1 / sqrt((double)key));
    block_give(b, q);
    block_give(b, k);
    block_give(b, c);
    const gr_reg v = per_head(b, "attn_v_b.weight", o, rank);
    if (s->gate == GATE_HEAD) {
        const gr_reg gate = block_matmul(b, "attn_gate", in);
        block_mul(b, GR_SIGMOID_OF, v, gate);
        block_give(b, gate);
    }
    const gr_reg out = block_matmul(b, "attn_output", v);
    block_give(b, v);
    return out;
}
