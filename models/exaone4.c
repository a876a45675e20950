// SPDX-License-Identifier: MIT
/* models/exaone4.c - EXAONE 4 and K-EXAONE. EXAONE 4 has norms only after each half of a block, and
 * per-head norms of queries and keys. The 32B model has a sliding window in three of four layers,
 * and RoPE only in those. The MTP blocks of EXAONE 4.5 share a projection; hone does not compute
 * them. K-EXAONE's MTP block is a dense layer. */
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Exaone4ForCausalLM", "Exaone4_5_ForConditionalGeneration",
                                         NULL};
static const char *const skip[] = {"visual.", NULL};
// clang-format off
#define NEXTN(gguf, hf) {"blk.%d.nextn." gguf ".weight", "mtp." hf ".weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32}
#define ROWS_NEXTN                                                                                                                  \
    {"blk.%d.nextn.eh_proj.weight", "mtp.fc.weight", {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},                     \
    NEXTN("enorm", "pre_fc_norm_embedding"), NEXTN("hnorm", "pre_fc_norm_hidden"), NEXTN("shared_head_norm", "norm")
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_WINDOW(0), HP_ROW_VOCAB_KEY, HP_ROW_MTP, {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_LLAMA3_FREQS,
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY),
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_COPY),
    ROWS_FFN,
    ROW_NORM("post_ffw_norm", "post_feedforward_layernorm", XF_COPY),
    ROWS_NEXTN,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        h->layer[i].no_rope = h->d[HD_WINDOW] && !h->layer[i].window;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    return hf_rope_llama3(h, dir, e);
}

/* ---- K-EXAONE: norms before each half, experts ---- */

static const char *const moe_classes[] = {"ExaoneMoeForCausalLM", NULL};
// clang-format off
static const struct hp_row moe_hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_WINDOW(0), HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,
    HP_ROW_EXPERT_NORM(0), HP_ROW_GATING(2), HP_ROWS_GROUPS, HP_ROW_VOCAB_KEY, HP_ROW_MTP, {.slot = -1},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROW_LLAMA3_FREQS, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM(XF_COPY), ROWS_FFN, ROWS_EXPERTS,
    {"blk.%d.exp_probs_b.bias", "model.layers.%d.mlp.e_score_correction_bias|model.layers.%d.mlp.gate.e_score_correction_bias", {HD_EXPERTS},
     XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32},
    ROWS_SHARED_EXPERTS, ROWS_NEXTN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int moe_derive(struct hparams *h, struct err *e) {
    TRY(derive_shared_experts(h, e));
    TRY(derive(h, e));
    for (int64_t i = h->d[HD_LAYERS]; i < h->d[HD_LAYERS] + h->d[HD_MTP]; i++)
        h->layer[i].ffn = FFN_DENSE;
    return 0;
}

/* Checks that mlp_layer_types agrees with first_k_dense_replace, the number of leading dense
 * layers; GGUF stores only that number. */
static int moe_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t i = 0;
    for (const struct json *t = json_first(hfdir_hparam(dir, "mlp_layer_types")); t;
         t = json_next(t), i++) {
        const char *is = json_str(t);
        if (!is || (strcmp(is, "sparse") == 0) != (i >= h->d[HD_LEAD_DENSE]))
            return err_set(e, ERR_DATA, "mlp_layer_types[%lld] contradicts first_k_dense_replace",
                           (long long)i);
    }
    return from_hf(h, dir, e);
}

static const struct decoder_spec moe_decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

static const struct decoder_spec decoder = {
    .block = {POST_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS}},
};

extern const struct arch arch_exaone4, arch_exaone_moe;
const struct arch arch_exaone4 = {
    .name = "exaone4",
    .hf_classes = hf_classes,
    .family = "EXAONE 4 and 4.5",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .keeps_mtp = true,
    .derive = derive,
    .from_hf = from_hf,
    .window_period = 4,
    .window_keys = true,
    .decoder = &decoder,
    .tools = "hermes-json",
};
const struct arch arch_exaone_moe = {
    .name = "exaone-moe",
    .hf_classes = moe_classes,
    .family = "K-EXAONE",
    .size_note = "sliding-window and full attention, mixture of experts",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .skip = skip,
    .keeps_mtp = true,
    .derive = moe_derive,
    .from_hf = moe_from_hf,
    .window_period = 4,
    .window_keys = true,
    .decoder = &moe_decoder,
    .tools = "hermes-json",
};
