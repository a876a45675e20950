// SPDX-License-Identifier: MIT
/* models/starcoder2.c - StarCoder2: LayerNorms, biases everywhere, and an ungated feed-forward.
 * Published configs set a sliding window; it is written under a key that other programs ignore. */
#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Starcoder2ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_FF, HP_ROW_ROPE_BASE, HP_ROW_LAYER_EPS, HP_ROW_VOCAB,
    HP_ROW_WINDOW(HPF_ZERO_OK), {.slot = -1},
};
#define BIASED(gguf, hf, rows, cols, role) \
    ROW_MAT(gguf, hf, rows, cols, role, W_ALL, 0), ROW_VEC(gguf ".bias", hf ".bias", rows, XF_COPY, W_ALL, 0)
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_LAYER_NORM("attn_norm", "input_layernorm"),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS(0),
    ROW_VEC("attn_output.bias", "self_attn.o_proj.bias", HD_EMBD, XF_COPY, W_ALL, 0),
    ROWS_LAYER_NORM("ffn_norm", "post_attention_layernorm"),
    BIASED("ffn_up", "mlp.c_fc", HD_FF, HD_EMBD, ROLE_FFN_UP),
    BIASED("ffn_down", "mlp.c_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN),
    ROWS_OUTPUT_LAYER_NORM,
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    UNUSED(h);
    TRY(hf_check_is(dir, "hidden_act", "gelu_pytorch_tanh", e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .before_ffn = {NORM_LAYER, "ffn_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.act = ACT_GELU}},
    .norm = {NORM_LAYER, "output_norm"},
};

extern const struct arch arch_starcoder2;
const struct arch arch_starcoder2 = {
    .name = "starcoder2",
    .hf_classes = hf_classes,
    .family = "StarCoder2",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .window_period = WINDOW_EVERYWHERE,
    .decoder = &decoder,
};
