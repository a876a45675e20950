// SPDX-License-Identifier: MIT
/* models/dots1.c - dots.llm1: per-head norms of queries and keys; leading dense layers, then
 * experts selected by sigmoid scores with a bias, plus shared experts. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Dots1ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE, HP_ROW_EXPERT_NORM(0),
    HP_ROW_GATING(2), {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM(XF_COPY), ROWS_FFN, ROWS_EXPERTS,
    ROW_ROUTER_BIAS("mlp.gate.e_score_correction_bias"), ROWS_SHARED_EXPERTS, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_shared_experts(h, e));
    return layers_fill(h, e);
}

/* Checks config.json. Published configs set a sliding window, but only from a layer past the last
 * one, so it has no effect. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    const struct json *window = hfdir_hparam(dir, "sliding_window");
    if (json_type(window) == JSON_NUM &&
        json_num(hfdir_hparam(dir, "max_window_layers"), 0) < (double)h->d[HD_LAYERS])
        return err_set(e, ERR_DATA,
                       "sliding_window is set for some layers, which the format cannot hold here");
    if (json_num(hfdir_hparam(dir, "n_group"), 1) > 1)
        return err_set(e, ERR_DATA, "experts are in groups, which the format cannot hold here");
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_dots1;
const struct arch arch_dots1 = {
    .name = "dots1",
    .hf_classes = hf_classes,
    .family = "dots.llm1",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
};
