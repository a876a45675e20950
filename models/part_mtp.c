// SPDX-License-Identifier: MIT
/* models/part_mtp.c - the graph of the multi-token prediction block: from a token and the hidden
 * row (after the final norm) of the position before it to the token after.
 *
 *     e = rms(embd[id_{t+1}]; enorm), q = rms(y_t; hnorm), x = eh_proj (e | q)
 *     one full-attention block of the model on x, with keys and values of its own
 *     logits = head . rms(x; shared_head_norm) predicts id_{t+2}
 *
 * A file without embeddings, norm or head of the block's own uses the trunk's. */
#include "models/part.h"

/* Weight `own` of the block, or the global one when the file lacks it. */
static gr_w own_or(struct build *b, const char *own, const char *global) {
    int layer = b->layer;
    b->layer = -1;
    gr_w g = part_weight(b, global);
    b->layer = layer;
    gr_w w = part_weight(b, own);
    if (w != GR_NONE) b->g->weight[w].optional_of = g;
    return w;
}

/* eh_proj (embedding | hidden) */
static gr_reg joined(struct build *b, gr_w embd) {
    struct graph *g = b->g;
    int64_t d = b->h->d[HD_EMBD];
    g->hidden_in = graph_reg(g, d);
    gr_reg e = part_take(b, d);
    struct gr_node *n = graph_node(g, OP_EMBED, b->layer);
    n->dst = e;
    n->w[0] = embd;
    gr_reg en = part_rms(b, "nextn.enorm.weight", e);
    gr_reg hn = part_rms(b, "nextn.hnorm.weight", g->hidden_in);
    gr_reg both = part_take(b, 2 * d);
    n = graph_node(g, OP_CONCAT, b->layer);
    n->dst = both;
    n->src[0] = en;
    n->src[1] = hn;
    gr_reg x = part_matmul(b, "nextn.eh_proj.weight", both);
    part_give(b, e);
    part_give(b, en);
    part_give(b, hn);
    part_give(b, both);
    return x;
}

int part_draft(const struct arch *a, const struct hparams *h, struct graph *g,
               const struct part_blocks *p, struct err *e) {
    struct build b = {.arch = a, .h = h, .g = g, .layer = (int)h->d[HD_LAYERS], .freqs = GR_NONE};
    if (h->d[HD_MTP] < 1) return err_set(e, ERR_DATA, "the model has no MTP block");
    part_rope_base(h, g);
    gr_w embd = own_or(&b, "nextn.embed_tokens.weight", "token_embd.weight");
    g->residual = joined(&b, embd);
    part_block(&b, p);
    gr_w norm = own_or(&b, "nextn.shared_head_norm.weight", "output_norm.weight");
    g->hidden_out = part_rms_by(&b, norm, g->residual);
    gr_w head = g->output = own_or(&b, "nextn.shared_head_head.weight", "output.weight");
    if (b.missing || head == GR_NONE)
        return err_set(e, ERR_DATA, "%s: the draft graph uses %s, which its table lacks", a->name,
                       b.missing ? b.missing : "a head");
    g->weight[g->weight[head].optional_of].optional_of = g->weight[embd].optional_of;
    return 0;
}
