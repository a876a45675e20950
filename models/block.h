// SPDX-License-Identifier: MIT
/* models/block.h - builders for fragments of forward graphs, driven by specs (models/spec.h).
 *
 * Each block_* appends the nodes of one part of a block: it reads a normalised input register and
 * returns a new register, which the caller releases with block_give. Weight names and shapes come
 * from the architecture's tensor rows, so the graph cannot contradict the table. Registers are
 * pooled by width, so that a model needs no more registers than one of its blocks. */
#ifndef HONE_MODELS_BLOCK_H
#define HONE_MODELS_BLOCK_H

#include "models/spec.h"

enum { BUILD_MAX_FREE = 64 };
struct build {
    const struct arch *arch;
    const struct hparams *h;
    struct graph *g;
    int layer;  /* current block; -1: outside blocks */
    gr_w freqs; /* divisors of rotary angles; GR_NONE: none */
    gr_w far;   /* divisors for long contexts, if different */
    gr_reg free[BUILD_MAX_FREE];
    int n_free;
    int slot[HP_MAX_LAYERS]; /* cache slot of each layer with its own keys */
    gr_reg streams;          /* all residual streams, concatenated, in models with several */
    gr_reg keys;             /* positions of keys selected by the last indexer; GR_NONE: none */
    gr_reg extra;            /* set by decoder_spec.start, read by all layers; else GR_NONE */
    const char *missing; /* weight name missing from the table (a bug); block_decoder reports it */
};

/* Returns a free register of this width, or a new one. */
gr_reg block_take(struct build *b, int64_t width);
/* Returns a register to the free list of block_take(); r may be GR_NONE. */
void block_give(struct build *b, gr_reg r);
/* Returns the weight "blk.<layer>.<name>", or `name` itself if the layer is -1. If the table lacks
 * the name, records it in b->missing and returns GR_NONE. */
gr_w block_weight(struct build *b, const char *name);
/* Returns whether the table has a row with that name for the layer. */
bool block_has(const struct build *b, const char *name);
/* Returns the weight with that name; GR_NONE if the table has no such row. */
gr_w block_weight_if(struct build *b, const char *name);
/* Returns a new register with <name>.weight . in + <name>.bias; the bias is optional. */
gr_reg block_matmul(struct build *b, const char *name, gr_reg in);
/* Returns a new register with the norm of `in`, over its full width. */
gr_reg block_norm(struct build *b, const struct norm_spec *n, gr_reg in);
/* Adds an RMS norm with weight w (GR_NONE: without) and returns its new register. */
gr_reg block_rms_by(struct build *b, gr_w w, gr_reg in);
/* Like block_norm, but also releases `in`. NORM_NONE: returns `in`. */
gr_reg block_norm_after(struct build *b, const struct norm_spec *n, gr_reg in);
/* Sets dst to the norm of each head of head_dim values of src, which may be dst. */
void block_norm_heads(struct build *b, const struct norm_spec *n, gr_reg dst, gr_reg src,
                      int64_t head_dim);
/* Multiplies register r by a constant. */
void block_scale(struct build *b, gr_reg r, double by);
/* Adds register `by` to r and releases `by`. */
void block_add(struct build *b, gr_reg r, gr_reg by);
/* Sets dst to the token's row of weight w, times `by` (1: unscaled); returns w. */
gr_w block_embed(struct build *b, gr_w w, gr_reg dst, double by);

/* Adds attention of the current layer and returns its output. */
gr_reg block_attn(struct build *b, const struct attn_spec *s, gr_reg in);
/* Appends the end of an indexer, whose nodes began when the caller set graph.selecting: RoPE of its
 * queries and its key, and the selection (b->keys). w: weights of its heads, or GR_NONE. Releases
 * all three. */
void block_select(struct build *b, const struct rope_spec *rope, gr_reg q, gr_reg k, gr_reg w);
/* Returns the output of latent attention (attn_spec.latent) in a new register. */
gr_reg block_latent(struct build *b, const struct attn_spec *s, gr_reg in);
/* Adds a gated delta-rule mixer and returns its output. */
gr_reg block_delta(struct build *b, gr_reg in);
/* Return the output of a mixer in a new register (block_ssm.c): short convolution, Mamba 1, Mamba
 * 2, Kimi delta attention. */
gr_reg block_conv(struct build *b, gr_reg in);
/* Adds a Mamba mixer and returns its output. */
gr_reg block_mamba1(struct build *b, gr_reg in);
/* Adds a Mamba 2 mixer and returns its output. */
gr_reg block_mamba2(struct build *b, gr_reg in);
/* Adds a Kimi delta attention mixer and returns its output. */
gr_reg block_kda(struct build *b, gr_reg in);
/* Replaces u with silu(causal convolution of u); the slot keeps the convolution's tail. */
void block_conv_silu(struct build *b, gr_reg u, int slot);
/* Returns a new register with `width` columns of r, starting at `offset`. */
gr_reg block_columns(struct build *b, gr_reg r, int64_t offset, int64_t width);
/* Applies RoPE: rotates n_rot values of each head of r (head_dim values each) by the token's
 * position. */
void block_rope(struct build *b, const struct rope_spec *s, gr_reg r, int64_t head_dim,
                int64_t n_rot);
/* Scales queries q by a factor that grows with the token's position; by->scale 0: does nothing. */
void block_temper(struct build *b, const struct gr_temper *by, gr_reg q);
/* Returns the output of the dense feed-forward, down(act(gate in, up in)), in a new register. */
gr_reg block_ffn(struct build *b, const struct ffn_spec *s, gr_reg in);
/* Returns the sum of the routed experts' outputs, plus the shared expert's if the table has one, in
 * a new register. */
gr_reg block_moe(struct build *b, const struct ffn_spec *s, gr_reg in);
/* Returns the sum of the routed experts' outputs alone; the router reads router_in. */
gr_reg block_experts(struct build *b, const struct ffn_spec *s, gr_reg in, gr_reg router_in);
/* Sets gate to act(gate) times the columns of `up` that start at `offset`; if up is GR_NONE, to
 * act(gate). */
void block_gate(struct build *b, enum act act, gr_reg gate, gr_reg up, int64_t offset);

/* Clamps register r to [-by, by]. */
void block_clamp(struct build *b, gr_reg r, double by);
/* Multiplies dst by f of `by`. If dst is n times as wide as `by`, each value of `by` applies to n
 * adjacent values of dst. */
void block_mul(struct build *b, enum gr_factor f, gr_reg dst, gr_reg by);

/* Appends one layer, which reads the residual and adds to it. */
int block_layer(struct build *b, struct err *e);
/* Sets the RoPE parameters that apply to the whole graph. */
void block_rope_base(const struct arch *a, const struct hparams *h, struct graph *g);
/* Builds a model's forward graph: embeddings, all layers, the final norm, the head. */
int block_decoder(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);
/* Builds the graph of the MTP block (block_mtp.c). ERR_DATA: the model has none. */
int block_draft(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);
/* Builds the graph of an EAGLE-3 draft (block_eagle.c). */
int block_eagle3(const struct arch *a, const struct hparams *h, struct graph *g, struct err *e);

#endif
