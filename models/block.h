// SPDX-License-Identifier: MIT
/* models/block.h - fragments of forward graphs, built from specs (models/spec.h).
 *
 * Each block_* appends the nodes of one piece of a block: from a normalised input register to a new
 * register that the caller gives back. Weight names and shapes come from the architecture's tensor
 * rows, so the graph cannot disagree with the table. Registers are taken and given back by width: a
 * model of any depth uses those of one block. */
#ifndef HONE_MODELS_BLOCK_H
#define HONE_MODELS_BLOCK_H

#include "models/spec.h"

enum { BUILD_MAX_FREE = 64 };
struct build {
    const struct arch *arch;
    const struct hparams *h;
    struct graph *g;
    int layer;  /* current block, -1 outside */
    gr_w freqs; /* divisors of rotary angles, GR_NONE without */
    gr_w far;   /* those of long contexts, where they differ */
    gr_reg free[BUILD_MAX_FREE];
    int n_free;
    int slot[HP_MAX_LAYERS]; /* cache slot of a layer that has keys of its own */
    gr_reg streams;          /* of models with several residuals, side by side */
    gr_reg extra;        /* a register that all layers read, for decoder_spec.start; else GR_NONE */
    const char *missing; /* a weight name the table lacks: our bug, reported by block_decoder */
};

gr_reg block_take(struct build *b, int64_t width);
void block_give(struct build *b, gr_reg r);
/* Weight "blk.<layer>.<name>", or `name` itself when layer is -1. */
gr_w block_weight(struct build *b, const char *name);
/* Whether the table has a row of it for the layer. */
bool block_has(const struct build *b, const char *name);
/* The weight, GR_NONE where the table has no such row. */
gr_w block_weight_if(struct build *b, const char *name);
/* Returns a register with <name>.weight . in + <name>.bias, the bias where the table has one. */
gr_reg block_matmul(struct build *b, const char *name, gr_reg in);
/* Returns a new register with the norm of all of `in`. */
gr_reg block_norm(struct build *b, const struct norm_spec *n, gr_reg in);
gr_reg block_rms_by(struct build *b, gr_w w, gr_reg in);
/* The same; in is given back. NORM_NONE: returns in. */
gr_reg block_norm_after(struct build *b, const struct norm_spec *n, gr_reg in);
/* dst = norm of each head of head_dim values of src, which may be dst. */
void block_norm_heads(struct build *b, const struct norm_spec *n, gr_reg dst, gr_reg src,
                      int64_t head_dim);
/* r *= by */
void block_scale(struct build *b, gr_reg r, double by);
/* r += by, which is given back */
void block_add(struct build *b, gr_reg r, gr_reg by);
/* The token's row of weight `name` times `by` (1: as it is) in dst; returns the weight. */
gr_w block_embed(struct build *b, gr_w w, gr_reg dst, double by);

gr_reg block_attn(struct build *b, const struct attn_spec *s, gr_reg in);
/* The same for layers whose spec is latent. */
gr_reg block_latent(struct build *b, const struct attn_spec *s, gr_reg in);
gr_reg block_delta(struct build *b, gr_reg in);
/* block_ssm.c */
gr_reg block_conv(struct build *b, gr_reg in);
gr_reg block_mamba1(struct build *b, gr_reg in);
gr_reg block_mamba2(struct build *b, gr_reg in);
gr_reg block_kda(struct build *b, gr_reg in);
/* In place: u = silu(causal convolution of u), its tail in the slot. */
void block_conv_silu(struct build *b, gr_reg u, int slot);
/* A register with `width` columns of r from `offset` on. */
gr_reg block_columns(struct build *b, gr_reg r, int64_t offset, int64_t width);
/* r, of heads of head_dim values, is turned by its tokens' positions: n_rot values of each. */
void block_rope(struct build *b, const struct rope_spec *s, gr_reg r, int64_t head_dim,
                int64_t n_rot);
/* q grows with its tokens' positions; scale 0: it does not. */
void block_temper(struct build *b, const struct gr_temper *by, gr_reg q);
/* Dense: down(act(gate in, up in)). */
gr_reg block_ffn(struct build *b, const struct ffn_spec *s, gr_reg in);
/* Routed experts, and a shared one where the table has it. */
gr_reg block_moe(struct build *b, const struct ffn_spec *s, gr_reg in);
/* The routed experts alone; the router reads router_in. */
gr_reg block_experts(struct build *b, const struct ffn_spec *s, gr_reg in, gr_reg router_in);
/* gate = act(gate) * the columns of `up` from `offset` on; act(gate) alone where up is GR_NONE */
void block_gate(struct build *b, enum act act, gr_reg gate, gr_reg up, int64_t offset);

/* One layer on the residual. */
int block_layer(struct build *b, struct err *e);
/* Graph-wide numbers of rope. */
void block_rope_base(const struct arch *a, const struct hparams *h, struct graph *g);
/* Embeddings, all layers, final norm, head. */
int block_decoder(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);
/* The MTP block (block_mtp.c). ERR_DATA when the model has none. */
int block_draft(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);

#endif
