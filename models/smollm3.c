// SPDX-License-Identifier: MIT
/* models/smollm3.c - SmolLM3: a Llama-like decoder without RoPE in every fourth layer. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"SmolLM3ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_ROT, HP_ROW_VOCAB_KEY, {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS), ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(layers_fill(h, e));
    for (int64_t i = 3; i < h->d[HD_LAYERS]; i += 4) h->layer[i].no_rope = true;
    return 0;
}

/* Checks config.json. GGUF has no key for the layers without RoPE, so they must be every fourth
 * one. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", "use_sliding_window", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_rope(dir, e));
    int64_t i = 0;
    const struct json *list = hfdir_hparam(dir, "no_rope_layers");
    for (const struct json *j = json_first(list); j && i < h->d[HD_LAYERS]; j = json_next(j), i++)
        if ((json_num(j, 1) > 0) != ((i + 1) % 4 != 0))
            return err_set(e, ERR_DATA,
                           "no_rope_layers[%lld] is not as the format implies: every fourth layer "
                           "is without rope",
                           (long long)i);
    return 0;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
};

extern const struct arch arch_smollm3;
const struct arch arch_smollm3 = {
    .name = "smollm3",
    .hf_classes = hf_classes,
    .family = "SmolLM3",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "hermes-json",
};
