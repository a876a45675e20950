// SPDX-License-Identifier: MIT
/* models/qwen_vl.c - language models of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: those of Qwen2 and Qwen3
 * with RoPE sections for the three positions of an image patch: adjacent pairs in Qwen2-VL, mixed
 * pairs in Qwen3-VL. For text the three positions are equal, so sections have no effect. Qwen3-VL's
 * vision tower adds rows to the output of the first blocks (session_image.deep). */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const qwen2_classes[] = {"Qwen2VLForConditionalGeneration",
                                            "Qwen2_5_VLForConditionalGeneration",
                                            "Qwen2_5OmniModel",
                                            "Qwen2_5OmniForConditionalGeneration",
                                            "Qwen2_5OmniThinkerForConditionalGeneration",
                                            NULL};
static const char *const dense_classes[] = {"Qwen3VLForConditionalGeneration", NULL};
static const char *const moe_classes[] = {"Qwen3VLMoeForConditionalGeneration",
                                          "Qwen3OmniMoeForConditionalGeneration",
                                          "Qwen3OmniMoeThinkerForConditionalGeneration", NULL};
static const char *const skip[] = {"visual.",   "audio_tower.", "talker.",
                                   "code2wav.", "token2wav.",   NULL};
// clang-format off
#define HP_ROW_DEEP {"n_deepstack_layers", NULL, HD_DEEP, HPF_ZERO_OK, 0}
static const struct hp_row qwen2_hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
static const struct hp_row dense_hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_DEEP, {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS_DECODER, HP_ROWS_EXPERTS, HP_ROW_DEEP,
    {"feed_forward_length", "intermediate_size", HD_FF, 0, 0}, /* for dense layers, which no published model has */
    {.slot = -1},
};
/* All experts of a layer in one tensor, whose matrices the checkpoint stores transposed. */
#define EXPERTS(gguf, hf, one, rows, cols, xf, role) \
    {"blk.%d." gguf ".weight", "model.layers.%d.mlp.experts." hf "|model.layers.%d.mlp.experts.%e." one ".weight", {HD_EXPERTS, rows, cols}, xf, 0, role, W_MOE, 0}
#define ROWS_MIX ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM(XF_COPY)
static const struct tensor_row qwen2_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QKV_BIAS(0), ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row dense_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROW_ROUTER("mlp.gate"),
    EXPERTS("ffn_gate_exps", "gate_up_proj", "gate_proj", HD_FF_EXP, HD_EMBD, XF_TURN_FIRST, ROLE_EXP_GATE),
    EXPERTS("ffn_up_exps", "gate_up_proj", "up_proj", HD_FF_EXP, HD_EMBD, XF_TURN_SECOND, ROLE_EXP_UP),
    EXPERTS("ffn_down_exps", "down_proj", "down_proj", HD_EMBD, HD_FF_EXP, XF_TURN, ROLE_EXP_DOWN),
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive_moe(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int common_from_hf(struct hparams *h, const struct hfdir *dir, const int64_t usual[4],
                          struct err *e) {
    TRY(hf_check_windows(h, dir, "max_window_layers", e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_rope_sections(h, dir, usual, e));
    return hf_check_rope(dir, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int qwen2_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const int64_t usual[4] = {16, 24, 24, 0};
    return common_from_hf(h, dir, usual, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const int64_t usual[4] = {24, 20, 20, 0};
    static const char *const no[] = {"attention_bias", NULL};
    const struct json *tower = hfdir_hparam(dir, "vision_config");
    h->d[HD_DEEP] = json_len(json_get(tower, "deepstack_visual_indexes"));
    TRY(hf_check_off(dir, no, e));
    return common_from_hf(h, dir, usual, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int moe_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    /* transformers' Qwen3-VL-MoE ignores norm_topk_prob, Qwen3-Omni-MoE uses it. */
    if (hfdir_hparam(dir, "audio_config|thinker_config")) TRY(hf_check_topk_norm(dir, true, e));
    TRY(hf_all_sparse(dir, e));
    return from_hf(h, dir, e);
}

#define KEYS(id, name)                                                                             \
    static void id##_write(const struct hparams *h, struct gguf_w *w) {                            \
        rope_sections_write(h, name, w);                                                           \
    }                                                                                              \
    static int id##_read(struct hparams *h, const struct gguf *g, struct err *e) {                 \
        return rope_sections_read(h, name, g, false, e);                                           \
    }
KEYS(qwen2, "qwen2vl")
KEYS(dense, "qwen3vl")
KEYS(moe, "qwen3vlmoe")

static const struct decoder_spec qwen2_decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}}},
    .sections = SECTIONS_BLOCKS,
};
static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS}},
    .sections = SECTIONS_MIXED,
};

extern const struct arch arch_qwen2vl, arch_qwen3vl, arch_qwen3vlmoe;
#define ARCH(id)                                                                                   \
    .hf_classes = id##_classes, .hp = id##_hp, .tensors = id##_tensors, .skip = skip,              \
    .write_keys = id##_write, .read_keys = id##_read
const struct arch arch_qwen2vl = {
    ARCH(qwen2),
    .name = "qwen2vl",
    .family = "Qwen 2 and 2.5 VL",
    .size_note = "dense transformer",
    .tools = "hermes-json",
    .derive = layers_fill,
    .from_hf = qwen2_from_hf,
    .decoder = &qwen2_decoder,
};
const struct arch arch_qwen3vl = {
    ARCH(dense),
    .name = "qwen3vl",
    .family = "Qwen 3 VL",
    .size_note = "dense transformer",
    .tools = "hermes-json",
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
const struct arch arch_qwen3vlmoe = {
    ARCH(moe),
    .name = "qwen3vlmoe",
    .family = "Qwen 3 VL MoE",
    .size_note = "mixture-of-experts transformer",
    .tools = "hermes-json",
    .derive = derive_moe,
    .from_hf = moe_from_hf,
    .decoder = &decoder,
};
