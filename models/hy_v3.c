// SPDX-License-Identifier: MIT
/* models/hy_v3.c - Hunyuan 3: per-head norms of queries and keys before RoPE; leading dense layers,
 * then experts selected by sigmoid scores with a bias, plus shared experts; an MTP block stored as
 * the last layer. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"HYV3ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROW_MTP,
    {"expert_weights_scale", "router_scaling_factor|routed_scaling_factor", HF_EXPERT_SCALE, HPF_REAL, 1},
    {"expert_shared_feed_forward_length", NULL, HD_FF_SHEXP, 0, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_PRE_NORMS(XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY),
    ROWS_FFN,
    {"blk.%d.ffn_gate_inp.weight", HF_LAYER("mlp.router.gate.weight") "|" HF_LAYER("mlp.gate.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0,
     ROLE_OTHER, W_MOE, TR_F32},
    ROWS_EXPERT_MATS("mlp.experts", "gate_proj", "up_proj", "down_proj"),
    ROW_VEC("exp_probs_b", "mlp.expert_bias", HD_EXPERTS, XF_COPY, W_MOE, 0), /* no suffix, as other programs expect */
#define SHARED(gguf, hf, rows, cols, role) ROW_MAT(gguf, "mlp.shared_mlp." hf, rows, cols, role, W_MOE, 0)
    SHARED("ffn_gate_shexp", "gate_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE),
    SHARED("ffn_up_shexp", "up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP),
    SHARED("ffn_down_shexp", "down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    ROWS_MTP_LAYER,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_shared_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_lead_dense(h, dir, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_hy_v3;
const struct arch arch_hy_v3 = {
    .name = "hy_v3",
    .hf_classes = hf_classes,
    .family = "Hunyuan 3",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .drafts = true,
    .tools = "hy3 hy3-preview",
};
