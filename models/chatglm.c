// SPDX-License-Identifier: MIT
/* models/chatglm.c - GLM-4 of 2024 (glm-4-9b-chat-hf): a Llama-like decoder with biases of q, k and
 * v, fused gate and up, and RoPE over adjacent pairs on the first half of each head. */
#include "base/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"GlmForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_ROT, {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QKV_BIAS_IF, ROWS_FFN_FUSED, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_partial_rope(h, dir, 0.5, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
};

extern const struct arch arch_chatglm;
const struct arch arch_chatglm = {
    .name = "chatglm",
    .hf_classes = hf_classes,
    .family = "GLM-4 (2024)",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
