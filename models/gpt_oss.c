// SPDX-License-Identifier: MIT
/* models/gpt_oss.c - gpt-oss 20B, 120B, safeguard: a sliding window in every other layer; attention
 * sinks (one number per head, added to the softmax's denominator); biases everywhere; experts with
 * a clamped activation, published in MXFP4. Gate and up are the even and odd rows of one matrix.
 * YaRN does not round the ends of its ramp ("truncate": false); GGUF has no key for that. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"GptOssForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_EXPERT_COUNTS, HP_ROW_WINDOW(HPF_REQUIRED),
    {"expert_feed_forward_length", "intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0},
    {.slot = -1},
};
/* Unsloth's checkpoints store each expert as a separate tensor, hf "s.N.weight", not transposed. */
#define EXPERTS(gguf, hf, rows, cols, xf, role)                                                                                           \
    {"blk.%d." gguf ".weight", HF_LAYER("mlp.experts." hf) "|" HF_LAYER("mlp.experts." hf "s.%e.weight"), {HD_EXPERTS, rows, cols}, xf, 0,  \
     role, W_MOE, 0},                                                                                                                     \
    {"blk.%d." gguf ".bias", HF_LAYER("mlp.experts." hf "_bias") "|" HF_LAYER("mlp.experts." hf "s.%e.bias"), {HD_EXPERTS, rows},          \
     xf == XF_TURN ? XF_COPY : xf, 0, ROLE_OTHER, W_MOE, TR_F32}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS(0),
    ROW_VEC("attn_output.bias", "self_attn.o_proj.bias", HD_EMBD, XF_COPY, W_ATTN, 0),
    ROW_VEC("attn_sinks.weight", "self_attn.sinks", HD_HEADS, XF_COPY, W_ATTN, 0),
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_COPY),
    ROW_ROUTER("mlp.router.linear"),
    {"blk.%d.ffn_gate_inp.bias", HF_LAYER("mlp.router.bias") "|" HF_LAYER("mlp.router.linear.bias"), {HD_EXPERTS}, XF_COPY, 0, ROLE_OTHER, W_MOE,
     TR_F32},
    EXPERTS("ffn_gate_exps", "gate_up_proj", HD_FF_EXP, HD_EMBD, XF_EVEN, ROLE_EXP_GATE),
    EXPERTS("ffn_up_exps", "gate_up_proj", HD_FF_EXP, HD_EMBD, XF_ODD, ROLE_EXP_UP),
    EXPERTS("ffn_down_exps", "down_proj", HD_EMBD, HD_FF_EXP, XF_TURN, ROLE_EXP_DOWN),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    (void)h;
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_swiglu(dir, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "post_attention_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.act = ACT_SWIGLU_OAI, .router = {.score = SCORE_SOFTMAX_CHOSEN}}},
};

extern const struct arch arch_gpt_oss;
const struct arch arch_gpt_oss = {
    .name = "gpt-oss",
    .hf_classes = hf_classes,
    .family = "gpt-oss",
    .size_note = "sliding-window and full attention, mixture of experts",
    .tools = "harmony",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .window_period = 2,
    .yarn_smooth = true,
    .mxfp4 = true,
    .decoder = &decoder,
};
