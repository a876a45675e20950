// SPDX-License-Identifier: MIT
/* models/granite.c - Granite 3 and 4 dense: a llama-like decoder with factors of embeddings,
 * scores, what each half of a block adds, and logits (which are divided by theirs). */
#include "core/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"GraniteForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_ROT,
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {"attention.scale", "attention_multiplier", HF_ATTN_SCALE, HPF_REAL, 0},
    {"embedding_scale", "embedding_multiplier", HF_EMBD_SCALE, HPF_REAL, 1},
    {"residual_scale", "residual_multiplier", HF_RESIDUAL_SCALE, HPF_REAL, 1},
    {"logit_scale", "logits_scaling", HF_LOGIT_SCALE, HPF_REAL, 1},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS), ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    UNUSED(h);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
    .logits_divided = true,
};

extern const struct arch arch_granite;
const struct arch arch_granite = {
    .name = "granite",
    .hf_classes = hf_classes,
    .family = "Granite 3 and 4 dense",
    .size_note = "dense transformer",
    .tools = "granite-list hermes-json",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
