// SPDX-License-Identifier: MIT
/* models/qwen2moe.c - Qwen 1.5 MoE and Qwen2 57B-A14B: expert weights are not divided by their sum;
 * one gated shared expert. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Qwen2MoeForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROWS_EXPERTS,
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QKV_BIAS_IF, ROWS_EXPERTS, ROWS_SHARED_EXPERT,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"norm_topk_prob", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_windows(h, dir, NULL, e)); /* max_window_layers has another meaning here */
    TRY(hf_all_sparse(dir, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.router = {.keep = true}}},
};

extern const struct arch arch_qwen2moe;
const struct arch arch_qwen2moe = {
    .name = "qwen2moe",
    .hf_classes = hf_classes,
    .family = "Qwen 1.5 and 2 MoE",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
};
