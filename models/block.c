// SPDX-License-Identifier: MIT
/* models/block.c - graph fragments common to all architectures: registers pooled by width, weights
 * looked up in the tensor rows, products, norms, sums; and the block and decoder built from
 * them. */
#include "models/block.h"

#include <math.h>
#include <stdio.h>

/* ---- registers and weights ---- */

gr_reg block_take(struct build *b, int64_t width) {
    for (int i = 0; i < b->n_free; i++)
        if (b->g->reg_width[b->free[i]] == width) {
            gr_reg r = b->free[i];
            b->free[i] = b->free[--b->n_free];
            return r;
        }
    return graph_reg(b->g, width);
}

void block_give(struct build *b, gr_reg r) {
    if (r != GR_NONE && b->n_free < BUILD_MAX_FREE) b->free[b->n_free++] = r;
}

/* Returns the table's row for a weight of the current layer, and writes the weight's name to
 * `full`. */
static const struct tensor_row *row_of(const struct build *b, const char *name, char full[64],
                                       int *block) {
    if (b->layer < 0)
        snprintf(full, 64, "%s", name);
    else
        snprintf(full, 64, "blk.%d.%s", b->layer, name);
    return arch_row_of(b->arch, b->h, full, block);
}

bool block_has(const struct build *b, const char *name) {
    char full[64];
    int block;
    return row_of(b, name, full, &block) != NULL;
}

gr_w block_weight_if(struct build *b, const char *name) {
    char full[64];
    int block;
    const struct tensor_row *row = row_of(b, name, full, &block);
    if (!row) return GR_NONE;
    int64_t ne[4];
    arch_shape(row, b->h, block, ne);
    return graph_weight(b->g, full, 0, ne[0], ne[1], ne[2]);
}

gr_w block_weight(struct build *b, const char *name) {
    gr_w w = block_weight_if(b, name);
    if (w == GR_NONE) b->missing = name;
    return w;
}

/* Returns the weight <name><tail>; GR_NONE if the table lacks it, which is recorded as an error if
 * it is `needed`. */
static gr_w weight_of(struct build *b, const char *name, const char *tail, bool needed) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", name, tail);
    gr_w w = block_weight_if(b, full);
    if (w == GR_NONE && needed) b->missing = name;
    return w;
}

/* ---- products, norms, sums ---- */

gr_reg block_matmul(struct build *b, const char *name, gr_reg in) {
    gr_w w = weight_of(b, name, ".weight", true);
    if (w == GR_NONE) return in;
    gr_reg out = block_take(b, b->g->weight[w].ne[1]);
    struct gr_node *n = graph_node(b->g, OP_MATMUL, b->layer);
    n->dst = out;
    n->src[0] = in;
    n->product.matrix = w;
    w = weight_of(b, name, ".bias", false);
    if (w == GR_NONE) return out;
    n = graph_node(b->g, OP_BIAS, b->layer);
    n->dst = n->src[0] = out;
    n->bias.values = w;
    return out;
}

gr_reg block_rms_by(struct build *b, gr_w w, gr_reg in) {
    gr_reg out = block_take(b, b->g->reg_width[in]);
    struct gr_node *n = graph_node(b->g, OP_RMS, b->layer);
    n->dst = out;
    n->src[0] = in;
    n->norm.weight = w;
    n->norm.eps = (float)b->h->f[HF_RMS_EPS];
    return out;
}

/* Appends dst = norm of each head_dim values of src (0: of all values). If the weight is wider than
 * a head, an RMS norm covers all heads together, and a LayerNorm applies to each head its own part
 * of the weight. */
static void append_norm(struct build *b, const struct norm_spec *s, gr_reg dst, gr_reg src,
                        int64_t head_dim) {
    gr_w w = s->name && block_has(b, s->name) ? block_weight(b, s->name) : GR_NONE; /* Falcon-H1 */
    if (s->name && w == GR_NONE) w = weight_of(b, s->name, ".weight", true);
    const gr_w bias = s->name ? weight_of(b, s->name, ".bias", false) : GR_NONE;
    if (s->kind == NORM_RMS && w != GR_NONE && b->g->weight[w].ne[0] != head_dim) head_dim = 0;
    const enum gr_op op = s->kind == NORM_LAYER ? OP_LAYER_NORM : head_dim ? OP_RMS_HEADS : OP_RMS;
    struct gr_node *n = graph_node(b->g, op, b->layer);
    n->dst = dst;
    n->src[0] = src;
    n->norm = (struct gr_norm){w, bias, head_dim, (float)b->h->f[HF_RMS_EPS]};
}

gr_reg block_norm(struct build *b, const struct norm_spec *s, gr_reg in) {
    gr_reg out = block_take(b, b->g->reg_width[in]);
    append_norm(b, s, out, in, 0);
    return out;
}

gr_reg block_norm_after(struct build *b, const struct norm_spec *s, gr_reg in) {
    if (s->kind == NORM_NONE) return in;
    gr_reg out = block_norm(b, s, in);
    block_give(b, in);
    return out;
}

