// SPDX-License-Identifier: MIT
/* models/block_mtp.c - graph of the multi-token prediction (MTP) block. It predicts the token after
 * the next one from the next token and the hidden state (after the final norm) at the current
 * position.
 *
 *     e = rms(embd[id_{t+1}]; enorm), q = rms(y_t; hnorm), x = eh_proj (e | q)
 *     one full-attention block of the model on x, with its own keys and values
 *     logits = head . rms(x; shared_head_norm) predict id_{t+2}
 *
 * If the file has no separate embeddings, norm or head for the block, the trunk's are used. */
#include "models/block.h"

/* Returns the block's own weight `own`. The weight `global` replaces it at load time if the file
 * lacks it. */
static gr_w own_or(struct build *b, const char *own, const char *global) {
    int layer = b->layer;
    b->layer = -1;
    gr_w g = block_weight(b, global);
    b->layer = layer;
    gr_w w = block_weight(b, own);
    if (w != GR_NONE) b->g->weight[w].optional_of = g;
    return w;
}

/* Returns eh_proj times the concatenation of the normalised embedding and hidden state. */
static gr_reg joined(struct build *b, gr_w embd) {
    struct graph *g = b->g;
    int64_t d = b->h->d[HD_EMBD];
    g->hidden_in = graph_reg(g, d);
    gr_reg e = block_take(b, d);
    const struct norm_spec enorm = {NORM_RMS, "nextn.enorm"}, hnorm = {NORM_RMS, "nextn.hnorm"};
    block_embed(b, embd, e, 1);
    gr_reg en = block_norm(b, &enorm, e);
    gr_reg hn = block_norm(b, &hnorm, g->hidden_in);
    gr_reg both = block_take(b, 2 * d);
    struct gr_node *n = graph_node(g, OP_CONCAT, b->layer);
    n->dst = both;
    n->src[0] = en;
    n->src[1] = hn;
    gr_reg x = block_matmul(b, "nextn.eh_proj", both);
    block_give(b, e);
    block_give(b, en);
    block_give(b, hn);
    block_give(b, both);
    return x;
}

int block_draft(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e) {
    struct build b = {.arch = a,
                      .h = h,
                      .g = g,
                      .layer = (int)h->d[HD_LAYERS],
                      .freqs = GR_NONE,
                      .far = GR_NONE,
                      .keys = GR_NONE,
                      .extra = GR_NONE};
    if (h->d[HD_MTP] < 1) return err_set(e, ERR_DATA, "the model has no MTP block");
    block_rope_base(a, h, g);
    gr_w embd = own_or(&b, "nextn.embed_tokens.weight", "token_embd.weight");
    g->residual = joined(&b, embd);
    TRY(block_layer(&b, e));
    gr_w norm = own_or(&b, "nextn.shared_head_norm.weight", "output_norm.weight");
    g->hidden_out = block_rms_by(&b, norm, g->residual);
    gr_w head = g->output = own_or(&b, "nextn.shared_head_head.weight", "output.weight");
    if (b.missing || head == GR_NONE)
        return err_set(e, ERR_DATA, "%s: the draft graph uses %s, which its table lacks", a->name,
                       b.missing ? b.missing : "a head");
    g->weight[g->weight[head].optional_of].optional_of = g->weight[embd].optional_of;
    return 0;
}
