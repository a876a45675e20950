// SPDX-License-Identifier: MIT
/* models/part.h - fragments of forward graphs shared by architectures, and the rows their tables
 * share.
 *
 * Each part_* appends the nodes of one piece of a block: from a normalised input register to a new
 * register that the caller adds to the residual. Weight names and shapes come from the
 * architecture's tensor rows, so the graph cannot disagree with the table. Registers are taken and
 * given back by width: a model of any depth uses those of one block. */
#ifndef HONE_MODELS_PART_H
#define HONE_MODELS_PART_H

#include "models/arch.h"
#include "models/graph.h"

enum { PART_MAX_FREE = 64 };
struct build {
    const struct arch *arch;
    const struct hparams *h;
    struct graph *g;
    int layer;  /* current block, -1 outside */
    gr_w freqs; /* divisors of rotary angles (rope_freqs.weight), GR_NONE without */
    gr_reg free[PART_MAX_FREE];
    int n_free;
    const char *missing; /* a weight name the table lacks: our bug, reported by part_decoder */
};

/* A block's mixer or feed-forward: reads register in, returns a register the caller gives back. */
typedef gr_reg (*part_fn)(struct build *b, gr_reg in);

gr_reg part_take(struct build *b, int64_t width);
void part_give(struct build *b, gr_reg r);
/* Weight "blk.<layer>.<name>", or `name` itself when layer is -1. */
gr_w part_weight(struct build *b, const char *name);
gr_reg part_matmul(struct build *b, const char *weight, gr_reg in);
gr_reg part_rms(struct build *b, const char *weight, gr_reg in);
gr_reg part_rms_by(struct build *b, gr_w w, gr_reg in);

enum {
    PART_Q_GATED = 1,  /* attn_q holds query and gate per head */
    PART_NO_NORM = 2,  /* no per-head norms */
    PART_ADJACENT = 4, /* rope turns pairs (2j, 2j + 1) */
    PART_BIAS = 8      /* attn_q, attn_k and attn_v have biases */
};
gr_reg part_attn(struct build *b, gr_reg in, unsigned flags);
gr_reg part_delta(struct build *b, gr_reg in);
gr_reg part_ffn(struct build *b, gr_reg in);        /* dense SwiGLU */
gr_reg part_moe(struct build *b, gr_reg in);        /* routed experts */
gr_reg part_moe_shared(struct build *b, gr_reg in); /* and the gated shared expert */

/* Pre-norm decoder: embed; per block x += mix(rms(x; attn_norm)), x += ffn(rms(x; <ffn_norm>));
 * final norm and head. linear may be NULL when no layer is recurrent. */
struct part_blocks {
    part_fn full, linear, ffn;
    const char *ffn_norm; /* "ffn_norm.weight" */
};
int part_decoder(const struct arch *a, const struct hparams *h, struct graph *g,
                 const struct part_blocks *p, struct err *e);
/* One block on the residual. */
void part_block(struct build *b, const struct part_blocks *p);
/* Graph-wide numbers of rope. */
void part_rope_base(const struct hparams *h, struct graph *g);
/* The MTP block (part_mtp.c). ERR_DATA when the model has none. */
int part_draft(const struct arch *a, const struct hparams *h, struct graph *g,
               const struct part_blocks *p, struct err *e);

// clang-format off
/* "%d" spellings of a layer's tensor in the trunk and in the MTP block. */
#define HF_LAYER(x) "model.layers.%d." x "|mtp.layers.%d." x

/* Rows every decoder of this family has. */
#define HP_ROWS_DECODER                                                                                        \
    {"block_count", "num_hidden_layers|n_layers|n_layer|num_layers", HD_LAYERS, HPF_REQUIRED, 0},              \
    {"context_length", "max_position_embeddings|n_ctx", HD_CTX, HPF_REQUIRED, 0},                              \
    {"embedding_length", "hidden_size|dim", HD_EMBD, HPF_REQUIRED, 0},                                         \
    {"attention.head_count", "num_attention_heads|n_heads", HD_HEADS, HPF_REQUIRED, 0},                        \
    {"attention.head_count_kv", "num_key_value_heads|n_kv_heads", HD_KV_HEADS, 0, 0},                          \
    {"attention.key_length", "head_dim", HD_HEAD_DIM, 0, 0},                                                   \
    {"attention.value_length", NULL, HD_HEAD_DIM, 0, 0},                                                       \
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps|norm_eps", HF_RMS_EPS, HPF_REAL | HPF_REQUIRED, 0},     \
    {"rope.freq_base", "rope_parameters.rope_theta|rope_theta|rope_scaling.rope_theta", HF_ROPE_BASE,          \
     HPF_REAL, 10000},                                                                                         \
    {NULL, "vocab_size", HD_VOCAB, HPF_NO_KEY | HPF_REQUIRED, 0}