void block_norm_heads(struct build *b, const struct norm_spec *s, gr_reg dst, gr_reg src,
                      int64_t head_dim) {
    append_norm(b, s, dst, src, head_dim);
}

void block_scale(struct build *b, gr_reg r, double by) {
    struct gr_node *n = graph_node(b->g, OP_SCALE, b->layer);
    n->dst = n->src[0] = r;
    n->scale.by = (float)by;
}

void block_add(struct build *b, gr_reg r, gr_reg by) {
    struct gr_node *n = graph_node(b->g, OP_ADD, b->layer);
    n->dst = n->src[0] = r;
    n->src[1] = by;
    block_give(b, by);
}

gr_w block_embed(struct build *b, gr_w w, gr_reg dst, double by) {
    struct gr_node *n = graph_node(b->g, OP_EMBED, b->layer);
    n->dst = dst;
    n->embed.table = w;
    if (by < 1 || by > 1) n->embed.scale = (float)by;
    return w;
}

/* ---- a block ---- */

/* Adds the layer's mixer: attention or a recurrent one; returns its output. */
static gr_reg add_mixer(struct build *b, const struct block_spec *s, gr_reg in) {
    switch (b->h->layer[b->layer].mixer) {
    case MIX_DELTA:
        return block_delta(b, in);
    case MIX_MAMBA1:
        return block_mamba1(b, in);
    case MIX_MAMBA2:
        return block_mamba2(b, in);
    case MIX_CONV:
        return block_conv(b, in);
    case MIX_BOTH: {
        gr_reg out = block_attn(b, &s->attn, in);
        block_add(b, out, block_mamba2(b, in));
        return out;
    }
    case MIX_KDA:
        return block_kda(b, in);
    case MIX_ATTN:
    case MIX_NONE: /* excluded by in_turn */
    case MIX_COUNT:
        break;
    }
    return s->attn.latent ? block_latent(b, &s->attn, in) : block_attn(b, &s->attn, in);
}

/* Adds the layer's feed-forward part, dense or with experts; returns its output. */
static gr_reg add_feed_forward(struct build *b, const struct block_spec *s, gr_reg in) {
    return b->h->layer[b->layer].ffn == FFN_MOE ? block_moe(b, &s->ffn, in)
                                                : block_ffn(b, &s->ffn, in);
}

/* Returns the input of a half: the normalised residual, or the residual itself if there is no
 * norm. */
static gr_reg half_input(struct build *b, const struct norm_spec *s) {
    return s->kind == NORM_NONE ? b->g->residual : block_norm(b, s, b->g->residual);
}
/* Frees register r for reuse, unless it is the residual. */
static void give_unless_residual(struct build *b, gr_reg r) {
    if (r != b->g->residual) block_give(b, r);
}

/* Returns the contribution of a half to the residual, before its norm and scale. Releases `in`. */
static gr_reg build_half(struct build *b, const struct block_spec *s, gr_reg in, bool mix) {
    gr_reg out = mix ? add_mixer(b, s, in) : add_feed_forward(b, s, in);
    give_unless_residual(b, in);
    return out;
}
/* Adds r, normalized and scaled as the model wants, to the residual; frees r. */
static void add_to_residual(struct build *b, const struct block_spec *s,
                            const struct norm_spec *after, gr_reg r) {
    const double by = b->h->f[HF_RESIDUAL_SCALE];
    r = block_norm_after(b, after, r);
    if (after->kind != NORM_NONE && s->after_eps > 0)
        b->g->node[b->g->n_nodes - 1].norm.eps = (float)s->after_eps;
    if (by > 0) block_scale(b, r, by);
    block_add(b, b->g->residual, r);
}

/* Builds the mixer, then the feed-forward; a layer may lack either. */
static void in_turn(struct build *b, const struct block_spec *s) {
    const struct layer_hp *l = &b->h->layer[b->layer];
    if (l->mixer != MIX_NONE)
        add_to_residual(b, s, &s->after_mix, build_half(b, s, half_input(b, &s->before_mix), true));
    if (l->ffn != FFN_NONE)
        add_to_residual(b, s, &s->after_ffn,
                        s->own_ffn ? s->own_ffn(b, s)
                                   : build_half(b, s, half_input(b, &s->before_ffn), false));
}

/* Builds mixer and feed-forward in parallel: both read the block's input. */
static void side_by_side(struct build *b, const struct block_spec *s) {
    gr_reg h = half_input(b, &s->before_mix), mixed = add_mixer(b, s, h), f;
    if (s->before_ffn.kind)
        f = build_half(b, s, half_input(b, &s->before_ffn), false);
    else
        f = add_feed_forward(b, s, h);
    give_unless_residual(b, h);
    add_to_residual(b, s, &s->after_mix, mixed);
    add_to_residual(b, s, &s->after_ffn, f);
}

/* Overrides the router parameters that the model's keys set. ERR_DATA: a score that no graph
 * implements. */
