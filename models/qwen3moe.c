// SPDX-License-Identifier: MIT
/* models/qwen3moe.c - Qwen3 mixture of experts: qwen3 with routed experts in every layer. The
 * weights of the selected experts are always renormalised: files cannot say otherwise. */
#include "core/hfdir.h"
#include "core/json.h"
#include "models/qwen3.h"

static const char *const hf_classes[] = {"Qwen3MoeForCausalLM", NULL};

static const struct hp_row hp[] = {
    HP_ROWS_DECODER,
    HP_ROWS_EXPERTS,
    /* Of the dense layers that no published model has; written as the field does. */
    {"feed_forward_length", "intermediate_size|hidden_dim", HD_FF, 0, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,           QWEN3_NORM_ROWS, ROWS_ATTN(XF_COPY), ROWS_EXPERTS,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,      {.gguf = NULL},
};

static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return qwen3_derive(h, e);
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    if (!json_bool(hfdir_hparam(dir, "norm_topk_prob"), false))
        return err_set(e, ERR_DATA, "norm_topk_prob is not true, which the format cannot hold");
    if (json_num(hfdir_hparam(dir, "decoder_sparse_step"), 1) != 1 ||
        json_len(hfdir_hparam(dir, "mlp_only_layers")) > 0)
        return err_set(e, ERR_DATA,
                       "decoder_sparse_step or mlp_only_layers asks for dense layers "
                       "among the sparse ones, which the format cannot hold");
    return qwen3_from_hf(h, dir, e);
}

static int build(const struct hparams *h, struct graph *g, struct err *e);
extern const struct arch arch_qwen3moe;
const struct arch arch_qwen3moe = {
    .name = "qwen3moe",
    .hf_classes = hf_classes,
    .family = "Qwen 3 MoE",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .build = build,
};

static int build(const struct hparams *h, struct graph *g, struct err *e) {
    return qwen3_decoder(&arch_qwen3moe, h, g, part_moe, e);
}
