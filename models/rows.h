// SPDX-License-Identifier: MIT
/* models/rows.h - table rows shared by architectures, and helpers for their derive() and
 * from_hf(). */
#ifndef HONE_MODELS_ROWS_H
#define HONE_MODELS_ROWS_H

#include "models/spec.h"

// clang-format off
/* Names, with "%d", of a layer's tensor in the trunk and in the MTP block. */
#define HF_LAYER(x) "model.layers.%d." x "|mtp.layers.%d." x

/* ---- hyperparameters ---- */

#define HP_ROWS_SIZES_NO_HEAD_DIM                                                                              \
    {"block_count", "num_hidden_layers|n_layers|n_layer|num_layers", HD_LAYERS, HPF_REQUIRED, 0},              \
    {"context_length", "max_position_embeddings|n_ctx", HD_CTX, HPF_REQUIRED, 0},                              \
    {"embedding_length", "hidden_size|dim", HD_EMBD, HPF_REQUIRED, 0},                                         \
    {"attention.head_count", "num_attention_heads|n_heads", HD_HEADS, HPF_REQUIRED | HPF_LAYERS, 0},           \
    {"attention.head_count_kv", "num_key_value_heads|n_kv_heads", HD_KV_HEADS, HPF_LAYERS, 0}
#define HP_ROWS_SIZES                                                                                          \
    HP_ROWS_SIZES_NO_HEAD_DIM,                                                                                 \
    {"attention.key_length", "head_dim", HD_HEAD_DIM, 0, 0},                                                   \
    {"attention.value_length", NULL, HD_HEAD_DIM, 0, 0}
/* The same for models in which some layers have no attention; these have 0 key/value heads. */
#define HP_ROWS_HYBRID                                                                                         \
    {"block_count", "num_hidden_layers|n_layers|n_layer|num_layers", HD_LAYERS, HPF_REQUIRED, 0},              \
    {"context_length", "max_position_embeddings|n_ctx", HD_CTX, HPF_REQUIRED, 0},                              \
    {"embedding_length", "hidden_size|dim", HD_EMBD, HPF_REQUIRED, 0},                                         \
    {"attention.head_count", "num_attention_heads|n_heads", HD_HEADS, HPF_REQUIRED, 0},                        \
    {"attention.head_count_kv", "num_key_value_heads|n_kv_heads", HD_KV_HEADS, HPF_LAYERS | HPF_ZERO_OK, 0}
#define HP_ROW_RMS_EPS {"attention.layer_norm_rms_epsilon", "rms_norm_eps|norm_eps", HF_RMS_EPS, HPF_REAL | HPF_REQUIRED, 0}
#define HP_ROW_LAYER_EPS {"attention.layer_norm_epsilon", "layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps", HF_RMS_EPS, HPF_REAL | HPF_REQUIRED, 0}
#define HP_ROW_ROPE_BASE \
    {"rope.freq_base", "rope_parameters.rope_theta", HF_ROPE_BASE, HPF_REAL, 10000}
/* In GGUF, the vocabulary size is the number of embedding rows; for some architectures llama.cpp
 * also writes a key. */
#define HP_ROW_VOCAB_KEY {"vocab_size", NULL, HD_VOCAB, 0, 0}
#define HP_ROW_VOCAB {NULL, "vocab_size", HD_VOCAB, HPF_NO_KEY | HPF_REQUIRED, 0}
#define HP_ROWS_DECODER HP_ROWS_SIZES, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_VOCAB
#define HP_ROW_FF {"feed_forward_length", "intermediate_size|hidden_dim", HD_FF, HPF_REQUIRED | HPF_LAYERS, 0}
#define HP_ROW_EXPERT_COUNTS                                                                                   \
    {"expert_count", "num_experts|num_local_experts|n_routed_experts", HD_EXPERTS, HPF_REQUIRED, 0},           \
    {"expert_used_count", "num_experts_per_tok|top_k_experts", HD_EXPERTS_USED, HPF_REQUIRED, 0}
