// SPDX-License-Identifier: MIT
/* models/qwen3.c - Qwen3, dense and MoE: full attention in all layers, per-head norms of queries
 * and keys, RoPE over whole heads; no weight is transformed. Expert weights are always
 * renormalised after top-k: GGUF has no key to turn that off, so convert rejects folders without
 * norm_topk_prob = true. */
#include "models/rows.h"

#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"

static const char *const dense_classes[] = {"Qwen3ForCausalLM", NULL};
static const char *const moe_classes[] = {"Qwen3MoeForCausalLM", NULL};
// clang-format off
static const struct hp_row dense_hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS_DECODER,
    HP_ROWS_EXPERTS,
    /* For dense layers, which no published model has; written as llama.cpp's converter does. */
    {"feed_forward_length", "intermediate_size|hidden_dim", HD_FF, 0, 0},
    {.slot = -1},
};
#define ROWS_MIX ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM(XF_COPY)
static const struct tensor_row dense_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_EXPERTS, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive_moe(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_windows(h, dir, "max_window_layers", e));
    return hf_check_rope(dir, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int moe_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"use_sliding_window", NULL}; /* of all layers */
    TRY(hf_check_topk_norm(dir, false, e));
    TRY(hf_check_off(dir, no, e));
    TRY(hf_all_sparse(dir, e));
    return from_hf(h, dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS}},
};

extern const struct arch arch_qwen3, arch_qwen3moe;
const struct arch arch_qwen3 = {
    .name = "qwen3",
    .hf_classes = dense_classes,
    .family = "Qwen 3",
    .size_note = "dense transformer",
    .tools = "hermes-json",
    .hp = dense_hp,
    .tensors = dense_tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .hf_classes = moe_classes,
    .family = "Qwen 3 MoE",
    .size_note = "mixture-of-experts transformer",
    .tools = "hermes-json qwen-xml",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .derive = derive_moe,
    .from_hf = moe_from_hf,
    .decoder = &decoder,
};
