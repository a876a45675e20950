// SPDX-License-Identifier: MIT
/* models/exaone.c - EXAONE 3, 3.5 and Deep: a Llama-like decoder with Llama 3's RoPE scaling and
 * names of its own. */
#include "models/rows.h"

static const char *const hf_classes[] = {"ExaoneForCausalLM", NULL};
// clang-format off
#define LAYER(x) "transformer.h.%d." x
#define MAT(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", LAYER(hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_ALL, 0}
#define NORM(gguf, hf) {"blk.%d." gguf ".weight", LAYER(hf ".weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
static const struct hp_row hp[] = {
    HP_ROWS_SIZES,
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon|rms_norm_eps", HF_RMS_EPS, HPF_REAL | HPF_REQUIRED, 0},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon|rms_norm_eps", HF_RMS_EPS, HPF_REAL, 0},
    HP_ROW_ROPE_BASE, HP_ROW_VOCAB, HP_ROW_FF, HP_ROW_ROT, {.slot = -1},
};
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "transformer.wte.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    ROW_LLAMA3_FREQS,
    NORM("attn_norm", "ln_1"),
    MAT("attn_q", "attn.attention.q_proj", HD_ATTN_OUT, HD_EMBD, ROLE_ATTN_Q),
    MAT("attn_k", "attn.attention.k_proj", HD_KV_OUT, HD_EMBD, ROLE_ATTN_K),
    MAT("attn_v", "attn.attention.v_proj", HD_KV_OUT, HD_EMBD, ROLE_ATTN_V),
    MAT("attn_output", "attn.attention.out_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT),
    NORM("ffn_norm", "ln_2"),
    MAT("ffn_gate", "mlp.c_fc_0", HD_FF, HD_EMBD, ROLE_FFN_GATE),
    MAT("ffn_up", "mlp.c_fc_1", HD_FF, HD_EMBD, ROLE_FFN_UP),
    MAT("ffn_down", "mlp.c_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN),
    {"output_norm.weight", "transformer.ln_f.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "activation_function", "silu", e));
    return hf_rope_llama3(h, dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}}},
};

extern const struct arch arch_exaone;
const struct arch arch_exaone = {
    .name = "exaone",
    .hf_classes = hf_classes,
    .family = "EXAONE 3 and 3.5",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
