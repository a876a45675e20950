// SPDX-License-Identifier: MIT
/* models/qwen2.c - Qwen 1.5, 2 and 2.5 dense, QwQ, models distilled into them, and dots.ocr: a
 * plain decoder with q, k and v biases, and RoPE that pairs the halves of each head. KORMo has no
 * biases, and different names for its norms. Source: the published configs and weights; the layout
 * follows llama.cpp's converter. */
#include "models/rows.h"

static const char *const hf_classes[] = {"Qwen2ForCausalLM", "KORMoForCausalLM",
                                         "DotsOCRForCausalLM", NULL};
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
// clang-format off
#define NORM(gguf, hf, kormo) \
    {"blk.%d." gguf ".weight", HF_LAYER(hf ".weight") "|" HF_LAYER(kormo ".weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    NORM("attn_norm", "input_layernorm", "pre_attention_layernorm"),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS_IF,
    NORM("ffn_norm", "post_attention_layernorm", "pre_mlp_layernorm"),
    ROWS_FFN,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_windows(h, dir, "max_window_layers", e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}}},
};

extern const struct arch arch_qwen2;
const struct arch arch_qwen2 = {
    .name = "qwen2",
    .family = "Qwen 1.5 to 2.5",
    .hf_classes = hf_classes,
    .size_note = "dense transformer",
    .tools = "hermes-json",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
