// SPDX-License-Identifier: MIT
/* models/falcon_h1.c - Falcon-H1: parallel attention and Mamba 2 in every block. Conversion folds
 * the model's many multipliers into the weights. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"FalconH1ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROWS_MAMBA2, HP_ROW_VOCAB_KEY, {.slot = -1},
};
#define LAYER(x) "model.layers.%d." x
#define MAT(gguf, hf, rows, cols, mul, role, where) {"blk.%d." gguf ".weight", LAYER(hf ".weight"), {rows, cols}, XF_MULTIPLY, mul, role, where, 0}
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "model.embed_tokens.weight", {HD_VOCAB, HD_EMBD}, XF_MULTIPLY, MUL_EMBD, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    ROW_VEC("ffn_norm", "pre_ff_layernorm.weight", HD_EMBD, XF_COPY, W_ALL, 0), /* this name, without .weight */
    MAT("attn_q", "self_attn.q_proj", HD_ATTN_OUT, HD_EMBD, MUL_QV, ROLE_ATTN_Q, W_ATTN),
    MAT("attn_k", "self_attn.k_proj", HD_KV_OUT, HD_EMBD, MUL_K, ROLE_ATTN_K, W_ATTN),
    MAT("attn_v", "self_attn.v_proj", HD_KV_OUT, HD_EMBD, MUL_QV, ROLE_ATTN_V, W_VALUES),
    MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_ATTN_OUT, MUL_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN),
    ROWS_MAMBA2(LAYER("mamba."), XF_MULTIPLY_IN, XF_MULTIPLY),
    MAT("ffn_gate", "feed_forward.gate_proj", HD_FF, HD_EMBD, MUL_GATE, ROLE_FFN_GATE, W_DENSE),
    ROW_MAT("ffn_up", "feed_forward.up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP, W_DENSE, 0),
    MAT("ffn_down", "feed_forward.down_proj", HD_EMBD, HD_FF, MUL_DOWN, ROLE_FFN_DOWN, W_DENSE),
    {"output_norm.weight", "model.final_layernorm.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    {"output.weight", "lm_head.weight", {HD_VOCAB, HD_EMBD}, XF_MULTIPLY, MUL_HEAD, ROLE_OUTPUT, W_GLOBAL, TR_TIED},
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_mamba2(h, e));
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) h->layer[i].mixer = MIX_BOTH;
    return 0;
}

/* Returns a multiplier of config.json, by default 1. */
static double multiplier_of(const struct hfdir *dir, const char *name) {
    return json_num(hfdir_hparam(dir, name), 1);
}
/* Returns entry i of a list of multipliers, by default 1. */
static double multiplier_at(const struct hfdir *dir, const char *name, int i) {
    const struct json *j = json_first(hfdir_hparam(dir, name));
    while (j && i--) j = json_next(j);
    return json_num(j, 1);
}

/* Combines the multipliers into one factor per group of tensors. */
static int set_factors(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const double in = multiplier_of(dir, "attention_in_multiplier"),
                 ssm = multiplier_of(dir, "ssm_in_multiplier");
    const double mul[MUL_COUNT] = {
        [MUL_NONE] = 1,
        [MUL_EMBD] = multiplier_of(dir, "embedding_multiplier"),
        [MUL_HEAD] = multiplier_of(dir, "lm_head_multiplier"),
        [MUL_QV] = in,
        [MUL_K] = in * multiplier_of(dir, "key_multiplier"),
        [MUL_ATTN_OUT] = multiplier_of(dir, "attention_out_multiplier"),
        [MUL_GATE] = multiplier_at(dir, "mlp_multipliers", 0),
        [MUL_DOWN] = multiplier_at(dir, "mlp_multipliers", 1),
        [MUL_SSM_OUT] = multiplier_of(dir, "ssm_out_multiplier"),
        [MUL_Z] = ssm * multiplier_at(dir, "ssm_multipliers", 0),
        [MUL_X] = ssm * multiplier_at(dir, "ssm_multipliers", 1),
        [MUL_B] = ssm * multiplier_at(dir, "ssm_multipliers", 2),
        [MUL_C] = ssm * multiplier_at(dir, "ssm_multipliers", 3),
        [MUL_DT] = ssm * multiplier_at(dir, "ssm_multipliers", 4),
    };
    for (int i = 0; i < MUL_COUNT; i++) {
        if (!(mul[i] > -1e6 && mul[i] < 1e6))
            return err_set(e, ERR_DATA, "a multiplier is out of range");
        h->mul[i] = (float)mul[i];
    }
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mamba_proj_bias", "projectors_bias",
                                     "mlp_bias", NULL};
    const struct json *at = hfdir_hparam(dir, "attn_layer_indices");
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_rope(dir, e));
    TRY(hf_mamba_inner(h, dir, e));
    if (json_type(at) == JSON_ARR)
        return err_set(e, ERR_DATA, "attn_layer_indices is set, which the format cannot hold");
    if (json_bool(hfdir_hparam(dir, "mamba_rms_norm"), false) &&
        json_bool(hfdir_hparam(dir, "mamba_norm_before_gate"), true))
        return err_set(e, ERR_DATA, "mamba_norm_before_gate is true, which is not supported");
    return set_factors(h, dir, e);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "ffn_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}}},
};

extern const struct arch arch_falcon_h1;
const struct arch arch_falcon_h1 = {
    .name = "falcon-h1",
    .hf_classes = hf_classes,
    .family = "Falcon-H1",
    .size_note = "attention and Mamba 2 side by side",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
};
