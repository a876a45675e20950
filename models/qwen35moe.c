// SPDX-License-Identifier: MIT
/* models/qwen35moe.c - Qwen3.5, 3.6 mixture of experts: qwen35 with routed experts and one gated
 * shared expert as feed-forward. */
#include "models/qwen35.h"

static const char *const hf_classes[] = {"Qwen3_5MoeForConditionalGeneration",
                                         "Qwen3_5MoeForCausalLM", NULL};

// clang-format off
static const struct hp_row hp[] = {
    QWEN35_HP_ROWS,
    HP_ROWS_EXPERTS,
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    QWEN35_MIX_ROWS,
    ROWS_EXPERTS,
    {"blk.%d.ffn_gate_shexp.weight", HF_LAYER("mlp.shared_expert.gate_proj.weight"), {HD_FF_SHEXP, HD_EMBD}, XF_COPY, 0, ROLE_SHEXP_GATE, W_ALL, 0},
    {"blk.%d.ffn_up_shexp.weight", HF_LAYER("mlp.shared_expert.up_proj.weight"), {HD_FF_SHEXP, HD_EMBD}, XF_COPY, 0, ROLE_SHEXP_UP, W_ALL, 0},
    {"blk.%d.ffn_down_shexp.weight", HF_LAYER("mlp.shared_expert.down_proj.weight"), {HD_EMBD, HD_FF_SHEXP}, XF_COPY, 0, ROLE_SHEXP_DOWN, W_ALL, 0},
    {"blk.%d.ffn_gate_inp_shexp.weight", HF_LAYER("mlp.shared_expert_gate.weight"), {HD_ONE, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},
    QWEN35_MTP_ROWS,
    ROW_OUTPUT_NORM(XF_ADD1),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return qwen35_derive(h, e);
}

static int build(const struct hparams *h, struct graph *g, struct err *e);
static int build_draft(const struct hparams *h, struct graph *g, struct err *e);
extern const struct arch arch_qwen35moe;
const struct arch arch_qwen35moe = {
    .name = "qwen35moe",
    .hf_classes = hf_classes,
    .family = "Qwen 3.5 MoE",
    .size_note = "hybrid gated delta net, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = qwen35_skip,
    .derive = derive,
    .from_hf = qwen35_from_hf,
    .write_keys = qwen35_write_keys,
    .read_keys = qwen35_read_keys,
    .build = build,
    .build_draft = build_draft,
};

static int build(const struct hparams *h, struct graph *g, struct err *e) {
    return qwen35_graph(&arch_qwen35moe, h, g, part_moe_shared, false, e);
}
static int build_draft(const struct hparams *h, struct graph *g, struct err *e) {
    return qwen35_graph(&arch_qwen35moe, h, g, part_moe_shared, true, e);
}
