// SPDX-License-Identifier: MIT
/* models/mimo2.c - MiMo-V2-Flash and MiMo-V2.5: sliding-window layers have more key/value heads,
 * sinks and their own RoPE base; values are narrower than keys and scaled; partial RoPE; first
 * layer dense, then experts selected by sigmoid scores with a bias. The MTP blocks (three in
 * published checkpoints) are dense layers with a window; hone does not compute them.
 *
 * hone counts the token itself as part of the window, the published code does not. So the window
 * here is sliding_window_size + 1 (as in transformers). */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "base/printable.h"
#include "base/str.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_VOCAB, HP_ROW_FF, HP_ROW_ROT, HP_ROWS_EXPERTS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROW_MTP,
    {"attention.sliding_window", "sliding_window_size|sliding_window", HD_WINDOW, 0, 0},
    {"attention.layer_norm_rms_epsilon", "layernorm_epsilon|rms_norm_eps", HF_RMS_EPS, HPF_REAL | HPF_REQUIRED, 0},
    {"attention.key_length", "head_dim", HD_HEAD_DIM, HPF_REQUIRED, 0},
    {"attention.value_length", "v_head_dim", HD_V_DIM, HPF_REQUIRED, 0},
    {"attention.value_scale", "attention_value_scale", HF_VALUE_SCALE, HPF_REAL, 1},
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta|rope_theta", HF_ROPE_BASE, HPF_REAL, 5000000},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta|swa_rope_theta", HF_ROPE_BASE, HPF_REAL | HPF_WINDOWED, 10000},
    {.slot = -1},
};
#define QKV(x, xf, rows, role) \
    {"blk.%d.attn_" x ".weight", HF_LAYER("self_attn." x "_proj.weight") "|" HF_LAYER("self_attn.qkv_proj.weight"), {rows, HD_EMBD}, xf, 0, role, W_ATTN, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    {"blk.%d.ffn_norm.weight", HF_LAYER("post_attention_layernorm.weight") "|" HF_LAYER("pre_mlp_layernorm.weight"), {HD_EMBD}, XF_COPY, 0,
     ROLE_OTHER, W_ALL, TR_F32},
    QKV("q", XF_STRIPE_Q, HD_ATTN_OUT, ROLE_ATTN_Q), QKV("k", XF_STRIPE_K, HD_KV_OUT, ROLE_ATTN_K), QKV("v", XF_STRIPE_V, HD_V_OUT, ROLE_ATTN_V),
    ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_O_IN, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    {"blk.%d.attn_sinks.weight", HF_LAYER("self_attn.attention_sink_bias"), {HD_HEADS}, XF_COPY, 0, ROLE_OTHER, W_WINDOW,
     TR_F32 | TR_FOUND | TR_IF(HD_SINKS)},
    ROWS_FFN,
    ROWS_EXPERTS,
    ROW_ROUTER_BIAS("mlp.gate.e_score_correction_bias"),
    {"blk.%d.nextn.eh_proj.weight", MTP("eh_proj.weight"), {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},
    {"blk.%d.nextn.enorm.weight", MTP("enorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32},
    {"blk.%d.nextn.hnorm.weight", MTP("hnorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32},
    {"blk.%d.layer_output_norm.weight", MTP("final_layernorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32 | TR_OPTIONAL},
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    if (h->d[HD_V_DIM] > h->d[HD_HEAD_DIM])
        return err_set(e, ERR_DATA, "values of %lld numbers are wider than keys of %lld",
                       (long long)h->d[HD_V_DIM], (long long)h->d[HD_HEAD_DIM]);
    TRY(derive_experts(h, e));
    TRY(layers_fill(h, e));
    const int64_t n = h->d[HD_LAYERS];
    int64_t like = 0;
    while (like < n - 1 && !h->layer[like].window) like++;
    for (int64_t i = n; i < n + h->d[HD_MTP]; i++) {
        h->layer[i] = h->layer[like];
        h->layer[i].kv_of = (int)i;
        h->layer[i].ffn = FFN_DENSE;
    }
    return 0;
}

/* Reads two lists with 0 or 1 per layer: which layers have a window, and which have experts. */
static int read_lists(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const bool newer = hfdir_hparam(dir, "layer_types") != NULL;
    const struct json *w = newer ? NULL : json_first(hfdir_hparam(dir, "hybrid_layer_pattern"));
    const struct json *m = json_first(hfdir_hparam(dir, "moe_layer_freq"));
    const bool neither = !w && !newer; /* class default: first and every 6th layer are full */
    for (int64_t i = 0; (w || neither) && i < h->d[HD_LAYERS]; w = json_next(w), i++)
        *layers_own(h, HD_WINDOW, i) =
            (w ? json_num(w, 0) > 0 : i && (i + 1) % 6) ? h->d[HD_WINDOW] : 0;
    h->d[HD_LEAD_DENSE] = !m;
    for (int64_t i = 0; m && i < h->d[HD_LAYERS]; m = json_next(m), i++) {
        const bool dense = !(json_num(m, 0) > 0);
        if (dense && h->d[HD_LEAD_DENSE] < i)
            return err_set(e, ERR_DATA, "moe_layer_freq[%lld]: dense layers must come first",
                           (long long)i);
        h->d[HD_LEAD_DENSE] += dense;
    }
    return hf_lead_dense(h, dir, e);
}

/* Rejects a value for sliding-window layers that differs from `want`, the value of the other
 * layers. */
static int check_equal(const struct hfdir *dir, const char *key, int64_t want, struct err *e) {
    int64_t is;
    return json_i64(hfdir_hparam(dir, key), &is) && is != want
               ? err_set(e, ERR_DATA, "%s is %lld, not %lld", key, (long long)is, (long long)want)
               : 0;
}

static const char fused[] = "self_attn.qkv_proj.weight";

/* Returns whether the folder has fused matrices. */
static bool is_fused(const struct hfdir *dir) {
    for (int64_t i = 0; i < hfdir_n_tensors(dir); i++)
        if (str_ends(hfdir_tensor_at(dir, i)->name, fused)) return true;
    return false;
}

/* Returns whether the scales of all fused qkv_proj are those of n stripes, with blocks of `block`
 * rows of their own, and in some layers not also those of a matrix without stripes. */
static bool fits_stripes(const struct hparams *h, const struct hfdir *dir, int64_t n,
                         int64_t block) {
    char name[256];
    bool shown = false;
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        if (h->layer[i].kv_heads % n || h->d[HD_HEADS] % n) return false;
    for (int64_t i = 0; i < hfdir_n_tensors(dir); i++) {
        const struct st_tensor *t = hfdir_tensor_at(dir, i);
        if (!str_ends(t->name, fused)) continue;
        snprintf(name, sizeof name, "%s_scale_inv", t->name);
        const struct st_tensor *scales = hfdir_find(dir, name);
        if (!scales || scales->n_dims != 2 || t->n_dims != 2) return false;
        const int64_t rows = t->shape[0], blocks = scales->shape[0];
        if (rows % n || blocks != n * div_up(rows / n, block)) return false;
        shown = shown || blocks != div_up(rows, block);
    }
    return shown;
}

/* Returns ERR_DATA if scales of an FP8 qkv_proj are missing. */
static int check_scales(const struct hfdir *dir, struct err *e) {
    char name[256];
    for (int64_t i = 0; i < hfdir_n_tensors(dir); i++) {
        const struct st_tensor *t = hfdir_tensor_at(dir, i);
        if (!str_ends(t->name, fused) || t->dtype != ST_F8_E4M3) continue;
        snprintf(name, sizeof name, "%s_scale_inv", t->name);
        if (hfdir_find(dir, name)) continue;
        return err_set(e, ERR_DATA,
                       "tensor %s is missing: %s cannot be decoded without its scales; download "
                       "the folder again",
                       show_n(name, strlen(name)).s, show_n(t->name, strlen(t->name)).s);
    }
    return 0;
}

/* Sets the number of stripes of MiMo-V2.5 as released. Each layer has one qkv_proj, whose stripes
 * hold q, k and v of their heads, 4 stripes or 8 (Pro), in FP8 with scale blocks that restart in
 * each stripe. Only the number of these blocks shows the layout: re-saved folders have the same
 * shapes and keys, but store all of q before all of k. ERR_DATA unless exactly one power of two
 * from 4 on fits it. */
static int find_stripes(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t block = 128, n_fits = 0;
    if (!is_fused(dir)) return 0;
    TRY(check_scales(dir, e));
    const struct json *quant = hfdir_hparam(dir, "quantization_config");
    (void)json_i64(json_first(json_get(quant, "weight_block_size")), &block);
    for (int64_t n = 4; n <= h->d[HD_HEADS] && block > 0; n *= 2) {
        if (!fits_stripes(h, dir, n, block)) continue;
        h->d[HD_QKV_STRIPES] = n;
        n_fits++;
    }
    if (n_fits == 1) return 0;
    return err_set(
        e, ERR_DATA,
        "qkv_proj holds q, k and v either one after the other or in stripes of the training's "
        "ranks, and the scales in the folder do not tell them apart: use the FP8 release, or a "
        "copy with q_proj, k_proj and v_proj");
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "add_full_attention_sink_bias", NULL};
    int64_t before, kv = 2 * h->d[HD_KV_HEADS];
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "scoring_func", "sigmoid", e));
    if (json_i64(hfdir_hparam(dir, "sliding_window_size"), &before) && before > 0)
        h->d[HD_WINDOW] = before + 1;
    TRY(check_equal(dir, "swa_num_attention_heads", h->d[HD_HEADS], e));
    TRY(check_equal(dir, "swa_head_dim", h->d[HD_HEAD_DIM], e));
    TRY(check_equal(dir, "swa_v_head_dim", h->d[HD_V_DIM], e));
    (void)json_i64(hfdir_hparam(dir, "swa_num_key_value_heads"), &kv);
    if (kv < 1 || kv > 1 << 20)
        return err_set(e, ERR_DATA, "swa_num_key_value_heads is %lld", (long long)kv);
    if (json_num(hfdir_hparam(dir, "n_group"), 1) > 1)
        return err_set(e, ERR_DATA, "experts are in groups, which the format cannot hold here");
    TRY(hf_partial_rope(h, dir, 0.334, e));
    TRY(read_lists(h, dir, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        if (h->layer[i].window) h->layer[i].window = h->d[HD_WINDOW];
        *layers_own(h, HD_KV_HEADS, i) = h->layer[i].window ? kv : h->d[HD_KV_HEADS];
    }
    TRY(find_stripes(h, dir, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_mimo2;
const struct arch arch_mimo2 = {
    .name = "mimo2",
    .hf_classes = hf_classes,
    .family = "MiMo-V2-Flash, MiMo-V2.5",
    .size_note = "sliding-window and full attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .keeps_mtp = true,
    .derive = derive,
    .from_hf = from_hf,
    .window_period = -1,
    .window_keys = true,
    .decoder = &decoder,
    .tools = "qwen-xml",
};
