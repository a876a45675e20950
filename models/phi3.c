// SPDX-License-Identifier: MIT
/* models/phi3.c - Phi-3, Phi-3.5, Phi-4 and their minis: fused q, k and v; fused gate and up; in
 * some models partial RoPE; a sliding window in all layers or in none. Long-context models
 * (longrope) have two lists of divisors of RoPE angles: one for sessions up to the original
 * context, one for longer sessions. Phi-3.5-MoE has LayerNorms, biases in attention and head, and
 * two experts per token. Its sparse mixer weighs each of them only against experts of nearly the
 * same score. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Phi3ForCausalLM", NULL};
static const char *const moe_classes[] = {"PhiMoEForCausalLM", "PhimoeForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_ROT, HP_ROW_ROPE_BASE, HP_ROW_VOCAB,
    {"rope.scaling.original_context_length", "rope_parameters.original_max_position_embeddings|original_max_position_embeddings", HD_YARN_CTX, 0, 0},
    HP_ROW_WINDOW(HPF_ZERO_OK | HPF_KEEP_ZERO),
    {.slot = -1},
};
static const struct hp_row moe_hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_ROT, HP_ROW_ROPE_BASE, HP_ROW_VOCAB,
    {"rope.scaling.original_context_length", "rope_parameters.original_max_position_embeddings|original_max_position_embeddings", HD_YARN_CTX, 0, 0},
    HP_ROW_WINDOW(HPF_ZERO_OK | HPF_KEEP_ZERO), HP_ROW_EXPERT_COUNTS,
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_LONGROPE,
    ROWS_PRE_NORMS(XF_COPY),
    ROW_MAT("attn_qkv", "self_attn.qkv_proj", HD_QKV_OUT, HD_EMBD, ROLE_ATTN_QKV, W_ATTN, 0),
    ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    ROWS_FFN_FUSED,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_LONGROPE,
    ROWS_LAYER_NORM("attn_norm", "input_layernorm"), ROWS_LAYER_NORM("ffn_norm", "post_attention_layernorm"),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QKV_BIAS_IF,
    ROW_VEC("attn_output.bias", "self_attn.o_proj.bias", HD_EMBD, XF_COPY, W_ATTN, TR_FOUND | TR_IF(HD_BIAS_OUT)),
    ROW_ROUTER("block_sparse_moe.gate"), ROWS_EXPERT_MATS("block_sparse_moe.experts", "w1", "w3", "w2"),
    ROWS_OUTPUT_LAYER_NORM,
    ROW_OUTPUT,
    {"output.bias", "lm_head.bias", {HD_VOCAB}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32 | TR_FOUND | TR_IF(HD_BIAS_HEAD)},
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int common_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_partial_rope(h, dir, 1, e));
    return hf_rope_long(h, dir, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    return common_from_hf(h, dir, e);
}

/* Default router_jitter_noise; GGUF has no key for it. */
static const double usual_jitter = 0.01;
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int moe_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const double jitter = json_num(hfdir_hparam(dir, "router_jitter_noise"), usual_jitter);
    if (jitter < usual_jitter || jitter > usual_jitter)
        return err_set(e, ERR_DATA, "router_jitter_noise %g is not %g, which the format assumes",
                       jitter, usual_jitter);
    return common_from_hf(h, dir, e);
}
/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int moe_derive(struct hparams *h, struct err *e) {
    if (h->d[HD_EXPERTS_USED] != 2)
        return err_set(e, ERR_DATA, "%lld experts are used, but a sparse mixer chooses 2",
                       (long long)h->d[HD_EXPERTS_USED]);
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

#define KEYS(id, name)                                                                             \
    static int id##_read(struct hparams *h, const struct gguf *g, struct err *e) {                 \
        return longrope_read(h, name, g, e);                                                       \
    }                                                                                              \
    static void id##_write(const struct hparams *h, struct gguf_w *w) {                            \
        longrope_write(h, name, w);                                                                \
    }
KEYS(dense, "phi3")
KEYS(moe, "phimoe")

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}}},
};

#define LN(name)                                                                                   \
    { NORM_LAYER, name }
static const struct decoder_spec moe_decoder = {
    .block = {.before_mix = LN("attn_norm"),
              .before_ffn = LN("ffn_norm"),
              .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.router = {.score = SCORE_MIXER, .keep = true, .margin = 2 * 0.01}}},
    .norm = LN("output_norm"),
};

extern const struct arch arch_phi3, arch_phimoe;
const struct arch arch_phi3 = {
    .name = "phi3",
    .hf_classes = hf_classes,
    .family = "Phi-3 and Phi-4",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .read_keys = dense_read,
    .write_keys = dense_write,
    .window_period = WINDOW_EVERYWHERE,
    .decoder = &decoder,
    .tools = "phi4-mini",
};
const struct arch arch_phimoe = {
    .name = "phimoe",
    .hf_classes = moe_classes,
    .family = "Phi-3.5 MoE",
    .size_note = "mixture-of-experts transformer",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .derive = moe_derive,
    .from_hf = moe_from_hf,
    .read_keys = moe_read,
    .write_keys = moe_write,
    .window_period = WINDOW_EVERYWHERE,
    .decoder = &moe_decoder,
};
