// SPDX-License-Identifier: MIT
/* models/glm4.c - GLM-4-0414 and GLM-Z1 (9B, 32B): norms on both sides of each half, biases of q, k
 * and v, gate and up in one matrix, rope of neighbours in the first half of each head. */
#include "core/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Glm4ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_ROT, {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS_IF,
    ROW_NORM("post_attention_norm", "post_self_attn_layernorm", XF_COPY),
    ROW_NORM("ffn_norm", "post_attention_layernorm", XF_COPY),
    ROWS_FFN_FUSED,
    ROW_NORM("post_ffw_norm", "post_mlp_layernorm", XF_COPY),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_partial_rope(h, dir, 0.5, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, POST_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
};

extern const struct arch arch_glm4;
const struct arch arch_glm4 = {
    .name = "glm4",
    .hf_classes = hf_classes,
    .family = "GLM-4 0414 and Z1",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
