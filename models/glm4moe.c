// SPDX-License-Identifier: MIT
/* models/glm4moe.c - GLM-4.5, 4.5 Air, 4.6, 4.7 and Solar Open: leading dense layers, then experts
 * selected by sigmoid scores with a bias, grouped in some models, plus shared experts; RoPE over
 * halves on the first half of each head, in Solar Open on whole heads; an MTP block stored as the
 * last layer. Here post_attention_norm is the norm before the feed-forward. */
#include "base/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Glm4MoeForCausalLM", "SolarOpenForCausalLM",
                                         "Glm4vMoeForConditionalGeneration", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, {"feed_forward_length", "intermediate_size", HD_FF, HPF_LAYERS, 0}, HP_ROW_ROT, HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROWS_GROUPS, HP_ROW_MTP, {.slot = -1},
};
#define QK_NORM_IF(q) \
    ROW_VEC("attn_" q "_norm.weight", "self_attn." q "_norm.weight", HD_HEAD_DIM, XF_COPY, W_ATTN, TR_FOUND | TR_IF(HD_QK_NORM))
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS_IF,
    QK_NORM_IF("q"),
    QK_NORM_IF("k"),
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_COPY),
    ROWS_FFN,
    ROWS_EXPERTS,
    ROW_ROUTER_BIAS("mlp.gate.e_score_correction_bias"),
    ROWS_SHARED_EXPERTS,
    ROWS_MTP_LAYER,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_shared_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "scoring_func", "sigmoid", e));
    static const int64_t none[4] = {0};
    if (!h->d[HD_FF]) h->d[HD_FF] = h->d[HD_FF_EXP]; /* Solar Open has no dense layers */
    TRY(hf_partial_rope(h, dir, 0.5, e));
    TRY(hf_rope_sections(h, dir, none, e));
    return hf_check_rope(dir, e);
}

/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    if (h->d[HD_ROPE_SEC0]) rope_sections_write(h, "glm4moe", w);
}
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    return rope_sections_read(h, "glm4moe", g, false, e);
}

/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    UNUSED(i);
    if (!h->d[HD_QK_NORM]) s->attn.q_norm.kind = s->attn.k_norm.kind = NORM_NONE;
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "post_attention_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
    .sections = SECTIONS_BLOCKS,
    .layer = layer,
};

extern const struct arch arch_glm4moe;
const struct arch arch_glm4moe = {
    .name = "glm4moe",
    .hf_classes = hf_classes,
    .family = "GLM-4.5 to 4.7, 4.5V, 4.6V and Solar Open",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
    .drafts = true,
    .tools = "glm-argkv",
};
