// SPDX-License-Identifier: MIT
/* models/granite.c - Granite 3 and 4, dense and MoE: a Llama-like decoder that scales embeddings,
 * attention scores, the contribution of each half of a block, and logits (by a divisor). Some MoE
 * models have a shared expert. Granite 4 without Mamba layers has the class of the hybrid models
 * (granitehybrid.c), which store a dense feed-forward as the shared expert. */
#include <string.h>

#include "base/json.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"GraniteForCausalLM", NULL};
static const char *const moe_classes[] = {"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM",
                                          NULL};
// clang-format off
#define HP_ROWS                                                                     \
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_ROT, \
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},                        \
    {"attention.scale", "attention_multiplier", HF_ATTN_SCALE, HPF_REAL, 0},        \
    {"embedding_scale", "embedding_multiplier", HF_EMBD_SCALE, HPF_REAL, 1},        \
    {"residual_scale", "residual_multiplier", HF_RESIDUAL_SCALE, HPF_REAL, 1},      \
    {"logit_scale", "logits_scaling", HF_LOGIT_SCALE, HPF_REAL, 1}
static const struct hp_row hp[] = {
    HP_ROWS,
    {NULL, "shared_intermediate_size", HD_FF_SHEXP, HPF_NO_KEY | HPF_ZERO_OK, 0}, /* from_hf */
    {.slot = -1},
};
static const struct hp_row moe_hp[] = {
    HP_ROWS, HP_ROW_EXPERT_COUNTS,
    {"expert_shared_feed_forward_length", "shared_intermediate_size", HD_FF_SHEXP, HPF_ZERO_OK, 0},
    {.slot = -1},
};
#define MOE(x) "model.layers.%d.block_sparse_moe." x
#define EXPERTS(gguf, hf, fused, one, rows, cols, xf, role) \
    {"blk.%d." gguf ".weight", MOE(hf ".weight") "|" MOE("experts." fused) "|" MOE("experts.%e." one ".weight"), {HD_EXPERTS, rows, cols}, xf, 0, role, W_MOE, 0}
#define SHARED(gguf, hf, rows, cols, xf, role) \
    {"blk.%d." gguf ".weight", "model.layers.%d.shared_mlp." hf ".weight", {rows, cols}, xf, 0, role, W_MOE, TR_IF(HD_FF_SHEXP)}
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS),
    {"blk.%d.ffn_gate_inp.weight", MOE("router.layer.weight") "|" MOE("router.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32},
    EXPERTS("ffn_gate_exps", "input_linear", "gate_up_proj", "gate_proj", HD_FF_EXP, HD_EMBD, XF_SPLIT_FIRST, ROLE_EXP_GATE),
    EXPERTS("ffn_up_exps", "input_linear", "gate_up_proj", "up_proj", HD_FF_EXP, HD_EMBD, XF_SPLIT_SECOND, ROLE_EXP_UP),
    EXPERTS("ffn_down_exps", "output_linear", "down_proj", "down_proj", HD_EMBD, HD_FF_EXP, XF_COPY, ROLE_EXP_DOWN),
    SHARED("ffn_gate_shexp", "input_linear", HD_FF_SHEXP, HD_EMBD, XF_SPLIT_FIRST, ROLE_SHEXP_GATE),
    SHARED("ffn_up_shexp", "input_linear", HD_FF_SHEXP, HD_EMBD, XF_SPLIT_SECOND, ROLE_SHEXP_UP),
    SHARED("ffn_down_shexp", "output_linear", HD_EMBD, HD_FF_SHEXP, XF_COPY, ROLE_SHEXP_DOWN),
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
#define DENSE(gguf, own, shared, rows, cols, xf, role) \
    {"blk.%d." gguf ".weight", "model.layers.%d.mlp." own ".weight|model.layers.%d.shared_mlp." shared ".weight", {rows, cols}, xf, 0, role, W_DENSE, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS),
    DENSE("ffn_gate", "gate_proj", "input_linear", HD_FF, HD_EMBD, XF_SPLIT_FIRST, ROLE_FFN_GATE),
    DENSE("ffn_up", "up_proj", "input_linear", HD_FF, HD_EMBD, XF_SPLIT_SECOND, ROLE_FFN_UP),
    DENSE("ffn_down", "down_proj", "output_linear", HD_EMBD, HD_FF, XF_COPY, ROLE_FFN_DOWN),
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int moe_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    const char *type = json_str(hfdir_hparam(dir, "model_type")),
               *pos = json_str(hfdir_hparam(dir, "position_embedding_type"));
    if (type && strcmp(type, "granitemoehybrid") == 0)
        h->d[HD_NO_ROPE] = !pos || strcmp(pos, "rope") != 0;
    if (h->d[HD_NO_ROPE]) h->d[HD_CTX] = 1 << 20; /* no position encoding, hence no limit */
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    return hf_check_rope(dir, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    if (h->d[HD_FF_SHEXP]) h->d[HD_FF] = h->d[HD_FF_SHEXP];
    h->d[HD_FF_SHEXP] = 0;
    return moe_from_hf(h, dir, e);
}

/* Write and read the key that turns RoPE off; without the key, it is on. */
#define KEYS(id, arch)                                                                             \
    static void id##_write(const struct hparams *h, struct gguf_w *w) {                            \
        if (h->d[HD_NO_ROPE]) gguf_w_bool(w, arch ".rope.scaling.finetuned", false);               \
    }                                                                                              \
    static int id##_read(struct hparams *h, const struct gguf *g, struct err *e) {                 \
        bool rope = true;                                                                          \
        TRY(gguf_opt_bool(g, arch ".rope.scaling.finetuned", &rope, e));                           \
        h->d[HD_NO_ROPE] = !rope;                                                                  \
        return 0;                                                                                  \
    }
KEYS(dense, "granite")
KEYS(moe, "granitemoe")

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive_moe(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    (void)i;
    if (h->d[HD_NO_ROPE]) s->attn.rope.kind = ROPE_NONE;
}
static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
    .layer = layer,
    .logits_divided = true,
    .scales_images = true,
};

extern const struct arch arch_granite, arch_granitemoe;
const struct arch arch_granite = {
    .name = "granite",
    .hf_classes = hf_classes,
    .family = "Granite 3 and 4 dense",
    .size_note = "dense transformer",
    .tools = "granite-list hermes-json",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .write_keys = dense_write,
    .read_keys = dense_read,
    .decoder = &decoder,
};
const struct arch arch_granitemoe = {
    .name = "granitemoe",
    .hf_classes = moe_classes,
    .family = "Granite 3 MoE",
    .size_note = "mixture-of-experts transformer",
    .tools = "granite-list hermes-json",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .derive = derive_moe,
    .from_hf = moe_from_hf,
    .write_keys = moe_write,
    .read_keys = moe_read,
    .decoder = &decoder,
};
