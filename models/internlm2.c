// SPDX-License-Identifier: MIT
/* models/internlm2.c - InternLM 2 and 2.5: a Llama-like decoder. Its checkpoints store q, k and v
 * in one matrix, grouped by key head. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"InternLM2ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_VOCAB, {.slot = -1},
};
#define ROW_QKV(x, rows, xf, role) \
    {"blk.%d.attn_" x ".weight", "model.layers.%d.attention.wqkv.weight", {rows, HD_EMBD}, xf, HD_HEAD_DIM, role, W_ATTN, 0}
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "model.tok_embeddings.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    ROW_NORM("attn_norm", "attention_norm", XF_COPY),
    ROW_QKV("q", HD_ATTN_OUT, XF_QKV_Q, ROLE_ATTN_Q),
    ROW_QKV("k", HD_KV_OUT, XF_QKV_K, ROLE_ATTN_K),
    ROW_QKV("v", HD_KV_OUT, XF_QKV_V, ROLE_ATTN_V),
    ROW_MAT("attn_output", "attention.wo", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    ROW_NORM("ffn_norm", "ffn_norm", XF_COPY),
    ROW_MAT("ffn_gate", "feed_forward.w1", HD_FF, HD_EMBD, ROLE_FFN_GATE, W_DENSE, 0),
    ROW_MAT("ffn_up", "feed_forward.w3", HD_FF, HD_EMBD, ROLE_FFN_UP, W_DENSE, 0),
    ROW_MAT("ffn_down", "feed_forward.w2", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_DENSE, 0),
    ROW_OUTPUT_NORM(XF_COPY),
    {"output.weight", "output.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_GLOBAL, TR_TIED},
    {.gguf = NULL},
};
// clang-format on

/* Checks config.json. RoPE type "dynamic" changes angles only beyond max_position_embeddings, which
 * becomes the file's context length, so it needs no support. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"bias", NULL};
    (void)h;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    return hf_rope_is(dir, "dynamic") ? 0 : hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
};

extern const struct arch arch_internlm2;
const struct arch arch_internlm2 = {
    .name = "internlm2",
    .hf_classes = hf_classes,
    .family = "InternLM 2",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "internlm",
};
