// SPDX-License-Identifier: MIT
/* models/gemma4_graph.c - graph fragments specific to Gemma 4:
 *
 *   MoE: f = rms(ffn(rms(x))) + rms(experts(x)), in place of ffn(rms(x))
 *   E models, after the feed-forward: x += rms(proj(gelu(gate x) * ple[layer]))
 *   all, at the end: x *= scale of the layer
 *
 * where ple are the token's embeddings for all layers. */
#include "models/gemma4.h"

#include <math.h>

#include "models/block.h"

static const struct norm_spec ffn_norm = {NORM_RMS, "ffn_norm"},
                              dense_norm = {NORM_RMS, "post_ffw_norm_1"},
                              experts_norm = {NORM_RMS, "post_ffw_norm_2"},
                              experts_in = {NORM_RMS, "pre_ffw_norm_2"},
                              ple_norm = {NORM_RMS, "per_layer_proj_norm"},
                              ple_after = {NORM_RMS, "post_norm"};

/* Computes the experts. The router and the experts read the residual through separate norms. */
static gr_reg experts(struct build *b, const struct ffn_spec *s) {
    const gr_reg x = b->g->residual;
    gr_reg u = block_rms_by(b, block_weight(b, "ffn_gate_inp.scale"), x);
    block_scale(b, u, 1 / sqrt((double)b->h->d[HD_EMBD]));
    gr_reg z = block_norm(b, &experts_in, x);
    gr_reg out = block_experts(b, s, z, u);
    block_give(b, u);
    block_give(b, z);
    return out;
}

gr_reg gemma4_ffn(struct build *b, const struct block_spec *s) {
    gr_reg h = block_norm(b, &ffn_norm, b->g->residual);
    gr_reg f = block_ffn(b, &s->ffn, h);
    block_give(b, h);
    if (!b->h->d[HD_EXPERTS]) return f;
    f = block_norm_after(b, &dense_norm, f);
    block_add(b, f, block_norm_after(b, &experts_norm, experts(b, &s->ffn)));
    return f;
}

/* Adds the layer's own input embedding to the residual. */
static void per_layer_input(struct build *b) {
    gr_reg gate = block_matmul(b, "inp_gate", b->g->residual);
    block_gate(b, ACT_GEGLU, gate, b->extra, b->layer * b->h->d[HD_PLE]);
    gr_reg out = block_matmul(b, "proj", gate);
    block_give(b, gate);
    block_add(b, b->g->residual, block_norm_after(b, &ple_after, out));
}

void gemma4_more(struct build *b) {
    if (b->extra != GR_NONE) per_layer_input(b);
    const gr_w by = block_weight(b, "layer_output_scale.weight");
    block_scale(b, b->g->residual, 0);
    b->g->node[b->g->n_nodes - 1].scale.number = by;
}

/* Computes the token's contribution to each layer: (rms(proj x0 / sqrt(d)) + token rows *
 * sqrt(width)) / sqrt(2). */
void gemma4_start(struct build *b) {
    const int64_t *d = b->h->d;
    if (!d[HD_PLE]) return;
    gr_reg t = block_take(b, d[HD_PLE_ALL]);
    block_embed(b, block_weight(b, "per_layer_token_embd.weight"), t, sqrt((double)d[HD_PLE]));
    b->extra = block_matmul(b, "per_layer_model_proj", b->g->residual);
    block_scale(b, b->extra, 1 / sqrt((double)d[HD_EMBD]));
    block_norm_heads(b, &ple_norm, b->extra, b->extra, d[HD_PLE]);
    block_add(b, b->extra, t);
    block_scale(b, b->extra, sqrt(0.5));
}