static int router_of(const struct arch *a, const struct hparams *h, struct router_spec *r,
                     struct err *e) {
    const int64_t score = h->d[HD_SCORE]; /* 0: the spec's */
    if (score < 0 || score > 2)
        return err_set(e, ERR_DATA,
                       "%s.expert_gating_func is %lld, which is not supported: 1 (softmax) and 2 "
                       "(sigmoid) are",
                       a->name, (long long)score);
    if (score) r->score = score == 1 ? SCORE_SOFTMAX : SCORE_SIGMOID;
    if (h->d[HD_GROUPS] > 1) {
        r->groups = h->d[HD_GROUPS];
        r->top = h->d[HD_GROUPS_USED];
    }
    if (r->norm_key) r->keep = !h->d[HD_NORM_TOPK];
    r->scale = h->f[HF_EXPERT_SCALE];
    return 0;
}

int block_layer(struct build *b, struct err *e) {
    const struct decoder_spec *dec = b->arch->decoder;
    struct block_spec s = dec->block;
    if (!(s.attn.softcap > 0)) s.attn.softcap = b->h->f[HF_ATTN_SOFTCAP];
    if (!(s.attn.scale > 0)) s.attn.scale = b->h->f[HF_ATTN_SCALE];
    s.attn.temper =
        (struct gr_temper){.scale = (float)b->h->f[HF_TEMPER], .step = b->h->d[HD_TEMPER_STEP]};
    TRY(router_of(b->arch, b->h, &s.ffn.router, e));
    if (dec->layer) dec->layer(b->h, b->layer, &s);
    TRY(spec_check(b->arch, b->h, b->layer, &s, e));
    if (dec->whole)
        dec->whole(b, &s);
    else if (s.parallel)
        side_by_side(b, &s);
    else
        in_turn(b, &s);
    if (s.more) s.more(b);
    b->g->hidden_nodes[b->layer] = b->g->n_nodes - 1;
    return 0;
}

/* ---- a decoder ---- */

void block_rope_base(const struct arch *a, const struct hparams *h, struct graph *g) {
    g->rope_base = h->f[HF_ROPE_BASE];
    g->rope_m = h->f[HF_ROPE_M];
    const enum rope_sections sections = a->decoder ? a->decoder->sections : SECTIONS_NONE;
    g->mixed_sections = sections == SECTIONS_MIXED;
    for (int i = 0; i < 3 && sections; i++) g->section[i] = h->d[HD_ROPE_SEC0 + i];
    g->yarn = (struct gr_yarn){h->f[HF_YARN_FACTOR], h->f[HF_YARN_ATTN],        h->f[HF_YARN_FAST],
                               h->f[HF_YARN_SLOW],   (double)h->d[HD_YARN_CTX], a->yarn_smooth};
}

/* Returns the factor of the token embeddings; 1 if they are not scaled. */
static double embd_scale(const struct decoder_spec *dec, const struct hparams *h) {
    if (dec->embd_sqrt) return sqrt((double)h->d[HD_EMBD]);
    return h->f[HF_EMBD_SCALE] > 0 ? h->f[HF_EMBD_SCALE] : 1;
}

/* Builds the whole graph. Logits are linear in the input of the head, so their factor is applied
 * there. */
int block_decoder(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e) {
    static const struct norm_spec usual = {NORM_RMS, "output_norm"};
    const struct decoder_spec *dec = a->decoder;
    struct build b = {.arch = a,
                      .h = h,
                      .g = g,
                      .layer = -1,
                      .freqs = GR_NONE,
                      .far = GR_NONE,
                      .keys = GR_NONE,
                      .extra = GR_NONE,
                      .streams = GR_NONE};
    block_rope_base(a, h, g);
    g->softcap = h->f[HF_SOFTCAP];
    g->residual = graph_reg(g, h->d[HD_EMBD]);
    const gr_w embd = block_weight(&b, "token_embd.weight");
    const double logits = h->f[HF_LOGIT_SCALE];
    block_embed(&b, embd, g->residual, embd_scale(dec, h));
    g->node[g->n_nodes - 1].embed.scales_images = dec->scales_images;
    if (h->d[HD_FREQS]) b.freqs = block_weight(&b, "rope_freqs.weight");
    if (h->d[HD_LONG]) {
        b.freqs = block_weight(&b, "rope_factors_short.weight");
        b.far = block_weight(&b, "rope_factors_long.weight");
    }
    if (dec->start) dec->start(&b);
    for (b.layer = 0; b.layer < h->d[HD_LAYERS]; b.layer++) TRY(block_layer(&b, e));
    b.layer = -1;
    if (dec->end) dec->end(&b);
    g->hidden_out = block_norm(
        &b, dec->norm.kind == NORM_NONE || h->d[HD_RMS] ? &usual : &dec->norm, g->residual);
    if (logits > 0) block_scale(&b, g->hidden_out, dec->logits_divided ? 1 / logits : logits);
    g->hidden_nodes[h->d[HD_LAYERS]] = g->n_nodes - 1;
    g->output = block_weight(&b, "output.weight");
    g->head_bias = block_weight_if(&b, "output.bias");
    if (b.missing)
        return err_set(e, ERR_DATA, "%s: the graph uses %s, which its table lacks", a->name,
                       b.missing);
    g->weight[g->output].optional_of = embd;
    return 0;
}
