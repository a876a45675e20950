// SPDX-License-Identifier: MIT
/* models/bailingmoe2.c - Ling 2 and Ring 2: fused q, k and v; per-head norms of queries and keys;
 * RoPE over halves on the first half of each head; leading dense layers, then grouped experts
 * selected by sigmoid scores with a bias, plus shared experts. An MTP block in a GGUF is ignored.
 * Sarvam MoE rotates whole heads. */
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"BailingMoeV2ForCausalLM", "SarvamMoEForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_ROT, HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROWS_GROUPS, HP_ROW_MTP, HP_ROW_VOCAB_KEY,
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", HD_FF_SHEXP, 0, 0}, {.slot = -1},
};
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "model.word_embeddings.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    ROWS_PRE_NORMS(XF_COPY),
    ROW_MAT("attn_qkv", "attention.query_key_value", HD_QKV_OUT, HD_EMBD, ROLE_ATTN_QKV, W_ATTN, 0),
    ROW_VEC("attn_q_norm.weight", "attention.query_layernorm.weight", HD_HEAD_DIM, XF_COPY, W_ATTN, 0),
    ROW_VEC("attn_k_norm.weight", "attention.key_layernorm.weight", HD_HEAD_DIM, XF_COPY, W_ATTN, 0),
    ROW_MAT("attn_output", "attention.dense", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    ROWS_FFN,
    ROWS_EXPERTS,
    ROW_ROUTER_BIAS("mlp.gate.expert_bias"),
    ROWS_SHARED_EXPERTS,
    ROWS_MTP_LAYER,
    ROW_VEC("layer_output_norm.weight", "final_layernorm.weight", HD_EMBD, XF_COPY, W_MTP, TR_OPTIONAL),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    const int64_t shared = h->d[HD_FF_SHEXP];
    TRY(derive_shared_experts(h, e));
    if (shared) h->d[HD_FF_SHEXP] = shared;
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"use_bias", "use_qkv_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "score_function", "sigmoid", e));
    TRY(hf_shared_width(h, e));
    TRY(hf_partial_rope(h, dir, 0.5, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_bailingmoe2;
const struct arch arch_bailingmoe2 = {
    .name = "bailingmoe2",
    .hf_classes = hf_classes,
    .family = "Ling 2, Ring 2 and Sarvam MoE",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "hermes-json",
};
