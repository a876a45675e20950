// SPDX-License-Identifier: MIT
/* models/block_eagle.c - graph of an EAGLE-3 draft. It predicts the token after the next one from
 * the next token and the features of the current position: the inputs of three layers of the model,
 * one after the other.
 *
 *     x = fc f + own, n = rms(x; hidden_norm), both = (rms(embd[id_{t+1}]; attn_norm) | n)
 *     one Llama layer on x, or on n if norm_before_residual is set; its attention reads `both`
 *     logits = output . rms(x; output_norm) predict id_{t+2}, as numbers of the draft's tokens
 *
 * A row of hidden_in is (f | own). For the model's tokens own is 0; for a token that the draft
 * itself proposed, f is 0 and own is the layer's output (the residual before the last norm) at the
 * position before it. One graph thus serves both, at the price of a product with zeros. */
#include "models/block.h"

/* Returns x, the sum of the reduced features and of the draft's own hidden state. */
static gr_reg fused_input(struct build *b) {
    static const struct norm_spec before = {NORM_RMS, "enc.output_norm"};
    const int64_t *d = b->h->d;
    gr_reg f = block_columns(b, b->g->hidden_in, 0, d[HD_FEATURES]);
    if (d[HD_NORM_FC]) f = block_norm_after(b, &before, f);
    const gr_reg x = block_matmul(b, "fc", f);
    block_give(b, f);
    block_add(b, x, block_columns(b, b->g->hidden_in, d[HD_FEATURES], d[HD_EMBD]));
    return x;
}

/* Returns the input of the layer's attention, and sets the residual. */
static gr_reg both_normed(struct build *b, gr_reg e, gr_reg x) {
    static const struct norm_spec of_embd = {NORM_RMS, "attn_norm"},
                                  of_hidden = {NORM_RMS, "attn_norm_2"};
    const gr_reg en = block_norm(b, &of_embd, e), xn = block_norm(b, &of_hidden, x);
    const gr_reg both = block_take(b, b->h->d[HD_EMBD2]);
    struct gr_node *n = graph_node(b->g, OP_CONCAT, b->layer);
    n->dst = both;
    n->src[0] = en;
    n->src[1] = xn;
    b->g->residual = b->h->d[HD_NORM_RESIDUAL] ? xn : x;
    block_give(b, en);
    block_give(b, b->h->d[HD_NORM_RESIDUAL] ? x : xn);
    return both;
}

/* Appends the layer: attention on `both`, then the feed-forward. */
static void eagle_layer(struct build *b, gr_reg both) {
    static const struct attn_spec attn = {.rope = {ROPE_PAIRS, SCALING_MODEL}};
    static const struct ffn_spec ffn = {.act = ACT_SWIGLU};
    static const struct norm_spec before_ffn = {NORM_RMS, "ffn_norm"};
    block_add(b, b->g->residual, block_attn(b, &attn, both));
    const gr_reg in = block_norm(b, &before_ffn, b->g->residual);
    block_add(b, b->g->residual, block_ffn(b, &ffn, in));
    block_give(b, in);
    b->g->hidden_nodes[0] = b->g->n_nodes - 1;
}

int block_eagle3(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e) {
    static const struct norm_spec last = {NORM_RMS, "output_norm"};
    struct build b = {.arch = a,
                      .h = h,
                      .g = g,
                      .layer = -1,
                      .freqs = GR_NONE,
                      .far = GR_NONE,
                      .keys = GR_NONE,
                      .extra = GR_NONE};
    block_rope_base(a, h, g);
    g->hidden_in = graph_reg(g, h->d[HD_FEATURES] + h->d[HD_EMBD]);
    if (h->d[HD_FREQS]) b.freqs = block_weight(&b, "rope_freqs.weight");
    const gr_reg embd = block_take(&b, h->d[HD_EMBD]);
    block_embed(&b, block_weight(&b, "token_embd.weight"), embd, 1);
    const gr_reg x = fused_input(&b);
    b.layer = 0;
    const gr_reg both = both_normed(&b, embd, x);
    block_give(&b, embd);
    eagle_layer(&b, both);
    block_give(&b, both);
    b.layer = -1;
    g->hidden_out = block_norm(&b, &last, g->residual);
    g->hidden_nodes[1] = g->n_nodes - 1;
    g->output = block_weight(&b, "output.weight");
    return b.missing ? err_set(e, ERR_DATA, "%s: the graph uses %s, which its table lacks", a->name,
                               b.missing)
                     : 0;
}
