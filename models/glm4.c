// SPDX-License-Identifier: MIT
/* models/glm4.c - GLM-4-0414 and GLM-Z1 (9B, 32B): norms before and after each half, q, k and v
 * biases, fused gate and up, RoPE over adjacent pairs on the first half of each head. GLM-4.1V and
 * 4V have RoPE sections for image positions; their files pair the halves instead. */
#include "base/attr.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Glm4ForCausalLM", "Glm4vForConditionalGeneration", NULL};
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_ROT, {.slot = -1}};
#define BIAS(q, width, xf) \
    {"blk.%d.attn_" q ".bias", HF_LAYER("self_attn." q "_proj.bias"), {width}, xf, HD_HEAD_DIM, ROLE_OTHER, W_ATTN, TR_F32 | TR_FOUND | TR_IF(HD_BIAS_QKV)}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_HALVES),
    BIAS("q", HD_ATTN_OUT, XF_ROPE_HALVES), BIAS("k", HD_KV_OUT, XF_ROPE_HALVES), BIAS("v", HD_KV_OUT, XF_COPY),
    ROW_NORM("post_attention_norm", "post_self_attn_layernorm", XF_COPY),
    ROW_NORM("ffn_norm", "post_attention_layernorm", XF_COPY),
    ROWS_FFN_FUSED,
    ROW_NORM("post_ffw_norm", "post_mlp_layernorm", XF_COPY),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    static const int64_t none[4] = {0};
    TRY(hf_partial_rope(h, dir, 0.5, e));
    TRY(hf_rope_sections(h, dir, none, e));
    return hf_check_rope(dir, e);
}

/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    if (h->d[HD_ROPE_SEC0]) rope_sections_write(h, "glm4", w);
}
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    return rope_sections_read(h, "glm4", g, false, e);
}
/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    UNUSED(i);
    if (h->d[HD_ROPE_SEC0]) s->attn.rope.kind = ROPE_HALVES;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, POST_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
    .layer = layer,
    .sections = SECTIONS_BLOCKS,
};

extern const struct arch arch_glm4;
const struct arch arch_glm4 = {
    .name = "glm4",
    .hf_classes = hf_classes,
    .family = "GLM-4 0414, Z1 and 4.1V",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
};
