// SPDX-License-Identifier: MIT
/* models/arcee.c - Arcee AFM-4.5B: a Llama-like decoder with an ungated squared-ReLU
 * feed-forward. */
#include "base/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"ArceeForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_ROT,
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS), ROWS_FFN_UNGATED, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    UNUSED(h);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "relu2", e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}, .ffn = {.act = ACT_RELU2}},
};

extern const struct arch arch_arcee;
const struct arch arch_arcee = {
    .name = "arcee",
    .hf_classes = hf_classes,
    .family = "Arcee AFM",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
