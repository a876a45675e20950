// SPDX-License-Identifier: MIT
/* models/seed_oss.c - Seed-OSS: a plain decoder with biases of q, k and v. */
#include "base/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"SeedOssForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS_IF,
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_COPY),
    ROWS_FFN,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_out_bias", "mlp_bias", NULL};
    UNUSED(h);
    TRY(hf_check_off(dir, no, e));
    return hf_check_rope(dir, e);
}

/* The norm before the feed-forward is called post_attention_norm. */
static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "post_attention_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}}},
};

extern const struct arch arch_seed_oss;
const struct arch arch_seed_oss = {
    .name = "seed_oss",
    .hf_classes = hf_classes,
    .family = "Seed-OSS",
    .size_note = "dense transformer",
    .tools = "seed-xml",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
