// SPDX-License-Identifier: MIT
/* models/phi3.c - Phi-3, Phi-3.5, Phi-4 and their minis: q, k and v in one matrix, gate and up in
 * another, rope of a part of each head in some, a window in all layers or none. */
#include "core/hfdir.h"
#include "core/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Phi3ForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_ROT, HP_ROW_ROPE_BASE, HP_ROW_VOCAB,
    {"rope.scaling.original_context_length", "original_max_position_embeddings", HD_YARN_CTX, 0, 0},
    HP_ROW_WINDOW(HPF_ZERO_OK | HPF_KEEP_ZERO),
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_PRE_NORMS(XF_COPY),
    ROW_MAT("attn_qkv", "self_attn.qkv_proj", HD_QKV_OUT, HD_EMBD, ROLE_ATTN_QKV, W_ATTN, 0),
    ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    ROWS_FFN_FUSED,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    if (!h->d[HD_YARN_CTX]) h->d[HD_YARN_CTX] = h->d[HD_CTX];
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_partial_rope(h, dir, 1, e));
    return hf_check_rope(dir, e);
}

static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    (void)h;
    return gguf_find_tensor(g, "rope_factors_long.weight")
               ? err_set(e, ERR_DATA,
                         "it has longrope (rope_factors_long.weight), which is not "
                         "computed yet")
               : 0;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}}},
};

extern const struct arch arch_phi3;
const struct arch arch_phi3 = {
    .name = "phi3",
    .hf_classes = hf_classes,
    .family = "Phi-3 and Phi-4 without longrope",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .window_period = WINDOW_EVERYWHERE,
    .decoder = &decoder,
};
