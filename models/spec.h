// SPDX-License-Identifier: MIT
/* models/spec.h - declarative description of an architecture's computation: norms, attention,
 * router, feed-forward, and how they form blocks and a decoder. models/block*.c turn a spec into
 * graph nodes.
 *
 * Three kinds of facts are defined elsewhere:
 * - parameters of a layer (heads, window, RoPE base, kind of mixer and feed-forward) in struct
 * layer_hp;
 * - the existence of a weight in the architecture's tensor rows. A product has a bias if there is a
 *   row for it; q, k and v come from one product if there is a row of attn_qkv; the first half of
 *   ffn_up is the gate if there is no ffn_gate; a norm of q and k spans one head or all heads
 *   according to the width of its row; attention sinks, the router's selection bias and the
 *   experts' biases exist if they have rows;
 * - norms that checkpoints store as w and apply as 1 + w are written as 1 + w by conversion.
 *
 * spec_check refuses specs with features that no graph implements yet, and names the feature. */
#ifndef HONE_MODELS_SPEC_H
#define HONE_MODELS_SPEC_H

#include "models/arch.h"
#include "models/graph.h"

struct build; /* models/block.h */

/* ---- norms ---- */

enum norm_kind {
    NORM_NONE,
    NORM_RMS,  /* x / sqrt(mean(x^2) + eps) * w */
    NORM_LAYER /* (x - mean) / sqrt(variance + eps) * w + b; b if the table has it */
};
struct norm_spec {
    enum norm_kind kind;
    const char *name; /* name of its weight without ".weight"; NULL: weights of 1 */
};

/* ---- attention ---- */

enum rope_kind {
    ROPE_NONE,
    ROPE_HALVES, /* pair j is (j, j + n_rot/2) */
    ROPE_PAIRS   /* pair j is (2j, 2j + 1) */
};
enum rope_scaling {
    SCALING_MODEL, /* by the model's keys and rope_freqs.weight */
    SCALING_FULL   /* SCALING_MODEL in layers without a window, plain RoPE in all others */
};
struct rope_spec {
    enum rope_kind kind;
    enum rope_scaling scaling;
};

enum attn_gate {
    GATE_NONE,
    GATE_IN_Q,    /* attn_q holds a query and a gate per head; output times sigmoid(gate) */
    GATE_ELEMENT, /* output times sigmoid(attn_gate x), elementwise */
    GATE_HEAD,    /* the same with one number per head */
    GATE_SOFTPLUS /* softplus instead of sigmoid */
};
struct attn_spec {
    struct norm_spec q_norm, k_norm; /* NORM_NONE: no norm of queries and keys */
    bool norm_after_rope;
    struct norm_spec out_norm; /* norm of the heads' outputs, before attn_output; NORM_NONE: none */
    bool value_norm;           /* RMS norm of values, per head, weights of 1 */
    struct rope_spec rope;
    enum attn_gate gate;
    double scale; /* factor of scores; 0: the model's HF_ATTN_SCALE, or 1 / sqrt(head_dim) */
    double
        /* Scores become softcap * tanh(scores / softcap); 0: HF_ATTN_SOFTCAP, or none. */
        softcap;
    bool chunked; /* the window is the query's aligned block of `window` positions */
    bool whole;   /* a token of an image also sees the image's later tokens */
    /* Queries are scaled by the logarithm of their position (OP_TEMPER). scale 0: use HF_TEMPER and
     * HD_TEMPER_STEP, if set. */
    struct gr_temper temper;
    bool latent; /* keys and values come from one low-rank row per token (MLA: block_latent.c) */
    /* RoPE of the indexer that selects keys, if the model has one (HD_INDEXED). */
    struct rope_spec index_rope;
};

/* ---- feed-forward ---- */

