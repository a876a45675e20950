// SPDX-License-Identifier: MIT
/* models/olmo.c - OLMo 2 and 3: norms after each half of a block instead of before it, and norms of
 * queries and keys that span all heads. OLMo 3 has a sliding window in three of four layers, and
 * extends the context only in the others. OLMoE: norms before each half, expert weights not divided
 * by their sum. OLMo 1: LayerNorms without weights, and in some models clamped queries, keys and
 * values. */
#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Olmo2ForCausalLM", "Olmo3ForCausalLM", NULL};
static const char *const old_classes[] = {"OlmoForCausalLM", NULL};
static const char *const moe_classes[] = {"OlmoeForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_WINDOW(0), {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_EXPERT_COUNTS, {NULL, "intermediate_size", HD_FF_EXP, HPF_NO_KEY, 0}, {.slot = -1},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM_WIDE, ROWS_EXPERTS, ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT, {.gguf = NULL},
};
static const struct hp_row old_hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_ROPE_BASE, HP_ROW_VOCAB,
    {"attention.layer_norm_epsilon", NULL, HF_RMS_EPS, HPF_REAL, 1e-5}, {.slot = -1},
};
static const struct tensor_row old_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS), ROWS_FFN, ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM_WIDE,
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_COPY),
    ROWS_FFN,
    ROW_NORM("post_ffw_norm", "post_feedforward_layernorm", XF_COPY),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive_moe(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "norm_topk_prob", NULL};
    UNUSED(h);
    TRY(hf_check_off(dir, no, e));
    if (json_type(hfdir_hparam(dir, "clip_qkv")) == JSON_NUM)
        return err_set(e, ERR_DATA, "clip_qkv is set, which is not supported");
    return hf_check_rope(dir, e);
}

#define CLAMP "olmo.attention.clamp_kqv"
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int olmo1_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    h->f[HF_CLAMP_QKV] = json_num(hfdir_hparam(dir, "clip_qkv"), 0);
    if (!(h->f[HF_CLAMP_QKV] >= 0 && h->f[HF_CLAMP_QKV] < 1e6))
        return err_set(e, ERR_DATA, "clip_qkv is %g", h->f[HF_CLAMP_QKV]);
    return hf_check_rope(dir, e);
}
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int olmo1_read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    if (gguf_find(g, CLAMP)) TRY(gguf_get_f64(g, CLAMP, &h->f[HF_CLAMP_QKV], e));
    return h->f[HF_CLAMP_QKV] >= 0 && h->f[HF_CLAMP_QKV] < 1e6
               ? 0
               : err_set(e, ERR_DATA, CLAMP " is %g", h->f[HF_CLAMP_QKV]);
}
/* Writes the keys that only this architecture has. */
static void olmo1_write_keys(const struct hparams *h, struct gguf_w *w) {
    if (h->f[HF_CLAMP_QKV] > 0) gguf_w_f32(w, CLAMP, (float)h->f[HF_CLAMP_QKV]);
}

static const struct decoder_spec old_decoder = {
    .block = {.before_mix = {NORM_LAYER, NULL},
              .before_ffn = {NORM_LAYER, NULL},
              .attn = {.rope = {.kind = ROPE_PAIRS}}},
    .norm = {NORM_LAYER, NULL},
};

static const struct decoder_spec decoder = {
    .block = {POST_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES, .scaling = SCALING_FULL}, QK_NORMS}},
};

static const struct decoder_spec moe_decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.router = {.keep = true}}},
};

extern const struct arch arch_olmo, arch_olmo2, arch_olmoe;
const struct arch arch_olmo = {
    .name = "olmo",
    .hf_classes = old_classes,
    .family = "OLMo",
    .size_note = "dense transformer",
    .hp = old_hp,
    .tensors = old_tensors,
    .derive = layers_fill,
    .from_hf = olmo1_from_hf,
    .read_keys = olmo1_read_keys,
    .write_keys = olmo1_write_keys,
    .decoder = &old_decoder,
};
const struct arch arch_olmo2 = {
    .name = "olmo2",
    .hf_classes = hf_classes,
    .family = "OLMo 2 and 3",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .window_period = 4,
    .window_keys = true,
    .decoder = &decoder,
    .tools = "python-lines",
};
const struct arch arch_olmoe = {
    .name = "olmoe",
    .hf_classes = moe_classes,
    .family = "OLMoE",
    .size_note = "mixture-of-experts transformer",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .derive = derive_moe,
    .from_hf = from_hf,
    .decoder = &moe_decoder,
};
