// SPDX-License-Identifier: MIT
/* models/qwen2.c - Qwen 1.5, 2 and 2.5 dense, QwQ, and distillates of their size: a plain decoder
 * with biases of q, k and v and rope over halves of whole heads. Source: the architecture's
 * published configuration and weights; layout as the field's converter writes it. */
#include "core/hfdir.h"
#include "core/json.h"
#include "models/part.h"

static const char *const hf_classes[] = {"Qwen2ForCausalLM", NULL};
static const struct hp_row hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
// clang-format off
#define LAYER(x) "model.layers.%d." x
#define BIAS(n, width) \
    {"blk.%d.attn_" n ".bias", LAYER("self_attn." n "_proj.bias"), {width}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
#define MATRIX(n, hf, rows, cols, role) \
    {"blk.%d.attn_" n ".weight", LAYER("self_attn." hf "_proj.weight"), {rows, cols}, XF_COPY, 0, role, W_ALL, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    {"blk.%d.attn_norm.weight", LAYER("input_layernorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},
    MATRIX("q", "q", HD_Q_OUT, HD_EMBD, ROLE_ATTN_Q),
    MATRIX("k", "k", HD_KV_OUT, HD_EMBD, ROLE_ATTN_K),
    MATRIX("v", "v", HD_KV_OUT, HD_EMBD, ROLE_ATTN_V),
    MATRIX("output", "o", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT),
    BIAS("q", HD_Q_OUT),
    BIAS("k", HD_KV_OUT),
    BIAS("v", HD_KV_OUT),
    {"blk.%d.ffn_norm.weight", LAYER("post_attention_layernorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},
    ROWS_FFN,
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    return derive_attn(h, 1, e);
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    UNUSED(h);
    if (json_bool(hfdir_hparam(dir, "use_sliding_window"), false))
        return err_set(e, ERR_DATA,
                       "use_sliding_window is true, which this architecture cannot hold");
    return hf_check_rope(dir, e);
}

static gr_reg attn(struct build *b, gr_reg in) {
    return part_attn(b, in, PART_NO_NORM | PART_BIAS);
}

static int build(const struct hparams *h, struct graph *g, struct err *e);
extern const struct arch arch_qwen2;
const struct arch arch_qwen2 = {
    .name = "qwen2",
    .family = "Qwen 1.5 to 2.5",
    .hf_classes = hf_classes,
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .build = build,
};

static int build(const struct hparams *h, struct graph *g, struct err *e) {
    const struct part_blocks p = {.full = attn, .ffn = part_ffn, .ffn_norm = "ffn_norm.weight"};
    return part_decoder(&arch_qwen2, h, g, &p, e);
}
