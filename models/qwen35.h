// SPDX-License-Identifier: MIT
/* models/qwen35.h - what the dense and MoE forms of Qwen3.5 share: all but the feed-forward. Layers
 * are gated delta nets except every full_attention_interval-th; norms are stored around 0 and
 * written + 1; value heads are regrouped (docs/formats/convert.md); one optional MTP block. */
#ifndef HONE_MODELS_QWEN35_H
#define HONE_MODELS_QWEN35_H

#include "models/part.h"

int qwen35_derive(struct hparams *h, struct err *e);
int qwen35_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e);
void qwen35_write_keys(const struct hparams *h, struct gguf_w *w);
int qwen35_read_keys(struct hparams *h, const struct gguf *g, struct err *e);
/* The forward graph, or with `draft` that of the MTP block. */
int qwen35_graph(const struct arch *a, const struct hparams *h, struct graph *g, part_fn ffn,
                 bool draft, struct err *e);
extern const char *const qwen35_skip[]; /* vision parts of a multimodal checkpoint */

// clang-format off
#define QWEN35_HP_ROWS                                                                               \
    HP_ROWS_DECODER,                                                                                 \
    {"nextn_predict_layers", "mtp_num_hidden_layers|num_nextn_predict_layers", HD_MTP, HPF_ZERO_OK, 0}, \
    {"ssm.conv_kernel", "linear_conv_kernel_dim", HD_CONV_K, HPF_REQUIRED, 0},                       \
    {"ssm.state_size", "linear_key_head_dim", HD_LIN_K_DIM, HPF_REQUIRED, 0},                        \
    {"ssm.group_count", "linear_num_key_heads", HD_LIN_K_HEADS, HPF_REQUIRED, 0},                    \
    {"ssm.time_step_rank", "linear_num_value_heads", HD_LIN_V_HEADS, HPF_REQUIRED, 0},               \
    {"ssm.inner_size", NULL, HD_LIN_INNER, HPF_REQUIRED, 0},                                         \
    {NULL, "linear_value_head_dim", HD_LIN_V_DIM, HPF_NO_KEY, 0},                                    \
    {"full_attention_interval", "full_attention_interval", HD_FULL_INTERVAL, 0, 4},                  \
    {"rope.dimension_count", NULL, HD_ROT, 0, 0}

#define QWEN35_MIX_ROWS                                                                              \
    {"blk.%d.attn_norm.weight", HF_LAYER("input_layernorm.weight"), {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_ALL, TR_F32},                                        \
    {"blk.%d.post_attention_norm.weight", HF_LAYER("post_attention_layernorm.weight"), {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_ALL, TR_F32},                     \
    ROWS_ATTN(XF_ADD1),                                                                                                                                       \
    {"blk.%d.attn_qkv.weight", "model.layers.%d.linear_attn.in_proj_qkv.weight", {HD_CONV_CH, HD_EMBD}, XF_V_ROWS_TAIL, HD_LIN_V_DIM, ROLE_ATTN_QKV, W_LINEAR, 0}, \
    {"blk.%d.attn_gate.weight", "model.layers.%d.linear_attn.in_proj_z.weight", {HD_LIN_INNER, HD_EMBD}, XF_V_ROWS, HD_LIN_V_DIM, ROLE_ATTN_GATE, W_LINEAR, 0},    \
    {"blk.%d.ssm_alpha.weight", "model.layers.%d.linear_attn.in_proj_a.weight", {HD_LIN_V_HEADS, HD_EMBD}, XF_V_ROWS, HD_ONE, ROLE_SSM_ALPHA, W_LINEAR, 0},        \
    {"blk.%d.ssm_beta.weight", "model.layers.%d.linear_attn.in_proj_b.weight", {HD_LIN_V_HEADS, HD_EMBD}, XF_V_ROWS, HD_ONE, ROLE_SSM_BETA, W_LINEAR, 0},          \
    {"blk.%d.ssm_conv1d.weight", "model.layers.%d.linear_attn.conv1d.weight", {HD_CONV_CH, HD_CONV_K}, XF_V_ROWS_TAIL, HD_LIN_V_DIM, ROLE_OTHER, W_LINEAR, TR_F32}, \
    {"blk.%d.ssm_a", "model.layers.%d.linear_attn.A_log", {HD_LIN_V_HEADS}, XF_NEG_EXP_V, HD_ONE, ROLE_OTHER, W_LINEAR, TR_F32},                                  \
    {"blk.%d.ssm_dt.bias", "model.layers.%d.linear_attn.dt_bias", {HD_LIN_V_HEADS}, XF_V_ROWS, HD_ONE, ROLE_OTHER, W_LINEAR, TR_F32},                             \
    {"blk.%d.ssm_norm.weight", "model.layers.%d.linear_attn.norm.weight", {HD_LIN_V_DIM}, XF_COPY, 0, ROLE_OTHER, W_LINEAR, TR_F32},                              \
    {"blk.%d.ssm_out.weight", "model.layers.%d.linear_attn.out_proj.weight", {HD_EMBD, HD_LIN_INNER}, XF_V_COLS, HD_LIN_V_DIM, ROLE_SSM_OUT, W_LINEAR, 0}

#define QWEN35_MTP_ROWS                                                                              \
    {"blk.%d.nextn.eh_proj.weight", "mtp.fc.weight", {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},                  \
    {"blk.%d.nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight", {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},         \
    {"blk.%d.nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight", {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},            \
    {"blk.%d.nextn.shared_head_norm.weight", "mtp.norm.weight", {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},               \
    /* Dedicated MTP embeddings: legal in GGUF, in no published checkpoint, not made by conversion. */                           \
    {"blk.%d.nextn.embed_tokens.weight", NULL, {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_MTP, TR_OPTIONAL},            \
    {"blk.%d.nextn.shared_head_head.weight", NULL, {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_MTP, TR_OPTIONAL}
// clang-format on

#endif
