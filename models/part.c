// SPDX-License-Identifier: MIT
/* models/part.c - what graph fragments share: registers reused by width, weights looked up in the
 * tensor rows, the skeleton of a pre-norm decoder, and the derivations of common dimensions. */
#include "models/part.h"

#include <stdio.h>
#include <string.h>

#include "core/hfdir.h"
#include "core/json.h"

gr_reg part_take(struct build *b, int64_t width) {
    for (int i = 0; i < b->n_free; i++)
        if (b->g->reg_width[b->free[i]] == width) {
            gr_reg r = b->free[i];
            b->free[i] = b->free[--b->n_free];
            return r;
        }
    return graph_reg(b->g, width);
}

void part_give(struct build *b, gr_reg r) {
    if (b->n_free < PART_MAX_FREE) b->free[b->n_free++] = r;
}

gr_w part_weight(struct build *b, const char *name) {
    char full[64];
    if (b->layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%d.%s", b->layer, name);
    int block;
    const struct tensor_row *row = arch_row_of(b->arch, b->h, full, &block);
    if (!row) {
        b->missing = name;
        return GR_NONE;
    }
    int64_t ne[4];
    arch_shape(row, b->h, ne);
    return graph_weight(b->g, full, 0, ne[0], ne[1], ne[2]);
}

gr_reg part_matmul(struct build *b, const char *weight, gr_reg in) {
    gr_w w = part_weight(b, weight);
    if (w == GR_NONE) return in;
    gr_reg out = part_take(b, b->g->weight[w].ne[1]);
    struct gr_node *n = graph_node(b->g, OP_MATMUL, b->layer);
    n->dst = out;
    n->src[0] = in;
    n->w[0] = w;
    return out;
}

gr_reg part_rms(struct build *b, const char *weight, gr_reg in) {
    return part_rms_by(b, part_weight(b, weight), in);
}

gr_reg part_rms_by(struct build *b, gr_w w, gr_reg in) {
    gr_reg out = part_take(b, b->g->reg_width[in]);
    struct gr_node *n = graph_node(b->g, OP_RMS, b->layer);
    n->dst = out;
    n->src[0] = in;
    n->w[0] = w;
    n->eps = (float)b->h->f[HF_RMS_EPS];
    return out;
}

/* residual += add */
static void add_residual(struct build *b, gr_reg add) {
    struct gr_node *n = graph_node(b->g, OP_ADD, b->layer);
    n->dst = n->src[0] = b->g->residual;
    n->src[1] = add;
    part_give(b, add);
}

void part_block(struct build *b, const struct part_blocks *p) {
    struct graph *g = b->g;
    gr_reg h = part_rms(b, "attn_norm.weight", g->residual);
    gr_reg mixed = b->h->recurrent[b->layer] ? p->linear(b, h) : p->full(b, h);
    part_give(b, h);
    add_residual(b, mixed);
    h = part_rms(b, p->ffn_norm, g->residual);
    gr_reg out = p->ffn(b, h);
    part_give(b, h);
    add_residual(b, out);
    g->hidden_nodes[b->layer] = g->n_nodes - 1;
}

void part_rope_base(const struct hparams *h, struct graph *g) {
    g->rope_base = h->f[HF_ROPE_BASE];
    g->yarn = (struct gr_yarn){h->f[HF_YARN_FACTOR], h->f[HF_YARN_ATTN], h->f[HF_YARN_FAST],
                               h->f[HF_YARN_SLOW], (double)h->d[HD_YARN_CTX]};
}

int part_decoder(const struct arch *a, const struct hparams *h, struct graph *g,
                 const struct part_blocks *p, struct err *e) {
    struct build b = {.arch = a, .h = h, .g = g, .layer = -1, .freqs = GR_NONE};
    part_rope_base(h, g);
    g->residual = graph_reg(g, h->d[HD_EMBD]);
    gr_w embd = part_weight(&b, "token_embd.weight");
    if (h->d[HD_FREQS]) b.freqs = part_weight(&b, "rope_freqs.weight");
    struct gr_node *n = graph_node(g, OP_EMBED, -1);
    n->dst = g->residual;
    n->w[0] = embd;
    for (b.layer = 0; b.layer < h->d[HD_LAYERS]; b.layer++) part_block(&b, p);
    b.layer = -1;
    g->hidden_out = part_rms(&b, "output_norm.weight", g->residual);
    g->hidden_nodes[h->d[HD_LAYERS]] = g->n_nodes - 1;
    g->output = part_weight(&b, "output.weight");
    if (b.missing)
        return err_set(e, ERR_DATA, "%s: the graph uses %s, which its table lacks", a->name,
                       b.missing);
    g->weight[g->output].optional_of = embd;
    return 0;
}

int derive_attn(struct hparams *h, int64_t q_factor, struct err *e) {
    int64_t *d = h->d;
    if (!d[HD_KV_HEADS]) d[HD_KV_HEADS] = d[HD_HEADS];
    if (!d[HD_HEAD_DIM]) d[HD_HEAD_DIM] = d[HD_EMBD] / d[HD_HEADS];
    if (!d[HD_ROT]) d[HD_ROT] = d[HD_HEAD_DIM];
    if (d[HD_HEADS] % d[HD_KV_HEADS])
        return err_set(e, ERR_DATA, "%lld attention heads cannot share %lld key/value heads",
                       (long long)d[HD_HEADS], (long long)d[HD_KV_HEADS]);
    if (d[HD_ROT] > d[HD_HEAD_DIM] || d[HD_ROT] % 2)
        return err_set(e, ERR_DATA, "%lld rotated dimensions do not fit heads of %lld",
                       (long long)d[HD_ROT], (long long)d[HD_HEAD_DIM]);
    TRY(hparams_mul(h, HD_ATTN_OUT, d[HD_HEADS], d[HD_HEAD_DIM], e));
    TRY(hparams_mul(h, HD_Q_OUT, d[HD_ATTN_OUT], q_factor, e));
    TRY(hparams_mul(h, HD_KV_OUT, d[HD_KV_HEADS], d[HD_HEAD_DIM], e));
    return hparams_mul(h, HD_EMBD2, 2, d[HD_EMBD], e);
}

int derive_experts(struct hparams *h, struct err *e) {
    if (h->d[HD_EXPERTS_USED] > h->d[HD_EXPERTS])
        return err_set(e, ERR_DATA, "%lld experts are used of only %lld",
                       (long long)h->d[HD_EXPERTS_USED], (long long)h->d[HD_EXPERTS]);
    return hparams_mul(h, HD_FF_EXP2, 2, h->d[HD_FF_EXP], e);
}

/* What a config.json without it would mean. */
static const char *without_rope(const char *type) {
    return strcmp(type, "dynamic") == 0
               ? ": it changes positions beyond the original context length only, so without it "
                 "the model is right up to there"
               : "; leaving it out of config.json would give wrong positions, and no error";
}

int hf_check_rope(const struct hfdir *dir, struct err *e) {
    static const char *const where[] = {"rope_parameters", "rope_scaling"};
    for (int i = 0; i < 2; i++) {
        const struct json *rope = hfdir_hparam(dir, where[i]);
        const char *type = json_str(json_get(rope, "rope_type"));
        if (!type) type = json_str(json_get(rope, "type"));
        if (type && strcmp(type, "default") != 0 && strcmp(type, "mrope") != 0 &&
            strcmp(type, "yarn") != 0)
            return err_set(e, ERR_DATA,
                           "%s asks for rope_type \"%.40s\", which is not computed yet, so this "
                           "model cannot be converted%s",
                           where[i], type, without_rope(type));
    }
    return 0;
}
