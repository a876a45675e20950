// SPDX-License-Identifier: MIT
/* models/lfm2.c - LFM2, dense and MoE: most layers are short convolutions, the others attention.
 * The final norm is stored under the name of an embedding norm. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const dense_classes[] = {"Lfm2ForCausalLM", "Lfm2VlForConditionalGeneration",
                                            NULL};
static const char *const moe_classes[] = {"Lfm2MoeForCausalLM", NULL};

// clang-format off
#define HP_ROWS                                                                                                \
    HP_ROWS_HYBRID, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE,                                                          \
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},                                                   \
    {"shortconv.l_cache", "conv_L_cache", HD_CONV_K, HPF_REQUIRED, 0},                                         \
    {"feed_forward_length", "block_ff_dim|intermediate_size", HD_FF, HPF_REQUIRED | HPF_LAYERS, 0}
static const struct hp_row dense_hp[] = {HP_ROWS, {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS, HP_ROWS_EXPERTS, HP_ROW_LEAD_DENSE, HP_ROW_GATING(2), {.slot = -1},
};

#define LAYER(x) "model.layers.%d." x
#define FFN(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", LAYER("feed_forward." hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_DENSE, 0}
#define ROWS \
    ROW_TOKEN_EMBD, ROW_NORM("attn_norm", "operator_norm", XF_COPY), ROW_NORM("ffn_norm", "ffn_norm", XF_COPY),                     \
    ROWS_QKV(HD_ATTN_OUT, XF_COPY),                                                                                                 \
    ROW_MAT("attn_output", "self_attn.out_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN, 0),                                \
    ROW_VEC("attn_q_norm.weight", "self_attn.q_layernorm.weight", HD_HEAD_DIM, XF_COPY, W_ATTN, 0),                                 \
    ROW_VEC("attn_k_norm.weight", "self_attn.k_layernorm.weight", HD_HEAD_DIM, XF_COPY, W_ATTN, 0),                                 \
    {"blk.%d.shortconv.conv.weight", LAYER("conv.conv.weight"), {HD_EMBD, HD_CONV_K}, XF_COPY, 0, ROLE_OTHER, W_CONV, TR_F32},      \
    ROW_MAT("shortconv.in_proj", "conv.in_proj", HD_LIN_IN, HD_EMBD, ROLE_SSM_IN, W_CONV, 0),                                       \
    ROW_MAT("shortconv.out_proj", "conv.out_proj", HD_EMBD, HD_EMBD, ROLE_SSM_OUT, W_CONV, 0),                                      \
    FFN("ffn_gate", "w1", HD_FF, HD_EMBD, ROLE_FFN_GATE),                                                                           \
    FFN("ffn_up", "w3", HD_FF, HD_EMBD, ROLE_FFN_UP),                                                                               \
    FFN("ffn_down", "w2", HD_EMBD, HD_FF, ROLE_FFN_DOWN)
#define ROWS_END \
    {"token_embd_norm.weight", "model.embedding_norm.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32}, ROW_OUTPUT, {.gguf = NULL}
static const struct tensor_row dense_tensors[] = {ROWS, ROWS_END};
static const struct tensor_row moe_tensors[] = {
    ROWS,
    ROW_ROUTER("feed_forward.gate"), ROW_ROUTER_BIAS("feed_forward.expert_bias"),
    ROWS_EXPERT_MATS("feed_forward.experts", "w1", "w3", "w2"), ROWS_END,
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    if (h->d[HD_EXPERTS]) TRY(derive_experts(h, e));
    TRY(hparams_mul(h, HD_LIN_IN, 3, h->d[HD_EMBD], e));
    return layers_fill_hybrid(h, MIX_CONV, e);
}

/* Replaces the configured feed-forward width with the width that the model class computes from it:
 * 2/3 of it, times block_ffn_dim_multiplier, rounded up to a multiple of block_multiple_of. */
static int adjust_ff(struct hparams *h, const struct hfdir *dir, struct err *e) {
    if (!json_bool(hfdir_hparam(dir, "block_auto_adjust_ff_dim"), true)) return 0;
    const double by = json_num(hfdir_hparam(dir, "block_ffn_dim_multiplier"), 1);
    const double step = json_num(hfdir_hparam(dir, "block_multiple_of"), 256);
    const double ff = by * (double)(2 * h->d[HD_FF] / 3);
    if (!(by > 0 && step >= 1 && step < 1e6 && ff >= 1 && ff < 1e9))
        return err_set(e, ERR_DATA,
                       "block_ffn_dim_multiplier or block_multiple_of is out of range");
    const int64_t of = (int64_t)step;
    h->d[HD_FF] = ((int64_t)ff + of - 1) / of * of;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"conv_bias", NULL};
    const struct json *types = hfdir_hparam(dir, "layer_types"),
                      *at = hfdir_hparam(dir, "full_attn_idxs"), *tied;
    tied = hfdir_hparam(dir, "tie_embedding");
    h->tied = json_bool(tied ? tied : hfdir_hparam(dir, "tie_word_embeddings"), true);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_rope(dir, e));
    if (h->d[HD_EXPERTS]) {
        const double scale = json_num(hfdir_hparam(dir, "routed_scaling_factor"), 1);
        if (scale < 1 || scale > 1 || !json_bool(hfdir_hparam(dir, "norm_topk_prob"), true) ||
            !json_bool(hfdir_hparam(dir, "use_expert_bias"), true))
            return err_set(e, ERR_DATA,
                           "routed_scaling_factor, norm_topk_prob or use_expert_bias is not "
                           "what this architecture can hold");
    } else
        TRY(adjust_ff(h, dir, e));
    if (types) return layers_mixers_hf(h, types, "conv", e);
    if (!h->d[HD_KV_HEADS]) h->d[HD_KV_HEADS] = h->d[HD_HEADS];
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        *layers_own(h, HD_KV_HEADS, i) = at ? 0 : h->d[HD_KV_HEADS];
    for (const struct json *t = json_first(at); t; t = json_next(t)) {
        int64_t i;
        if (!json_i64(t, &i) || i < 0 || i >= h->d[HD_LAYERS])
            return err_set(e, ERR_DATA, "full_attn_idxs names a layer that is not there");
        *layers_own(h, HD_KV_HEADS, i) = h->d[HD_KV_HEADS];
    }
    return 0;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS}},
    .norm = {NORM_RMS, "token_embd_norm"},
};

extern const struct arch arch_lfm2, arch_lfm2moe;
const struct arch arch_lfm2 = {
    .name = "lfm2",
    .hf_classes = dense_classes,
    .family = "LFM2",
    .size_note = "hybrid short convolution, dense",
    .hp = dense_hp,
    .tensors = dense_tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "python-list",
};
const struct arch arch_lfm2moe = {
    .name = "lfm2moe",
    .hf_classes = moe_classes,
    .family = "LFM2 MoE",
    .size_note = "hybrid short convolution, mixture of experts",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "python-list",
};
