// SPDX-License-Identifier: MIT
/* models/exaone4.c - EXAONE 4: norms after each half of a block only, norms of queries and keys per
 * head. The 32B model has a window in three layers of four, and rope in those alone. */
#include "core/hfdir.h"
#include "core/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Exaone4ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_WINDOW(0), {.slot = -1}};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_LLAMA3_FREQS,
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY),
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_COPY),
    ROWS_FFN,
    ROW_NORM("post_ffw_norm", "post_feedforward_layernorm", XF_COPY),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        h->layer[i].no_rope = h->d[HD_WINDOW] && !h->layer[i].window;
    return 0;
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    return hf_rope_llama3(h, dir, e);
}

static const struct decoder_spec decoder = {
    .block = {POST_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, QK_NORMS}},
};

extern const struct arch arch_exaone4;
const struct arch arch_exaone4 = {
    .name = "exaone4",
    .hf_classes = hf_classes,
    .family = "EXAONE 4",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .window_period = 4,
    .window_keys = true,
    .decoder = &decoder,
};
