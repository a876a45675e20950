// SPDX-License-Identifier: MIT
/* models/qwen3next.c - Qwen3-Next: like Qwen3.5 MoE, but value heads keep the order of the
 * checkpoint. There one matrix holds q, k, v and z of each key head in turn, and a second one beta
 * and alpha. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Qwen3NextForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_ROT, HP_ROW_MTP, HP_ROWS_EXPERTS,
    {"feed_forward_length", "intermediate_size", HD_FF, 0, 0},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {"ssm.conv_kernel", "linear_conv_kernel_dim", HD_CONV_K, HPF_REQUIRED, 0},
    {"ssm.state_size", "linear_key_head_dim", HD_LIN_K_DIM, HPF_REQUIRED, 0},
    {"ssm.group_count", "linear_num_key_heads", HD_LIN_K_HEADS, HPF_REQUIRED, 0},
    {"ssm.time_step_rank", "linear_num_value_heads", HD_LIN_V_HEADS, HPF_REQUIRED, 0},
    {"ssm.inner_size", NULL, HD_LIN_INNER, HPF_REQUIRED, 0},
    {NULL, "linear_value_head_dim", HD_LIN_V_DIM, HPF_NO_KEY, 0},
    {"full_attention_interval", "full_attention_interval", HD_FULL_INTERVAL, 0, 4},
    {.slot = -1},
};
#define LINEAR(x) "model.layers.%d.linear_attn." x
#define QKVZ LINEAR("in_proj_qkvz.weight")
#define VEC(gguf, hf, xf, ...) {"blk.%d." gguf, LINEAR(hf), {__VA_ARGS__}, xf, 0, ROLE_OTHER, W_DELTA, TR_F32}
#define NEXTN(gguf, hf) {"blk.%d.nextn." gguf ".weight", "mtp." hf ".weight", {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_ADD1), ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_ADD1),
    ROWS_QKVO(HD_QG_OUT, XF_COPY), ROWS_QK_NORM(XF_ADD1),
    {"blk.%d.attn_qkv.weight", QKVZ, {HD_CONV_CH, HD_EMBD}, XF_QKVZ_QKV, 0, ROLE_ATTN_QKV, W_DELTA, 0},
    {"blk.%d.attn_gate.weight", QKVZ, {HD_LIN_INNER, HD_EMBD}, XF_QKVZ_Z, 0, ROLE_ATTN_GATE, W_DELTA, 0},
    {"blk.%d.ssm_ba.weight", LINEAR("in_proj_ba.weight"), {HD_LIN_X, HD_EMBD}, XF_COPY, 0, ROLE_SSM_ALPHA, W_DELTA, 0},
    VEC("ssm_conv1d.weight", "conv1d.weight", XF_COPY, HD_CONV_CH, HD_CONV_K),
    VEC("ssm_a", "A_log", XF_NEG_EXP, HD_LIN_V_HEADS), VEC("ssm_dt.bias", "dt_bias", XF_COPY, HD_LIN_V_HEADS),
    VEC("ssm_norm.weight", "norm.weight", XF_COPY, HD_LIN_V_DIM),
    {"blk.%d.ssm_out.weight", LINEAR("out_proj.weight"), {HD_EMBD, HD_LIN_INNER}, XF_COPY, 0, ROLE_SSM_OUT, W_DELTA, 0},
    ROWS_EXPERTS, ROWS_SHARED_EXPERT,
    {"blk.%d.nextn.eh_proj.weight", "mtp.fc.weight", {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},
    NEXTN("enorm", "pre_fc_norm_embedding"), NEXTN("hnorm", "pre_fc_norm_hidden"), NEXTN("shared_head_norm", "norm"),
    ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) /* MTP blocks have full attention */
        if ((i + 1) % h->d[HD_FULL_INTERVAL] != 0) h->layer[i].mixer = MIX_DELTA;
    h->d[HD_LIN_X] = 2 * h->d[HD_LIN_V_HEADS];
    return derive_linear(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_all_sparse(dir, e));
    TRY(hf_check_topk_norm(dir, true, e));
    TRY(hf_check_rope(dir, e));
    TRY(hf_partial_rope(h, dir, 0.25, e));
    return layers_interval_hf(h, hfdir_hparam(dir, "layer_types"), e);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "post_attention_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}, .gate = GATE_IN_Q, QK_NORMS}},
};

extern const struct arch arch_qwen3next;
const struct arch arch_qwen3next = {
    .name = "qwen3next",
    .hf_classes = hf_classes,
    .family = "Qwen3-Next",
    .size_note = "hybrid gated delta net, mixture of experts",
    .tools = "hermes-json",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .drafts = true,
};
