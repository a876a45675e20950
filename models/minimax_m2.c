// SPDX-License-Identifier: MIT
/* models/minimax_m2.c - MiniMax M2: norms that span all query heads and all key heads, partial
 * RoPE; in every layer, experts selected by sigmoid scores with a bias. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"MiniMaxM2ForCausalLM", NULL};
// clang-format off
#define MOE "block_sparse_moe."
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, {"rope.dimension_count", "rotary_dim", HD_ROT, 0, 0}, HP_ROW_EXPERT_COUNTS,
    {"expert_feed_forward_length", "intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0}, HP_ROW_GATING(2), {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM_WIDE, ROW_ROUTER(MOE "gate"),
    ROWS_EXPERT_MATS(MOE "experts", "w1", "w3", "w2"), ROW_ROUTER_BIAS(MOE "e_score_correction_bias"),
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "scoring_func", "sigmoid", e));
    TRY(hf_check_is(dir, "qk_norm_type", "per_layer", e));
    if (!h->d[HD_ROT]) TRY(hf_partial_rope(h, dir, 1, e));
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID}}},
};

extern const struct arch arch_minimax_m2;
const struct arch arch_minimax_m2 = {
    .name = "minimax-m2",
    .hf_classes = hf_classes,
    .family = "MiniMax M2",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "minimax-invoke",
};
