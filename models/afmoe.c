// SPDX-License-Identifier: MIT
/* models/afmoe.c - Arcee Trinity: norms before and after each half of a block, per-head norms of
 * queries and keys; attention output gated elementwise; sliding windows and RoPE in three of four
 * layers; leading dense layers, then experts selected by sigmoid scores with a bias, plus shared
 * experts. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"AfmoeForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_WINDOW(0), HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROW_ROT, HP_ROW_VOCAB_KEY, {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY),
    ROW_MAT("attn_gate", "self_attn.gate_proj", HD_ATTN_OUT, HD_EMBD, ROLE_ATTN_GATE, W_ATTN, 0),
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_COPY),
    ROW_NORM("ffn_norm", "pre_mlp_layernorm", XF_COPY),
    ROWS_FFN,
    ROW_ROUTER("mlp.router.gate"),
    ROWS_EXPERT_MATS("mlp.experts", "gate_proj", "up_proj", "down_proj"),
    ROW_ROUTER_BIAS("mlp.expert_bias"),
    ROWS_SHARED_EXPERTS,
    ROW_NORM("post_ffw_norm", "post_mlp_layernorm", XF_COPY),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_shared_experts(h, e));
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) h->layer[i].no_rope = !h->layer[i].window;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    (void)h;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "score_func", "sigmoid", e));
    if (!json_bool(hfdir_hparam(dir, "mup_enabled"), false))
        return err_set(e, ERR_DATA,
                       "mup_enabled is not true: embeddings without their factor, "
                       "which the format cannot hold");
    if (json_num(hfdir_hparam(dir, "n_group"), 1) > 1)
        return err_set(e, ERR_DATA, "experts are in groups, which the format cannot hold here");
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, POST_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES}, .gate = GATE_ELEMENT, QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
    .embd_sqrt = true,
};

extern const struct arch arch_afmoe;
const struct arch arch_afmoe = {
    .name = "afmoe",
    .hf_classes = hf_classes,
    .family = "Trinity",
    .size_note = "sliding-window and full attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .window_period = 4,
    .decoder = &decoder,
    .tools = "hermes-json",
};
