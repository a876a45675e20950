// SPDX-License-Identifier: MIT
/* models/cohere2moe.c - Cohere 2 MoE: one norm per block, a LayerNorm or an RMS norm, shared by
 * parallel attention and experts; RoPE over adjacent pairs in sliding-window layers and in leading
 * dense layers without a window; scaled logits. */
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Cohere2MoeForCausalLM", NULL};
static const char *const skip[] = {"=lm_head.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_ROPE_BASE, HP_ROW_ROT, HP_ROW_WINDOW(HPF_REQUIRED), HP_ROW_EXPERT_COUNTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE,
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(1),
    {"feed_forward_length", "prefix_dense_intermediate_size|intermediate_size", HD_FF, HPF_REQUIRED, 0},
    {"expert_feed_forward_length", "intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0},
    {"expert_shared_feed_forward_length", NULL, HD_FF_SHEXP, 0, 0},
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {"logit_scale", "logit_scale", HF_LOGIT_SCALE, HPF_REAL | HPF_REQUIRED, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROW_NORM("attn_norm", "input_layernorm", XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_FFN, ROWS_EXPERTS,
    ROWS_SHARED_EXPERTS, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_shared_experts(h, e));
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        h->layer[i].no_rope = !h->layer[i].window && i >= h->d[HD_LEAD_DENSE];
    return 0;
}

/* Determines which layers have a window if config.json does not list them. The leading dense layers
 * and the others have different periods. */
static int read_windows(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char first[] = "prefix_dense_sliding_window_pattern",
                      others[] = "sliding_window_pattern";
    const int64_t dense = h->d[HD_LEAD_DENSE];
    int64_t lead, rest;
    TRY(hfdir_whole(hfdir_hparam(dir, first), first, 1, &lead, e));
    TRY(hfdir_whole(hfdir_hparam(dir, others), others, 4, &rest, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const int64_t n = i < dense ? lead : rest, at = i < dense ? i : i - dense;
        *layers_own(h, HD_WINDOW, i) = n > 0 && (at + 1) % n ? h->d[HD_WINDOW] : 0;
    }
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    const char *by = json_str(hfdir_hparam(dir, "expert_selection_fn"));
    const struct json *rms = hfdir_hparam(dir, "rms_norm_eps");
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    h->tied = json_bool(hfdir_hparam(dir, "tie_word_embeddings"), true);
    h->d[HD_RMS] = json_type(rms) == JSON_NUM;
    h->f[HF_RMS_EPS] = json_num(h->d[HD_RMS] ? rms : hfdir_hparam(dir, "layer_norm_eps"), 1e-5);
    if (by && strcmp(by, "softmax") != 0 && strcmp(by, "sigmoid") != 0)
        return err_set(e, ERR_DATA, "expert_selection_fn is \"%.40s\", which is not supported", by);
    h->d[HD_SCORE] = by && strcmp(by, "sigmoid") == 0 ? 2 : 1;
    if (h->d[HD_SHEXPS]) TRY(hf_check_is(dir, "shared_expert_combination_strategy", "average", e));
    TRY(hf_lead_dense(h, dir, e));
    if (h->d[HD_LEAD_DENSE] &&
        json_num(hfdir_hparam(dir, "prefix_dense_sliding_window_pattern"), 1) > 1)
        return err_set(e, ERR_DATA,
                       "prefix_dense_sliding_window_pattern is not 1: dense layers without rope, "
                       "which the format cannot hold");
    if (json_type(hfdir_hparam(dir, "layer_types")) != JSON_ARR) TRY(read_windows(h, dir, e));
    return hf_check_rope(dir, e);
}

#define EPS "cohere2moe.attention.layer_norm_"
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    h->d[HD_RMS] = gguf_find(g, EPS "rms_epsilon") != NULL;
    TRY(gguf_get_f64(g, h->d[HD_RMS] ? EPS "rms_epsilon" : EPS "epsilon", &h->f[HF_RMS_EPS], e));
    return h->f[HF_RMS_EPS] > 0 ? 0 : err_set(e, ERR_DATA, EPS "epsilon is out of range");
}
/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    gguf_w_f32(w, h->d[HD_RMS] ? EPS "rms_epsilon" : EPS "epsilon", (float)h->f[HF_RMS_EPS]);
    yarn_write_none(h, "cohere2moe", w);
}

/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    (void)i;
    if (h->d[HD_RMS]) s->before_mix.kind = NORM_RMS; /* the final norm: block_decoder */
    if (h->d[HD_SCORE] != 2) s->ffn.router.keep = false;
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .attn = {.rope = {.kind = ROPE_PAIRS}},
              .ffn = {.router = {.norm_key = true}, .mean_shared = true},
              .parallel = true},
    .layer = layer,
    .norm = {NORM_LAYER, "output_norm"},
};

extern const struct arch arch_cohere2moe;
const struct arch arch_cohere2moe = {
    .name = "cohere2moe",
    .hf_classes = hf_classes,
    .family = "Cohere 2 MoE",
    .size_note = "sliding-window and full attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .write_keys = write_keys,
    .window_period = -1,
    .window_keys = true,
    .decoder = &decoder,
};
