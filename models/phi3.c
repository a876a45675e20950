// SPDX-License-Identifier: MIT
/* models/phi3.c - Phi-3, Phi-3.5, Phi-4 and their minis: fused q, k and v; fused gate and up; in
 * some models partial RoPE; a sliding window in all layers or in none. Long-context models
 * (longrope) have two lists of divisors of RoPE angles: one for sessions up to the original
 * context, one for longer sessions. Phi-3.5-MoE has LayerNorms, biases in attention and head, and
 * two experts per token. Its sparse mixer weighs each of them only against experts of nearly the
 * same score. */
#include <math.h>
#include <string.h>

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
#define FACTORS(name, xf) \
    {"rope_factors_" name ".weight", NULL, {HD_HALF_ROT}, xf, 0, ROLE_OTHER, W_GLOBAL, TR_F32 | TR_FOUND | TR_IF(HD_LONG)}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    FACTORS("long", XF_ROPE_FAR),
    FACTORS("short", XF_ROPE_NEAR),
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
    FACTORS("long", XF_ROPE_FAR),
    FACTORS("short", XF_ROPE_NEAR),
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

/* Reads one of longrope's lists of divisors from config.json. */
static int read_list(const struct hparams *h, const struct json *j, float *to, const char *name,
                     struct err *e) {
    int64_t i = 0;
    if (json_type(j) != JSON_ARR || json_len(j) != h->d[HD_ROT] / 2 || json_len(j) > HP_MAX_PAIRS)
        return err_set(e, ERR_DATA, "longrope without a list %s of %lld numbers", name,
                       (long long)h->d[HD_ROT] / 2);
    for (j = json_first(j); j; j = json_next(j), i++) {
        to[i] = (float)json_num(j, 0);
        if (!(to[i] > 0 && isfinite(to[i])))
            return err_set(e, ERR_DATA, "%s[%lld] is not a positive number", name, (long long)i);
    }
    return 0;
}

/* Reads the parameters of longrope (formerly "su"), and sets *is to whether the config has them. */
static int longrope(struct hparams *h, const struct hfdir *dir, bool *is, struct err *e) {
    const struct json *r = hf_rope(dir, ROPE_FULL);
    const char *type = json_str(json_get(r, "rope_type"));
    *is = type && (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0);
    if (!*is) return 0;
    TRY(read_list(h, json_get(r, "long_factor"), h->far, "long_factor", e));
    TRY(read_list(h, json_get(r, "short_factor"), h->near, "short_factor", e));
    const double by =
        json_num(json_get(r, "factor"), (double)h->d[HD_CTX] / (double)h->d[HD_YARN_CTX]);
    const double usual = by > 1 ? sqrt(1 + log(by) / log((double)h->d[HD_YARN_CTX])) : 1;
    const double near = json_num(json_get(r, "short_mscale"), usual),
                 far = json_num(json_get(r, "long_mscale"), near);
    if (far < near || far > near)
        return err_set(e, ERR_DATA,
                       "long_mscale %g is not short_mscale %g: the format has one number", far,
                       near);
    h->f[HF_ROPE_M] = json_num(json_get(r, "attention_factor"), near);
    if (!(h->f[HF_ROPE_M] > 0 && isfinite(h->f[HF_ROPE_M])))
        return err_set(e, ERR_DATA, "the factor of longrope is %g", h->f[HF_ROPE_M]);
    h->d[HD_LONG] = 1;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int common_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    bool is;
    if (!h->d[HD_YARN_CTX]) h->d[HD_YARN_CTX] = h->d[HD_CTX];
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_partial_rope(h, dir, 1, e));
    TRY(longrope(h, dir, &is, e));
    return is ? 0 : hf_check_rope(dir, e);
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

#define ATTN_FACTOR ".rope.scaling.attn_factor"
/* Reads the attention factor of long contexts; a missing key leaves it 0. */
static int read_factor(struct hparams *h, const struct gguf *g, const char *key, struct err *e) {
    return gguf_find(g, key) ? gguf_get_f64(g, key, &h->f[HF_ROPE_M], e) : 0;
}
/* Writes the attention factor of long contexts, if it is set. */
static void write_factor(const struct hparams *h, const char *key, struct gguf_w *w) {
    if (h->f[HF_ROPE_M] > 0) gguf_w_f32(w, key, (float)h->f[HF_ROPE_M]);
}
#define KEYS(id, name)                                                                             \
    static int id##_read(struct hparams *h, const struct gguf *g, struct err *e) {                 \
        return read_factor(h, g, name ATTN_FACTOR, e);                                             \
    }                                                                                              \
    static void id##_write(const struct hparams *h, struct gguf_w *w) {                            \
        write_factor(h, name ATTN_FACTOR, w);                                                      \
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
