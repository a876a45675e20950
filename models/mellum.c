// SPDX-License-Identifier: MIT
/* models/mellum.c - Mellum 2: experts as in Qwen3, and a sliding window in three of four layers.
 * The RoPE of these layers has a separate base and no context extension. */
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"MellumForCausalLM", NULL};
static const char *const skip[] = {"=mtp.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_RMS_EPS, HP_ROW_VOCAB, HP_ROWS_EXPERTS, HP_ROW_WINDOW(0),
    {"feed_forward_length", "intermediate_size", HD_FF, 0, 0},
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta|rope_theta", HF_ROPE_BASE, HPF_REAL, 500000},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", HF_ROPE_BASE, HPF_REAL | HPF_WINDOWED, 10000},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_QK_NORM(XF_COPY), ROWS_EXPERTS,
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
    static const char *const no[] = {"attention_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    for (int64_t i = 0; !hfdir_hparam(dir, "layer_types") && i < h->d[HD_LAYERS]; i++)
        *layers_own(h, HD_WINDOW, i) = 0;
    TRY(hf_check_topk_norm(dir, true, e));
    for (const struct json *t = json_first(hfdir_hparam(dir, "mlp_layer_types")); t;
         t = json_next(t))
        if (!json_str(t) || strcmp(json_str(t), "sparse") != 0)
            return err_set(e, ERR_DATA,
                           "mlp_layer_types asks for dense layers, which the format cannot hold");
    return hf_check_rope(dir, e);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES, .scaling = SCALING_FULL}, QK_NORMS}},
};

extern const struct arch arch_mellum;
const struct arch arch_mellum = {
    .name = "mellum",
    .hf_classes = hf_classes,
    .family = "Mellum 2",
    .size_note = "sliding-window and full attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .window_period = 4,
    .window_keys = true,
    .decoder = &decoder,
};
