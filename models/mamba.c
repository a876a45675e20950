// SPDX-License-Identifier: MIT
/* models/mamba.c - pure Mamba models: Mamba 1, Falcon Mamba (which normalises the three inputs of
 * each scan, without weights), and Mamba 2 (Codestral Mamba). A block is a norm and a mixer; there
 * are no positions and no context, only states. */
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const one_classes[] = {"MambaForCausalLM", "MambaLMHeadModel",
                                          "FalconMambaForCausalLM", NULL};
static const char *const two_classes[] = {"Mamba2ForCausalLM", NULL};
// clang-format off
#define DT_B_C "ssm.dt_b_c_rms"
#define HP_ROWS_ALONE                                                                                               \
    {"block_count", "num_hidden_layers|n_layer", HD_LAYERS, HPF_REQUIRED, 0},                                        \
    {"context_length", NULL, HD_CTX, 0, 1 << 20},                                                                   \
    {"embedding_length", "hidden_size|d_model", HD_EMBD, HPF_REQUIRED, 0},                                          \
    {"feed_forward_length", NULL, HD_FF, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},                                           \
    {"attention.head_count", NULL, HD_HEADS, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},                                       \
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon|rms_norm_eps", HF_RMS_EPS, HPF_REAL, 1e-5},            \
    HP_ROW_VOCAB,                                                                                                   \
    {"ssm.conv_kernel", "conv_kernel|d_conv", HD_CONV_K, 0, 4},                                                     \
    {"ssm.inner_size", "intermediate_size|d_inner", HD_LIN_INNER, 0, 0}
