// SPDX-License-Identifier: MIT
/* models/ernie45.c - ERNIE 4.5, dense and MoE: a Llama-like decoder with RoPE over adjacent pairs,
 * as stored in checkpoints. Experts are selected by probability plus a bias; a few more are shared.
 * The MTP block of published checkpoints is omitted. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM", NULL};
static const char *const moe_classes[] = {"Ernie4_5_MoeForCausalLM", NULL};
static const char *const skip[] = {"=mtp_block.", "=mtp_emb_norm.", "=mtp_hidden_norm.",
                                   "=mtp_linear_proj.", NULL};
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF,
    {"expert_count", "moe_num_experts", HD_EXPERTS, HPF_REQUIRED, 0},
    {"expert_used_count", "moe_k", HD_EXPERTS_USED, HPF_REQUIRED, 0},
    {"expert_feed_forward_length", "moe_intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0},
    {"expert_shared_count", "moe_num_shared_experts", HD_SHEXPS, HPF_ZERO_OK, 0},
    {"expert_shared_feed_forward_length", NULL, HD_FF_SHEXP, HPF_ZERO_OK, 0},
    {"interleave_moe_layer_step", "moe_layer_interval", HD_MOE_STEP, 0, 1},
    {"leading_dense_block_count", "moe_layer_start_index", HD_LEAD_DENSE, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    {.slot = -1},
};
#define ROWS_MIX ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY)
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_FFN, ROWS_EXPERTS,
    {"blk.%d.exp_probs_b.bias", "model.layers.%d.mlp.moe_statics.e_score_correction_bias", {HD_ONE, HD_EXPERTS}, XF_COPY, 0, ROLE_OTHER,
     W_MOE, TR_F32},
    ROWS_SHARED_EXPERTS,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives values that have no keys. Other programs store a different width for the shared experts;
 * it is ignored, and computed from the width of the experts. */
static int derive_moe(struct hparams *h, struct err *e) {
    TRY(derive_shared_experts(h, e));
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"use_bias", NULL};
    (void)h;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    return hf_check_rope(dir, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int moe_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t last = -1;
    if (json_i64(hfdir_hparam(dir, "moe_layer_end_index"), &last) && last >= 0 &&
        last < h->d[HD_LAYERS] - 1)
        return err_set(e, ERR_DATA,
                       "moe_layer_end_index is %lld: dense layers after those with experts are "
                       "not supported",
                       (long long)last);
    return from_hf(h, dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
};

extern const struct arch arch_ernie45, arch_ernie45_moe;
const struct arch arch_ernie45 = {
    .name = "ernie4_5",
    .hf_classes = hf_classes,
    .family = "ERNIE 4.5",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .decoder = &decoder,
};
const struct arch arch_ernie45_moe = {
    .name = "ernie4_5-moe",
    .hf_classes = moe_classes,
    .family = "ERNIE 4.5 MoE",
    .size_note = "mixture-of-experts transformer",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .skip = skip,
    .derive = derive_moe,
    .from_hf = moe_from_hf,
    .decoder = &decoder,
};
