// SPDX-License-Identifier: MIT
/* models/jamba.c - Jamba 1.5 to 1.7: Mamba 1 layers whose three inputs are normalised, and some
 * attention layers without RoPE. Some layers have experts; only the tensors show which. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"JambaForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_HYBRID, HP_ROW_RMS_EPS, HP_ROW_VOCAB,
    {"feed_forward_length", "intermediate_size", HD_FF, HPF_REQUIRED, 0},
    {"ssm.conv_kernel", "mamba_d_conv", HD_CONV_K, HPF_REQUIRED, 0},
    {"ssm.state_size", "mamba_d_state", HD_LIN_K_DIM, HPF_REQUIRED, 0},
    {"ssm.time_step_rank", "mamba_dt_rank", HD_LIN_V_HEADS, HPF_REQUIRED, 0},
    {"ssm.inner_size", NULL, HD_LIN_INNER, HPF_REQUIRED, 0},
    {"expert_count", "num_experts", HD_EXPERTS, HPF_ZERO_OK, 0},
    {"expert_used_count", "num_experts_per_tok", HD_EXPERTS_USED, HPF_ZERO_OK, 0},
    {.slot = -1},
};
#define MAMBA(x) "model.layers.%d.mamba." x
#define VEC(gguf, hf, ...) {"blk.%d." gguf, MAMBA(hf), {__VA_ARGS__}, XF_COPY, 0, ROLE_OTHER, W_MAMBA, TR_F32}
#define MAT(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", MAMBA(hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_MAMBA, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROW_NORM("attn_norm", "input_layernorm", XF_COPY), ROW_NORM("ffn_norm", "pre_ff_layernorm", XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    MAT("ssm_in", "in_proj", HD_LIN_IN, HD_EMBD, ROLE_SSM_IN),
    VEC("ssm_conv1d.weight", "conv1d.weight", HD_LIN_INNER, HD_CONV_K), VEC("ssm_conv1d.bias", "conv1d.bias", HD_LIN_INNER),
    MAT("ssm_x", "x_proj", HD_LIN_X, HD_LIN_INNER, ROLE_SSM_BETA),
    MAT("ssm_dt", "dt_proj", HD_LIN_INNER, HD_LIN_V_HEADS, ROLE_SSM_ALPHA), VEC("ssm_dt.bias", "dt_proj.bias", HD_LIN_INNER),
    VEC("ssm_dt_norm.weight", "dt_layernorm.weight", HD_LIN_V_HEADS),
    VEC("ssm_b_norm.weight", "b_layernorm.weight", HD_LIN_K_DIM), VEC("ssm_c_norm.weight", "c_layernorm.weight", HD_LIN_K_DIM),
    {"blk.%d.ssm_a", MAMBA("A_log"), {HD_LIN_INNER, HD_LIN_K_DIM}, XF_NEG_EXP, 0, ROLE_OTHER, W_MAMBA, TR_F32},
    VEC("ssm_d", "D", HD_LIN_INNER),
    MAT("ssm_out", "out_proj", HD_EMBD, HD_LIN_INNER, ROLE_SSM_OUT),
    ROW_MAT("ffn_gate", "feed_forward.gate_proj", HD_FF, HD_EMBD, ROLE_FFN_GATE, W_DENSE, 0),
    ROW_MAT("ffn_up", "feed_forward.up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP, W_DENSE, 0),
    ROW_MAT("ffn_down", "feed_forward.down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_DENSE, 0),
    ROW_ROUTER("feed_forward.router"), ROWS_EXPERT_MATS("feed_forward.experts", "gate_proj", "up_proj", "down_proj"),
    {"output_norm.weight", "model.final_layernorm.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives the remaining hyperparameters. Layers with a feed-forward width of 0 have experts of
 * width HD_FF. */
static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    d[HD_FF_EXP] = d[HD_FF];
    TRY(derive_experts(h, e));
    TRY(hparams_mul(h, HD_LIN_IN, 2, d[HD_LIN_INNER], e));
    TRY(hparams_mul(h, HD_LIN_STATE, d[HD_LIN_INNER], d[HD_LIN_K_DIM], e));
    d[HD_LIN_X] = d[HD_LIN_V_HEADS] + 2 * d[HD_LIN_K_DIM];
    TRY(layers_fill_hybrid(h, MIX_MAMBA1, e));
    for (int64_t i = 0; i < d[HD_LAYERS]; i++)
        h->layer[i].ffn = h->own[HD_FF] && !h->layer[i].ff ? FFN_MOE : FFN_DENSE;
    return 0;
}

/* Returns whether i % period == offset, with both values read from config.json. */
static bool is_periodic(const struct hfdir *dir, const char *period, const char *offset,
                        int64_t i) {
    int64_t p, o;
    if (!json_i64(hfdir_hparam(dir, period), &p) || p < 1) return false;
    if (!json_i64(hfdir_hparam(dir, offset), &o)) o = 0;
    return i % p == o;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"mamba_proj_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    int64_t expand;
    if (!json_i64(hfdir_hparam(dir, "mamba_expand"), &expand) || expand < 1 || expand > 64)
        expand = 2;
    TRY(hparams_mul(h, HD_LIN_INNER, expand, h->d[HD_EMBD], e));
    if (!h->d[HD_LIN_V_HEADS]) h->d[HD_LIN_V_HEADS] = (h->d[HD_EMBD] + 15) / 16; /* "auto" */
    if (!h->d[HD_KV_HEADS]) h->d[HD_KV_HEADS] = h->d[HD_HEADS];
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const bool attn = is_periodic(dir, "attn_layer_period", "attn_layer_offset", i),
                   moe = h->d[HD_EXPERTS] > 1 &&
                         is_periodic(dir, "expert_layer_period", "expert_layer_offset", i);
        *layers_own(h, HD_KV_HEADS, i) = attn ? h->d[HD_KV_HEADS] : 0;
        *layers_own(h, HD_FF, i) = moe ? 0 : h->d[HD_FF];
    }
    return 0;
}

/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    static const char name[] = "blk.%d.ffn_gate_inp.weight";
    (void)e;
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        char full[64];
        const bool moe =
            arch_name(full, sizeof full, name, sizeof name - 1, i, 0) && gguf_find_tensor(g, full);
        *layers_own(h, HD_FF, i) = moe ? 0 : h->d[HD_FF];
    }
    return 0;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .ffn = {.router = {.keep = true}}},
};

extern const struct arch arch_jamba;
const struct arch arch_jamba = {
    .name = "jamba",
    .hf_classes = hf_classes,
    .family = "Jamba",
    .size_note = "hybrid Mamba 1, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .decoder = &decoder,
};