static const struct hp_row one_hp[] = {
    HP_ROWS_ALONE,
    {"ssm.state_size", "state_size|d_state", HD_LIN_K_DIM, 0, 16},
    {"ssm.time_step_rank", NULL, HD_LIN_V_HEADS, 0, 0},
    {DT_B_C, NULL, HD_DT_B_C, HPF_BOOL | HPF_ZERO_OK, 0},
    {.slot = -1},
};
static const struct hp_row two_hp[] = {
    HP_ROWS_ALONE,
    {"ssm.state_size", "state_size|d_state", HD_LIN_K_DIM, 0, 128},
    {"ssm.group_count", "n_groups", HD_LIN_K_HEADS, 0, 1},
    {"ssm.time_step_rank", "num_heads", HD_LIN_V_HEADS, 0, 0},
    {NULL, "head_dim", HD_LIN_V_DIM, HPF_NO_KEY, 0},
    {.slot = -1},
};
#define AT "backbone.layers.%d.mixer."
#define VEC(gguf, hf, ...) {"blk.%d." gguf, AT hf, {__VA_ARGS__}, XF_COPY, 0, ROLE_OTHER, W_MAMBA, TR_F32}
#define MAT(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", AT hf ".weight", {rows, cols}, XF_COPY, 0, role, W_MAMBA, 0}
#define ROWS_OUTSIDE                                                                                                                       \
    {"token_embd.weight", "backbone.embeddings.weight|backbone.embedding.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0}, \
    {"blk.%d.attn_norm.weight", "backbone.layers.%d.norm.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
#define ROWS_END \
    {"output_norm.weight", "backbone.norm_f.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32}, ROW_OUTPUT, {.gguf = NULL}
static const struct tensor_row one_tensors[] = {
    ROWS_OUTSIDE,
    MAT("ssm_in", "in_proj", HD_LIN_IN, HD_EMBD, ROLE_SSM_IN),
    VEC("ssm_conv1d.weight", "conv1d.weight", HD_LIN_INNER, HD_CONV_K),
    {"blk.%d.ssm_conv1d.bias", AT "conv1d.bias", {HD_LIN_INNER}, XF_COPY, 0, ROLE_OTHER, W_MAMBA, TR_F32 | TR_FOUND | TR_IF(HD_CONV_BIAS)},
    MAT("ssm_x", "x_proj", HD_LIN_X, HD_LIN_INNER, ROLE_SSM_BETA),
    MAT("ssm_dt", "dt_proj", HD_LIN_INNER, HD_LIN_V_HEADS, ROLE_SSM_ALPHA), VEC("ssm_dt.bias", "dt_proj.bias", HD_LIN_INNER),
    {"blk.%d.ssm_a", AT "A_log", {HD_LIN_INNER, HD_LIN_K_DIM}, XF_NEG_EXP, 0, ROLE_OTHER, W_MAMBA, TR_F32},
    VEC("ssm_d", "D", HD_LIN_INNER),
    MAT("ssm_out", "out_proj", HD_EMBD, HD_LIN_INNER, ROLE_SSM_OUT),
    ROWS_END,
};
static const struct tensor_row two_tensors[] = {ROWS_OUTSIDE, ROWS_MAMBA2(AT, XF_COPY, XF_COPY), ROWS_END};
// clang-format on

/* Fills layer[] with blocks that consist only of a mixer of `kind`: no feed-forward, no RoPE. */
static int fill_mixers(struct hparams *h, enum mix_kind kind, struct err *e) {
    h->d[HD_NO_ROPE] = 1;
    TRY(layers_fill_hybrid(h, kind, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) h->layer[i].ffn = FFN_NONE;
    return 0;
}
/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int mamba1_derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (d[HD_LIN_INNER] < 1 || d[HD_LIN_V_HEADS] < 1)
        return err_set(e, ERR_DATA, "ssm.inner_size or ssm.time_step_rank is missing");
    TRY(hparams_mul(h, HD_LIN_IN, 2, d[HD_LIN_INNER], e));
    TRY(hparams_mul(h, HD_LIN_STATE, d[HD_LIN_INNER], d[HD_LIN_K_DIM], e));
    d[HD_LIN_X] = d[HD_LIN_V_HEADS] + 2 * d[HD_LIN_K_DIM];
    return fill_mixers(h, MIX_MAMBA1, e);
}
/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int mamba2_derive(struct hparams *h, struct err *e) {
    if (h->d[HD_LIN_V_HEADS] < 1) return err_set(e, ERR_DATA, "ssm.time_step_rank is missing");
    TRY(derive_mamba2(h, e));
    return fill_mixers(h, MIX_MAMBA2, e);
}

/* Computes the inner width if config.json only has its ratio to the model's width. */
static int read_inner(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"use_bias", NULL};
    int64_t expand;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if (h->d[HD_LIN_INNER]) return 0;
    if (!json_i64(hfdir_hparam(dir, "expand"), &expand) || expand < 1 || expand > 64) expand = 2;
    return hparams_mul(h, HD_LIN_INNER, expand, h->d[HD_EMBD], e);
}

/* eps of Falcon Mamba's inner norms; GGUF has no key for it. */
static const double inner_eps = 1e-6;
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int mamba1_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const char *type = json_str(hfdir_hparam(dir, "model_type"));
    const double eps = json_num(hfdir_hparam(dir, "mixer_rms_eps"), inner_eps);
    TRY(read_inner(h, dir, e));
    h->d[HD_DT_B_C] = type && strcmp(type, "falcon_mamba") == 0;
    if (h->d[HD_DT_B_C] && (eps < inner_eps || eps > inner_eps))
        return err_set(e, ERR_DATA, "mixer_rms_eps is %g, not %g, which the format assumes", eps,
                       inner_eps);
    if (!json_i64(hfdir_hparam(dir, "time_step_rank"), &h->d[HD_LIN_V_HEADS])) /* or "auto" */
        h->d[HD_LIN_V_HEADS] = (h->d[HD_EMBD] + 15) / 16;
    return 0;
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int mamba2_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const int64_t *d = h->d;
    TRY(read_inner(h, dir, e));
    if (d[HD_LIN_V_DIM] && !d[HD_LIN_V_HEADS])
        h->d[HD_LIN_V_HEADS] = d[HD_LIN_INNER] / d[HD_LIN_V_DIM];
    return 0;
}

static const struct decoder_spec decoder = {.block = {PRE_NORMS}};

extern const struct arch arch_mamba, arch_mamba2;
const struct arch arch_mamba = {
    .name = "mamba",
    .hf_classes = one_classes,
    .family = "Mamba, Falcon Mamba",
    .size_note = "Mamba 1",
    .hp = one_hp,
    .tensors = one_tensors,
    .derive = mamba1_derive,
    .from_hf = mamba1_from_hf,
    .decoder = &decoder,
};
const struct arch arch_mamba2 = {
    .name = "mamba2",
    .hf_classes = two_classes,
    .family = "Mamba 2, Codestral Mamba",
    .size_note = "Mamba 2",
    .hp = two_hp,
    .tensors = two_tensors,
    .derive = mamba2_derive,
    .from_hf = mamba2_from_hf,
    .decoder = &decoder,
};