#define HP_ROWS_EXPERTS                                                                                        \
    HP_ROW_EXPERT_COUNTS,                                                                                      \
    {"expert_feed_forward_length", "moe_intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0}
/* Parameters of newer routers: the number of shared experts, whose widths add up
 * (derive_shared_experts); the number of leading dense layers; a factor for expert weights; whether
 * these are divided by their sum (router_spec.norm_key); groups. */
#define HP_ROW_SHEXPS {"expert_shared_count", "n_shared_experts|num_shared_experts", HD_SHEXPS, HPF_ZERO_OK, 0}
#define HP_ROW_LEAD_DENSE \
    {"leading_dense_block_count", "first_k_dense_replace|num_dense_layers", HD_LEAD_DENSE, HPF_ZERO_OK | HPF_KEEP_ZERO, 0}
#define HP_ROW_EXPERT_SCALE {"expert_weights_scale", "routed_scaling_factor|route_scale", HF_EXPERT_SCALE, HPF_REAL, 1}
#define HP_ROW_EXPERT_NORM(usual) \
    {"expert_weights_norm", "norm_topk_prob|route_norm", HD_NORM_TOPK, HPF_BOOL | HPF_ZERO_OK, usual}
#define HP_ROW_GATING(usual) {"expert_gating_func", NULL, HD_SCORE, 0, usual} /* 1 softmax, 2 sigmoid */
#define HP_ROWS_GROUPS                                                                                         \
    {"expert_group_count", "n_group", HD_GROUPS, 0, 0}, {"expert_group_used_count", "topk_group", HD_GROUPS_USED, 0, 0}
/* Norms, RoPE and experts of Kimi models. */
#define HP_ROWS_KIMI_EXPERTS                                                                                   \
    HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_FF, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE, HP_ROW_GATING(2),     \
    {"expert_weights_norm", "moe_renormalize", HD_NORM_TOPK, HPF_BOOL | HPF_ZERO_OK, 1},                       \
    {"expert_shared_count", "num_shared_experts", HD_SHEXPS, HPF_ZERO_OK, 0},                                  \
    {"expert_count", "num_experts", HD_EXPERTS, HPF_REQUIRED, 0},                                              \
    {"expert_used_count", "num_experts_per_token", HD_EXPERTS_USED, HPF_REQUIRED, 0},                          \
    {"expert_feed_forward_length", "moe_intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0}
/* Kimi delta attention; the indexer of sparse attention; hyper-connections and clamped SwiGLU. */
#define HP_ROWS_KDA                                                                                            \
    {"ssm.conv_kernel", "linear_attn_config.short_conv_kernel_size|linear_conv_kernel_dim", HD_CONV_K, HPF_REQUIRED, 0}, \
    {"kda.head_dim", "linear_attn_config.head_dim|linear_head_dim", HD_LIN_K_DIM, HPF_REQUIRED, 0},            \
    {NULL, "linear_attn_config.num_heads|linear_num_heads", HD_LIN_V_HEADS, HPF_NO_KEY, 0}
#define HP_ROWS_INDEXER                                                                                        \
    {"attention.indexer.head_count", "index_n_heads", HD_INDEX_HEADS, HPF_REQUIRED, 0},                        \
    {"attention.indexer.key_length", "index_head_dim", HD_INDEX_DIM, HPF_REQUIRED, 0},                         \
    {"attention.indexer.top_k", "index_topk", HD_TOP_KEYS, HPF_REQUIRED, 0}
#define HP_ROWS_STREAMS                                                                                        \
    {"hyper_connection.count", "hc_mult", HD_STREAMS, HPF_REQUIRED, 0},                                        \
    {"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", HD_SINKHORN, HPF_REQUIRED, 0},               \
    {"hyper_connection.epsilon", "hc_eps", HF_HC_EPS, HPF_REAL | HPF_REQUIRED, 0},                             \
    {NULL, "swiglu_limit", HF_SWIGLU_LIMIT, HPF_NO_KEY | HPF_REAL | HPF_ZERO_OK, 0}
/* MTP blocks after the trunk, which block_count includes. */
#define HP_ROW_MTP {"nextn_predict_layers", "num_nextn_predict_layers|mtp_num_hidden_layers", HD_MTP, HPF_ZERO_OK, 0}
/* Sizes of Mamba 2. */
#define HP_ROWS_MAMBA2                                                                                         \
    {"ssm.conv_kernel", "mamba_d_conv|conv_kernel", HD_CONV_K, HPF_REQUIRED, 0},                               \
    {"ssm.state_size", "mamba_d_state|ssm_state_size", HD_LIN_K_DIM, HPF_REQUIRED, 0},                         \
    {"ssm.group_count", "mamba_n_groups|n_groups", HD_LIN_K_HEADS, HPF_REQUIRED, 0},                           \
    {"ssm.time_step_rank", "mamba_n_heads|mamba_num_heads", HD_LIN_V_HEADS, HPF_REQUIRED, 0},                  \
    {"ssm.inner_size", "mamba_d_ssm", HD_LIN_INNER, 0, 0},                                                     \
    {NULL, "mamba_d_head|mamba_head_dim", HD_LIN_V_DIM, HPF_NO_KEY, 0}
/* Rotated dimensions, if stored. */
#define HP_ROW_ROT {"rope.dimension_count", NULL, HD_ROT, 0, 0}
#define HP_ROW_WINDOW(flags) {"attention.sliding_window", "sliding_window", HD_WINDOW, flags, 0}

/* ---- tensors ---- */

#define ROW_TOKEN_EMBD {"token_embd.weight", "model.embed_tokens.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0}
#define ROW_OUTPUT_NORM(xf) {"output_norm.weight", "model.norm.weight", {HD_EMBD}, xf, 0, ROLE_OTHER, W_GLOBAL, TR_F32}
#define ROW_OUTPUT {"output.weight", "lm_head.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_GLOBAL, TR_TIED}

/* A vector and a matrix of a block. */
#define ROW_VEC(gguf, hf, width, xf, where, flags) \
    {"blk.%d." gguf, HF_LAYER(hf), {width}, xf, 0, ROLE_OTHER, where, TR_F32 | (flags)}
#define ROW_MAT(gguf, hf, rows, cols, role, where, flags) \
    {"blk.%d." gguf ".weight", HF_LAYER(hf ".weight"), {rows, cols}, XF_COPY, 0, role, where, flags}
#define ROW_NORM(gguf, hf, xf) ROW_VEC(gguf ".weight", hf ".weight", HD_EMBD, xf, W_ALL, 0)
/* A LayerNorm also has biases. */
#define ROWS_LAYER_NORM(gguf, hf) \
    ROW_NORM(gguf, hf, XF_COPY), ROW_VEC(gguf ".bias", hf ".bias", HD_EMBD, XF_COPY, W_ALL, 0)
#define ROWS_OUTPUT_LAYER_NORM \
    ROW_OUTPUT_NORM(XF_COPY), {"output_norm.bias", "model.norm.bias", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32}
#define ROWS_PRE_NORMS(xf) ROW_NORM("attn_norm", "input_layernorm", xf), ROW_NORM("ffn_norm", "post_attention_layernorm", xf)

/* Attention projections. q_out: rows of attn_q; pairs: XF_ROPE_PAIRS if RoPE uses adjacent pairs
 * that the checkpoint stores as halves. */
#define ROWS_QKV(q_out, pairs)                                                                                                                \
    {"blk.%d.attn_q.weight", HF_LAYER("self_attn.q_proj.weight"), {q_out, HD_EMBD}, pairs, HD_HEAD_DIM, ROLE_ATTN_Q, W_ATTN, 0},               \
    {"blk.%d.attn_k.weight", HF_LAYER("self_attn.k_proj.weight"), {HD_KV_OUT, HD_EMBD}, pairs, HD_HEAD_DIM, ROLE_ATTN_K, W_ATTN, TR_KV},       \
    ROW_MAT("attn_v", "self_attn.v_proj", HD_KV_OUT, HD_EMBD, ROLE_ATTN_V, W_VALUES, TR_KV)
#define ROWS_QKVO(q_out, pairs) \
    ROWS_QKV(q_out, pairs), ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN, 0)
#define ROWS_QKV_BIAS(flags)                                                                       \
    ROW_VEC("attn_q.bias", "self_attn.q_proj.bias", HD_ATTN_OUT, XF_COPY, W_ATTN, flags),              \
    ROW_VEC("attn_k.bias", "self_attn.k_proj.bias", HD_KV_OUT, XF_COPY, W_ATTN, flags),                \
    ROW_VEC("attn_v.bias", "self_attn.v_proj.bias", HD_KV_OUT, XF_COPY, W_ATTN, flags)
/* The same biases, but optional. */
#define ROWS_QKV_BIAS_IF ROWS_QKV_BIAS(TR_FOUND | TR_IF(HD_BIAS_QKV))
/* Per-head norms of queries and keys; xf: transform of their weights. */
#define ROWS_QK_NORM(xf)                                                                           \
    ROW_VEC("attn_q_norm.weight", "self_attn.q_norm.weight", HD_HEAD_DIM, xf, W_ATTN, 0),          \
    ROW_VEC("attn_k_norm.weight", "self_attn.k_norm.weight", HD_HEAD_DIM, xf, W_ATTN, TR_KV)
#define ROWS_QK_NORM_WIDE                                                                          \
    ROW_VEC("attn_q_norm.weight", "self_attn.q_norm.weight", HD_ATTN_OUT, XF_COPY, W_ATTN, 0),     \
    ROW_VEC("attn_k_norm.weight", "self_attn.k_norm.weight", HD_KV_OUT, XF_COPY, W_ATTN, 0)
#define ROWS_FFN                                                                                   \
    ROW_MAT("ffn_gate", "mlp.gate_proj", HD_FF, HD_EMBD, ROLE_FFN_GATE, W_DENSE, 0),               \
    ROW_MAT("ffn_up", "mlp.up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP, W_DENSE, 0),                     \
    ROW_MAT("ffn_down", "mlp.down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_DENSE, 0)
/* A feed-forward without a gate. */
#define ROWS_FFN_UNGATED                                                                           \
    ROW_MAT("ffn_up", "mlp.up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP, W_DENSE, 0),                     \
    ROW_MAT("ffn_down", "mlp.down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_DENSE, 0)
/* Gate and up in one matrix, gate first. */
#define ROWS_FFN_FUSED                                                                             \
    ROW_MAT("ffn_up", "mlp.gate_up_proj", HD_FF2, HD_EMBD, ROLE_FFN_UP, W_DENSE, 0),               \
    ROW_MAT("ffn_down", "mlp.down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_DENSE, 0)
/* Divisors of rotary angles, computed if config.json requests Llama 3's RoPE scaling (llama3.c). */
#define ROW_LLAMA3_FREQS \
    {"rope_freqs.weight", NULL, {HD_FREQS}, XF_ROPE_LLAMA3, 0, ROLE_OTHER, W_GLOBAL, TR_F32 | TR_FOUND | TR_IF(HD_FREQS)}
/* Divisors of rotary angles for long and for short contexts (longrope.c). */
#define FACTORS(name, xf) \
    {"rope_factors_" name ".weight", NULL, {HD_HALF_ROT}, xf, 0, ROLE_OTHER, W_GLOBAL, TR_F32 | TR_FOUND | TR_IF(HD_LONG)}
#define ROWS_LONGROPE FACTORS("long", XF_ROPE_FAR), FACTORS("short", XF_ROPE_NEAR)
/* The router's matrix, and the bias added to the scores when selecting experts. */
#define ROW_ROUTER(hf) \
    {"blk.%d.ffn_gate_inp.weight", HF_LAYER(hf ".weight") "|" HF_LAYER("mlp.gate.weight") "|" HF_LAYER("mlp.router.weight"), \
     {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32}
#define ROW_ROUTER_BIAS(hf) \
    {"blk.%d.exp_probs_b.bias", HF_LAYER(hf) "|" HF_LAYER("mlp.gate.e_score_correction_bias") "|" HF_LAYER("mlp.e_score_correction_bias"), \
     {HD_EXPERTS}, XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32}
/* Routed experts, stored individually as at.<number>.gate.weight or fused, at `at` or, as in
 * transformers 5, in "mlp". */
#define ROWS_EXPERT_MATS(at, gate, up, down)                                                                                                            \
    {"blk.%d.ffn_gate_exps.weight", HF_LAYER("mlp.experts.gate_up_proj") "|" HF_LAYER(at ".gate_up_proj") "|" HF_LAYER(at ".%e." gate ".weight"),                                        \
     {HD_EXPERTS, HD_FF_EXP, HD_EMBD}, XF_SPLIT_FIRST, 0, ROLE_EXP_GATE, W_MOE, 0},                                                                     \
    {"blk.%d.ffn_up_exps.weight", HF_LAYER("mlp.experts.gate_up_proj") "|" HF_LAYER(at ".gate_up_proj") "|" HF_LAYER(at ".%e." up ".weight"),                                            \
     {HD_EXPERTS, HD_FF_EXP, HD_EMBD}, XF_SPLIT_SECOND, 0, ROLE_EXP_UP, W_MOE, 0},                                                                      \
    {"blk.%d.ffn_down_exps.weight", HF_LAYER("mlp.experts.down_proj") "|" HF_LAYER(at ".down_proj") "|" HF_LAYER(at ".%e." down ".weight"),                                           \
     {HD_EXPERTS, HD_EMBD, HD_FF_EXP}, XF_COPY, 0, ROLE_EXP_DOWN, W_MOE, 0}
#define ROWS_EXPERTS ROW_ROUTER("mlp.gate"), ROWS_EXPERT_MATS("mlp.experts", "gate_proj", "up_proj", "down_proj")
/* Shared experts without a gate, fused into one matrix each; absent if HD_FF_SHEXP is 0. */
#define ROWS_SHARED_EXPERTS                                                                                                             \
    ROW_MAT("ffn_gate_shexp", "mlp.shared_experts.gate_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE, W_MOE, TR_IF(HD_FF_SHEXP)),        \
    ROW_MAT("ffn_up_shexp", "mlp.shared_experts.up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP, W_MOE, TR_IF(HD_FF_SHEXP)),              \
    ROW_MAT("ffn_down_shexp", "mlp.shared_experts.down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN, W_MOE, TR_IF(HD_FF_SHEXP))
/* A shared expert with a scalar gate per token. */
#define ROWS_SHARED_EXPERT                                                                                       \
    ROW_MAT("ffn_gate_shexp", "mlp.shared_expert.gate_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE, W_MOE, 0),   \
    ROW_MAT("ffn_up_shexp", "mlp.shared_expert.up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP, W_MOE, 0),         \
    ROW_MAT("ffn_down_shexp", "mlp.shared_expert.down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN, W_MOE, 0),   \
    ROW_MAT("ffn_gate_inp_shexp", "mlp.shared_expert_gate", HD_ONE, HD_EMBD, ROLE_OTHER, W_MOE, TR_F32)
/* The MTP block, for checkpoints that store it as an additional layer with its own embeddings and
 * head. */
#define MTP(x) "mtp.layers.%d." x
#define ROWS_MTP_LAYER                                                                                                              \
    {"blk.%d.nextn.eh_proj.weight", MTP("eh_proj.weight"), {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},               \
    {"blk.%d.nextn.embed_tokens.weight", MTP("embed_tokens.weight"), {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_MTP, TR_OPTIONAL}, \
    {"blk.%d.nextn.enorm.weight", MTP("enorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32},                           \
    {"blk.%d.nextn.hnorm.weight", MTP("hnorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32},                           \
    {"blk.%d.nextn.shared_head_head.weight", MTP("shared_head.head.weight"), {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_MTP, TR_OPTIONAL}, \
    {"blk.%d.nextn.shared_head_norm.weight", MTP("shared_head.norm.weight") "|" MTP("final_layernorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32 | TR_OPTIONAL}
/* Mamba 2; at: location of its tensors in the checkpoint, "model.layers.%d.mamba."; xf_in, xf_out:
 * transforms of its two matrices. */
#define ROWS_MAMBA2(at, xf_in, xf_out)                                                                                                      \
    {"blk.%d.ssm_in.weight", at "in_proj.weight", {HD_LIN_IN, HD_EMBD}, xf_in, 0, ROLE_SSM_IN, W_MAMBA, 0},                                 \
    {"blk.%d.ssm_conv1d.weight", at "conv1d.weight", {HD_CONV_CH, HD_CONV_K}, XF_COPY, 0, ROLE_OTHER, W_MAMBA, TR_F32},                     \
    {"blk.%d.ssm_conv1d.bias", at "conv1d.bias", {HD_CONV_CH}, XF_COPY, 0, ROLE_OTHER, W_MAMBA, TR_F32 | TR_FOUND | TR_IF(HD_CONV_BIAS)},   \
    {"blk.%d.ssm_a", at "A_log", {HD_LIN_V_HEADS, HD_ONE}, XF_NEG_EXP, 0, ROLE_OTHER, W_MAMBA, TR_F32},                                     \
    {"blk.%d.ssm_d", at "D", {HD_LIN_V_HEADS, HD_ONE}, XF_COPY, 0, ROLE_OTHER, W_MAMBA, TR_F32},                                            \
    {"blk.%d.ssm_dt.bias", at "dt_bias", {HD_LIN_V_HEADS}, XF_COPY, 0, ROLE_OTHER, W_MAMBA, TR_F32},                                        \
    {"blk.%d.ssm_norm.weight", at "norm.weight", {HD_LIN_K_HEADS, HD_LIN_GROUP}, XF_COPY, 0, ROLE_OTHER, W_MAMBA,                           \
     TR_F32 | TR_FOUND | TR_IF(HD_LIN_NORM)},                                                                                               \
    {"blk.%d.ssm_out.weight", at "out_proj.weight", {HD_EMBD, HD_LIN_INNER}, xf_out, MUL_SSM_OUT, ROLE_SSM_OUT, W_MAMBA, 0}
// clang-format on

/* Checks the number of active experts against the total, and derives the number of rows of fused
 * experts. Their width defaults to that of the feed-forward. */
int derive_experts(struct hparams *h, struct err *e);
/* Like derive_experts; also derives the total width of the shared experts. */
int derive_shared_experts(struct hparams *h, struct err *e);
/* Sets HD_FF_SHEXP to the total width of the shared experts. config.json has the width of one,
 * unless it equals HD_SHEXPS * HD_FF_EXP: then it is the total. */
int hf_shared_width(struct hparams *h, struct err *e);
/* Derives the sizes of a gated delta net: the inner size (given in GGUF) and the width of value
 * heads (given in config.json) from each other, and the channels of the convolution. */
int derive_linear(struct hparams *h, struct err *e);
/* Like derive_linear for Mamba 2; also derives the width of a group and the rows of ssm_in. */
int derive_mamba2(struct hparams *h, struct err *e);
/* Derives the sizes of latent attention and of Kimi delta attention, which has the same number of
 * heads. rot: values of a key stored after the latent row. */
int derive_kda_mla(struct hparams *h, int64_t rot, struct err *e);
/* Derives the sizes of hyper-connections from HD_STREAMS. */
int derive_streams(struct hparams *h, struct err *e);
/* Sets HD_LIN_INNER of Mamba 2 to mamba_expand times the width of the model if config.json has
 * neither the inner size nor the width of a head. */
int hf_mamba_inner(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Rejects RoPE scalings that the graph does not implement. */
int hf_check_rope(const struct hfdir *dir, struct err *e);
/* Reads RoPE scaling "llama3" (sets HD_FREQS) if config.json requests it; otherwise calls
 * hf_check_rope. */
int hf_rope_llama3(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Reads RoPE scaling "longrope" (sets HD_LONG) if config.json requests it; otherwise calls
 * hf_check_rope. HD_YARN_CTX defaults to the longest context. */
int hf_rope_long(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Read and write an architecture's key for longrope's factor of cos and sin. */
int longrope_read(struct hparams *h, const char *arch, const struct gguf *g, struct err *e);
void longrope_write(const struct hparams *h, const char *arch, struct gguf_w *w);
/* Returns whether config.json requests RoPE scaling `type` for layers without a window. */
bool hf_rope_is(const struct hfdir *dir, const char *type);
/* Sets HD_ROT from partial_rotary_factor; `usual` is the default. */
int hf_partial_rope(struct hparams *h, const struct hfdir *dir, double usual, struct err *e);
/* Reads mrope_section, which text does not use but files store; `usual` is the default. */
int hf_rope_sections(struct hparams *h, const struct hfdir *dir, const int64_t usual[4],
                     struct err *e);
/* Write and read an architecture's key rope.dimension_sections. */
void rope_sections_write(const struct hparams *h, const char *arch, struct gguf_w *w);
/* Reads the rope sections. ERR_DATA: malformed, or missing and `required`. */
int rope_sections_read(struct hparams *h, const char *arch, const struct gguf *g, bool required,
                       struct err *e);
/* Rejects configs with dense layers between layers with experts. */
int hf_all_sparse(const struct hfdir *dir, struct err *e);
/* Sets HD_LEAD_DENSE from the list mlp_layer_types, if the config has it: "dense" for the first
 * layers, then "sparse" or "moe". Rejects any other order, because GGUF cannot express it. */
int hf_lead_dense(struct hparams *h, const struct hfdir *dir, struct err *e);
/* Sets each layer's key/value heads: HD_KV_HEADS for the layers in `list`, counted from `first`, 0
 * for the others. */
int hf_full_layers(struct hparams *h, const struct json *list, int64_t first, struct err *e);
/* Rejects models that do not divide the weights of the chosen experts by their sum. otherwise: the
 * default of the class. */
int hf_check_topk_norm(const struct hfdir *dir, bool otherwise, struct err *e);
/* Rejects other constants of the clamped SwiGLU than those of gpt-oss. */
int hf_check_swiglu(const struct hfdir *dir, struct err *e);
/* Returns the name of an activation: "silu" for "swish", its other name; NULL for NULL. */
const char *hf_act(const char *name);
/* Rejects a config whose `key` is a string other than `want`; an absent key is fine. */
int hf_check_is(const struct hfdir *dir, const char *key, const char *want, struct err *e);
/* Rejects a config in which use_sliding_window gives a layer a window. Without layer_types, the
 * config's key `first` is the number of the first such layer; NULL: all layers have one. */
int hf_check_windows(const struct hparams *h, const struct hfdir *dir, const char *first,
                     struct err *e);
/* Rejects a config in which any of the named switches is true; NULL ends the list. */
int hf_check_off(const struct hfdir *dir, const char *const *names, struct err *e);

#endif
