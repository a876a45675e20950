// SPDX-License-Identifier: MIT
/* models/qwen35.c - Qwen3.5, 3.6, 3.8, dense and MoE with one gated shared expert. Every
 * full_attention_interval-th layer has full attention; the others are gated delta nets. Norms are
 * stored as w - 1, and conversion adds 1. Value heads are regrouped (docs/formats/convert.md). One
 * optional MTP block. */
#include "models/rows.h"

#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"

static const char *const skip[] = {"visual.", "vision_tower.",
                                   NULL}; /* in multimodal checkpoints */
static const char *const dense_classes[] = {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM",
                                            "MiniCPMV4_6ForConditionalGeneration", NULL};
static const char *const moe_classes[] = {"Qwen3_5MoeForConditionalGeneration",
                                          "Qwen3_5MoeForCausalLM", NULL};

// clang-format off
#define HP_ROWS                                                                               \
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

#define LINEAR(x) "model.layers.%d.linear_attn." x
#define ROWS_MIX                                                                              \
    ROW_NORM("attn_norm", "input_layernorm", XF_ADD1),                                               \
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_ADD1),                            \
    ROWS_QKVO(HD_QG_OUT, XF_COPY),                                                                   \
    ROWS_QK_NORM(XF_ADD1),                                                                           \
    {"blk.%d.attn_qkv.weight", LINEAR("in_proj_qkv.weight"), {HD_CONV_CH, HD_EMBD}, XF_V_ROWS_TAIL, HD_LIN_V_DIM, ROLE_ATTN_QKV, W_DELTA, 0}, \
    {"blk.%d.attn_gate.weight", LINEAR("in_proj_z.weight"), {HD_LIN_INNER, HD_EMBD}, XF_V_ROWS, HD_LIN_V_DIM, ROLE_ATTN_GATE, W_DELTA, 0},    \
    {"blk.%d.ssm_alpha.weight", LINEAR("in_proj_a.weight"), {HD_LIN_V_HEADS, HD_EMBD}, XF_V_ROWS, HD_ONE, ROLE_SSM_ALPHA, W_DELTA, 0},        \
    {"blk.%d.ssm_beta.weight", LINEAR("in_proj_b.weight"), {HD_LIN_V_HEADS, HD_EMBD}, XF_V_ROWS, HD_ONE, ROLE_SSM_BETA, W_DELTA, 0},          \
    {"blk.%d.ssm_conv1d.weight", LINEAR("conv1d.weight"), {HD_CONV_CH, HD_CONV_K}, XF_V_ROWS_TAIL, HD_LIN_V_DIM, ROLE_OTHER, W_DELTA, TR_F32}, \
    {"blk.%d.ssm_a", LINEAR("A_log"), {HD_LIN_V_HEADS}, XF_NEG_EXP_V, HD_ONE, ROLE_OTHER, W_DELTA, TR_F32},                                  \
    {"blk.%d.ssm_dt.bias", LINEAR("dt_bias"), {HD_LIN_V_HEADS}, XF_V_ROWS, HD_ONE, ROLE_OTHER, W_DELTA, TR_F32},                             \
    {"blk.%d.ssm_norm.weight", LINEAR("norm.weight"), {HD_LIN_V_DIM}, XF_COPY, 0, ROLE_OTHER, W_DELTA, TR_F32},                              \
    {"blk.%d.ssm_out.weight", LINEAR("out_proj.weight"), {HD_EMBD, HD_LIN_INNER}, XF_V_COLS, HD_LIN_V_DIM, ROLE_SSM_OUT, W_DELTA, 0}

#define ROWS_MTP                                                                              \
    {"blk.%d.nextn.eh_proj.weight", "mtp.fc.weight", {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},                  \
    {"blk.%d.nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight", {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},         \
    {"blk.%d.nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight", {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},            \
    {"blk.%d.nextn.shared_head_norm.weight", "mtp.norm.weight", {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},               \
    /* Dedicated MTP embeddings: legal in GGUF, but in no published checkpoint and never written. */                           \
    {"blk.%d.nextn.embed_tokens.weight", NULL, {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_MTP, TR_OPTIONAL},            \
    {"blk.%d.nextn.shared_head_head.weight", NULL, {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_MTP, TR_OPTIONAL}

static const struct hp_row dense_hp[] = {HP_ROWS, HP_ROW_FF, {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS,
    HP_ROWS_EXPERTS,
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {.slot = -1},
};
static const struct tensor_row dense_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_FFN, ROWS_MTP, ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_EXPERTS, ROWS_SHARED_EXPERT, ROWS_MTP, ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) /* MTP blocks have full attention */
        if ((i + 1) % h->d[HD_FULL_INTERVAL] != 0) h->layer[i].mixer = MIX_DELTA;
    return derive_linear(h, e);
}
/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive_moe(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return derive(h, e);
}

/* Reads the rotated fraction of a head, and the mrope sections. */
static int rope_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const int64_t usual[4] = {11, 11, 10, 0};
    TRY(hf_partial_rope(h, dir, 0.25, e));
    return hf_rope_sections(h, dir, usual, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_rope(dir, e));
    TRY(rope_from_hf(h, dir, e));
    static const char *const no[] = {"attention_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    if (!json_bool(hfdir_hparam(dir, "attn_output_gate"), true))
        return err_set(e, ERR_DATA,
                       "attn_output_gate is false, which this architecture cannot hold");
    const struct json *types = hfdir_hparam(dir, "layer_types");
    return layers_interval_hf(h, types, e);
}

/* Returns the architecture's name, with or without experts. */
static const char *name_of(const struct hparams *h) {
    return h->d[HD_EXPERTS] > 0 ? "qwen35moe" : "qwen35";
}
/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    rope_sections_write(h, name_of(h), w);
}
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    return rope_sections_read(h, name_of(h), g, true, e);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "post_attention_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}, .gate = GATE_IN_Q, QK_NORMS}},
    .sections = SECTIONS_MIXED,
};

extern const struct arch arch_qwen35, arch_qwen35moe;
const struct arch arch_qwen35 = {
    .name = "qwen35",
    .hf_classes = dense_classes,
    .family = "Qwen 3.5",
    .size_note = "hybrid gated delta net, dense",
    .tools = "qwen-xml",
    .hp = dense_hp,
    .tensors = dense_tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
    .drafts = true,
};
const struct arch arch_qwen35moe = {
    .name = "qwen35moe",
    .hf_classes = moe_classes,
    .family = "Qwen 3.5 MoE",
    .size_note = "hybrid gated delta net, mixture of experts",
    .tools = "qwen-xml",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .skip = skip,
    .derive = derive_moe,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
    .drafts = true,
};