enum act {
    ACT_SWIGLU,      /* silu(gate) * up */
    ACT_GEGLU,       /* gelu(gate) * up, with the tanh form of gelu */
    ACT_GEGLU_ERF,   /* the same with exact gelu */
    ACT_RELU2_GATED, /* max(0, gate)^2 * up */
    ACT_SWIGLU_OAI,  /* clamped: g = min(gate, limit); g * sigmoid(alpha g) * (clamp(up) + 1) */
    ACT_GELU,        /* without a gate, like those below: gelu(up), tanh form */
    ACT_GELU_ERF,
    ACT_RELU2, /* max(0, up)^2 */
    ACT_XIELU, /* with parameters of the layer (struct layer_hp) */
    ACT_COUNT
};
enum router_score {
    SCORE_SOFTMAX,        /* softmax of the router's logits */
    SCORE_SIGMOID,        /* sigmoids of the logits */
    SCORE_SOFTMAX_CHOSEN, /* selection by logits; softmax over the selected ones */
    SCORE_SQRT_SOFTPLUS,
    SCORE_MIXER /* sparse mixer: GR_MIXER with `margin` */
};
struct router_spec {
    enum router_score score;
    bool keep;           /* weights are not divided by their sum */
    bool norm_key;       /* the same, but only if the model's HD_NORM_TOPK is 0 */
    int64_t groups, top; /* number of expert groups; only the `top` best are eligible; 0: none */
    double scale;        /* factor of the weights; 0: 1 */
    double margin;       /* for SCORE_MIXER */
    bool input_scaled;   /* the weight scales the expert's input, not its output */
};
struct ffn_spec {
    enum act act;
    bool mean_shared;          /* the sum of routed and shared experts is halved */
    struct norm_spec mid_norm; /* norm of ffn_down's input in dense layers; NORM_NONE: none */
    struct router_spec router; /* for layers with experts */
};

/* ---- blocks and decoders ---- */

/* x += s * after_mix(mixer(before_mix(x))), x += s * after_ffn(ffn(before_ffn(x))), where s is
 * HF_RESIDUAL_SCALE. A half without a norm before it reads x itself. */
struct block_spec {
    struct norm_spec before_mix, after_mix, before_ffn, after_ffn;
    double after_eps;      /* eps of after_mix and after_ffn; 0: the model's */
    struct attn_spec attn; /* for layers with an attention mixer */
    struct ffn_spec ffn;
    /* Both halves read the block's input; without before_ffn the feed-forward reads the mixer's
     * input. */
    bool parallel;
    /* Replaces the feed-forward and its norms: reads the residual and returns the register to add
     * to it. */
    gr_reg (*own_ffn)(struct build *b, const struct block_spec *s);
    /* Appends the rest of the block; NULL: none. */
    void (*more)(struct build *b);
};
/* The usual RMS norms: before each half, after each half, and of queries and keys. */
#define PRE_NORMS .before_mix = {NORM_RMS, "attn_norm"}, .before_ffn = {NORM_RMS, "ffn_norm"}
#define POST_NORMS                                                                                 \
    .after_mix = {NORM_RMS, "post_attention_norm"}, .after_ffn = {NORM_RMS, "post_ffw_norm"}
#define QK_NORMS .q_norm = {NORM_RMS, "attn_q_norm"}, .k_norm = {NORM_RMS, "attn_k_norm"}

enum rope_sections {
    SECTIONS_NONE,   /* one position per token */
    SECTIONS_BLOCKS, /* adjacent pairs */
    SECTIONS_MIXED   /* every third pair */
};
struct decoder_spec {
    struct block_spec block;
    /* Adjusts the spec for one layer; NULL: none. */
    void (*layer)(const struct hparams *h, int layer, struct block_spec *s);
    struct norm_spec norm; /* final norm; NORM_NONE means {NORM_RMS, "output_norm"} */
    bool embd_sqrt;        /* multiply embeddings by sqrt(embd), otherwise by HF_EMBD_SCALE */
    bool logits_divided;   /* divide logits by HF_LOGIT_SCALE, otherwise multiply */
    bool scales_images;    /* the scale of embeddings also applies to rows of images */
    /* How HD_ROPE_SEC0.. divides the rotary pairs among the three positions of an image's tokens.
     */
    enum rope_sections sections;
    /* Append nodes between the embeddings and the blocks, and after the blocks; NULL: none. */
    void (*start)(struct build *b);
    void (*end)(struct build *b);
    /* Builds the whole block, replacing the mixer, the feed-forward and their sums; NULL: the usual
     * block. */
    void (*whole)(struct build *b, const struct block_spec *s);
};

/* Returns ERR_DATA and names the feature if a layer uses one that hone does not support. */
int spec_check(const struct arch *a, const struct hparams *h, int layer, const struct block_spec *s,
               struct err *e);

#endif
