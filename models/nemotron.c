// SPDX-License-Identifier: MIT
/* models/nemotron.c - Nemotron-4 and Minitron: LayerNorms whose weights are stored minus 1 in
 * checkpoints, partial RoPE, an ungated squared-ReLU feed-forward. Jais 2: the same feed-forward,
 * plain LayerNorms, RoPE on whole heads, biases everywhere. */
#include "base/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"NemotronForCausalLM", NULL};
static const char *const jais_classes[] = {"Jais2ForCausalLM", NULL};
// clang-format off
#define HP_ROWS HP_ROWS_SIZES, HP_ROW_FF, HP_ROW_ROPE_BASE, HP_ROW_ROT, HP_ROW_LAYER_EPS, HP_ROW_VOCAB
static const struct hp_row hp[] = {HP_ROWS, {.slot = -1}};
#define LAYER_NORM(gguf, hf, xf) \
    ROW_NORM(gguf, hf, xf), ROW_VEC(gguf ".bias", hf ".bias", HD_EMBD, XF_COPY, W_ALL, 0)
#define BIAS_IF(gguf, hf, width, slot) ROW_VEC(gguf ".bias", hf ".bias", width, XF_COPY, W_ALL, TR_FOUND | TR_IF(slot))
#define ROWS(xf)                                                                                                     \
    ROW_TOKEN_EMBD,                                                                                                  \
    LAYER_NORM("attn_norm", "input_layernorm", xf),                                                                  \
    LAYER_NORM("ffn_norm", "post_attention_layernorm", xf),                                                          \
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),                                                                                 \
    ROWS_QKV_BIAS_IF,                                                                                                \
    BIAS_IF("attn_output", "self_attn.o_proj", HD_EMBD, HD_BIAS_OUT),                                                \
    ROWS_FFN_UNGATED,                                                                                                \
    BIAS_IF("ffn_up", "mlp.up_proj", HD_FF, HD_BIAS_FFN),                                                            \
    BIAS_IF("ffn_down", "mlp.down_proj", HD_EMBD, HD_BIAS_FFN),                                                      \
    ROW_OUTPUT_NORM(xf),                                                                                             \
    {"output_norm.bias", "model.norm.bias", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},                    \
    ROW_OUTPUT
static const struct tensor_row tensors[] = {ROWS(XF_ADD1), {.gguf = NULL}};
static const struct tensor_row jais_tensors[] = {ROWS(XF_COPY), {.gguf = NULL}};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "relu2", e));
    TRY(hf_partial_rope(h, dir, 0.5, e));
    return hf_check_rope(dir, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int jais_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    UNUSED(h);
    TRY(hf_check_is(dir, "hidden_act", "relu2", e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .before_ffn = {NORM_LAYER, "ffn_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.act = ACT_RELU2}},
    .norm = {NORM_LAYER, "output_norm"},
};

extern const struct arch arch_nemotron, arch_jais2;
const struct arch arch_nemotron = {
    .name = "nemotron",
    .hf_classes = hf_classes,
    .family = "Nemotron-4 and Minitron",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
const struct arch arch_jais2 = {
    .name = "jais2",
    .hf_classes = jais_classes,
    .family = "Jais 2",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = jais_tensors,
    .derive = layers_fill,
    .from_hf = jais_from_hf,
    .decoder = &decoder,
};