#define HP_ROWS_EXPERTS                                                                                        \
    {"expert_count", "num_experts|num_local_experts|n_routed_experts", HD_EXPERTS, HPF_REQUIRED, 0},           \
    {"expert_used_count", "num_experts_per_tok|top_k_experts", HD_EXPERTS_USED, HPF_REQUIRED, 0},              \
    {"expert_feed_forward_length", "moe_intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0}
#define HP_ROW_FF {"feed_forward_length", "intermediate_size|hidden_dim", HD_FF, HPF_REQUIRED, 0}

#define ROW_TOKEN_EMBD {"token_embd.weight", "model.embed_tokens.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0}
#define ROW_OUTPUT_NORM(xf) {"output_norm.weight", "model.norm.weight", {HD_EMBD}, xf, 0, ROLE_OTHER, W_GLOBAL, TR_F32}
#define ROW_OUTPUT {"output.weight", "lm_head.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_GLOBAL, TR_TIED}
/* Full attention with per-head query and key norms; xf: how norms are stored. */
#define ROWS_ATTN(xf)                                                                                                                                   \
    {"blk.%d.attn_q.weight", HF_LAYER("self_attn.q_proj.weight"), {HD_Q_OUT, HD_EMBD}, XF_COPY, 0, ROLE_ATTN_Q, W_FULL, 0},                             \
    {"blk.%d.attn_k.weight", HF_LAYER("self_attn.k_proj.weight"), {HD_KV_OUT, HD_EMBD}, XF_COPY, 0, ROLE_ATTN_K, W_FULL, 0},                            \
    {"blk.%d.attn_v.weight", HF_LAYER("self_attn.v_proj.weight"), {HD_KV_OUT, HD_EMBD}, XF_COPY, 0, ROLE_ATTN_V, W_FULL, 0},                            \
    {"blk.%d.attn_output.weight", HF_LAYER("self_attn.o_proj.weight"), {HD_EMBD, HD_ATTN_OUT}, XF_COPY, 0, ROLE_ATTN_OUTPUT, W_FULL, 0},                \
    {"blk.%d.attn_q_norm.weight", HF_LAYER("self_attn.q_norm.weight"), {HD_HEAD_DIM}, xf, 0, ROLE_OTHER, W_FULL, TR_F32},                               \
    {"blk.%d.attn_k_norm.weight", HF_LAYER("self_attn.k_norm.weight"), {HD_HEAD_DIM}, xf, 0, ROLE_OTHER, W_FULL, TR_F32}
#define ROWS_FFN                                                                                                                                        \
    {"blk.%d.ffn_gate.weight", HF_LAYER("mlp.gate_proj.weight"), {HD_FF, HD_EMBD}, XF_COPY, 0, ROLE_FFN_GATE, W_ALL, 0},                                \
    {"blk.%d.ffn_up.weight", HF_LAYER("mlp.up_proj.weight"), {HD_FF, HD_EMBD}, XF_COPY, 0, ROLE_FFN_UP, W_ALL, 0},                                      \
    {"blk.%d.ffn_down.weight", HF_LAYER("mlp.down_proj.weight"), {HD_EMBD, HD_FF}, XF_COPY, 0, ROLE_FFN_DOWN, W_ALL, 0}
/* Routed experts, stored fused or one by one. */
#define ROWS_EXPERTS                                                                                                                                    \
    {"blk.%d.ffn_gate_inp.weight", HF_LAYER("mlp.gate.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},                          \
    {"blk.%d.ffn_gate_exps.weight", HF_LAYER("mlp.experts.gate_up_proj") "|" HF_LAYER("mlp.experts.%e.gate_proj.weight"),                               \
     {HD_EXPERTS, HD_FF_EXP, HD_EMBD}, XF_SPLIT_FIRST, 0, ROLE_EXP_GATE, W_ALL, 0},                                                                     \
    {"blk.%d.ffn_up_exps.weight", HF_LAYER("mlp.experts.gate_up_proj") "|" HF_LAYER("mlp.experts.%e.up_proj.weight"),                                   \
     {HD_EXPERTS, HD_FF_EXP, HD_EMBD}, XF_SPLIT_SECOND, 0, ROLE_EXP_UP, W_ALL, 0},                                                                      \
    {"blk.%d.ffn_down_exps.weight", HF_LAYER("mlp.experts.down_proj") "|" HF_LAYER("mlp.experts.%e.down_proj.weight"),                                  \
     {HD_EXPERTS, HD_EMBD, HD_FF_EXP}, XF_COPY, 0, ROLE_EXP_DOWN, W_ALL, 0}
// clang-format on

/* derive() pieces: sizes of full attention (q_factor 2: gated queries), of experts. */
int derive_attn(struct hparams *h, int64_t q_factor, struct err *e);
int derive_experts(struct hparams *h, struct err *e);
/* Refuses rope scalings that the graph does not compute. */
int hf_check_rope(const struct hfdir *dir, struct err *e);

#endif
