// SPDX-License-Identifier: MIT
/* models/phi2.c - Phi-1, Phi-1.5 and Phi-2: one LayerNorm per block, shared by parallel attention
 * and ungated feed-forward; partial RoPE; biases everywhere, including the head. */
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"PhiForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_ROPE_BASE, HP_ROW_ROT, HP_ROW_LAYER_EPS, HP_ROW_VOCAB, {.slot = -1},
};
#define BIASED(gguf, hf, rows, cols, role) \
    ROW_MAT(gguf, hf, rows, cols, role, W_ALL, 0), ROW_VEC(gguf ".bias", hf ".bias", rows, XF_COPY, W_ALL, 0)
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_LAYER_NORM("attn_norm", "input_layernorm"),
    ROWS_QKV(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS(0),
    BIASED("attn_output", "self_attn.dense", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT),
    BIASED("ffn_up", "mlp.fc1", HD_FF, HD_EMBD, ROLE_FFN_UP),
    BIASED("ffn_down", "mlp.fc2", HD_EMBD, HD_FF, ROLE_FFN_DOWN),
    {"output_norm.weight", "model.final_layernorm.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    {"output_norm.bias", "model.final_layernorm.bias", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    ROW_OUTPUT,
    {"output.bias", "lm_head.bias", {HD_VOCAB}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"qk_layernorm", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_partial_rope(h, dir, 0.5, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.act = ACT_GELU},
              .parallel = true},
    .norm = {NORM_LAYER, "output_norm"},
};

extern const struct arch arch_phi2;
const struct arch arch_phi2 = {
    .name = "phi2",
    .hf_classes = hf_classes,
    .family = "Phi-1 and Phi-2",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
