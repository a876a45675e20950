// SPDX-License-Identifier: MIT
/* models/dbrx.c - DBRX: LayerNorms without biases, fused and clamped q, k and v, experts in every
 * layer. A folder stores the matrices of all experts one below the other. */
#include <string.h>

#include "base/json.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"DbrxForCausalLM", NULL};
// clang-format off
#define BLOCK(x) "transformer.blocks.%d." x
#define NORM(gguf, hf) {"blk.%d." gguf ".weight", BLOCK("norm_attn_norm." hf ".weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
#define MAT(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", BLOCK(hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_ALL, 0}
#define EXPERTS(gguf, hf, rows, cols, xf, role) \
    {"blk.%d." gguf ".weight", BLOCK("ffn.experts.mlp." hf), {HD_EXPERTS, rows, cols}, xf, 0, role, W_MOE, 0}
static const struct hp_row hp[] = {
    {"block_count", "n_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_seq_len", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "d_model", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "n_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", "attn_config.kv_n_heads", HD_KV_HEADS, 0, 1},
    {"attention.layer_norm_epsilon", NULL, HF_RMS_EPS, HPF_REAL, 1e-5},
    {"attention.clamp_kqv", "attn_config.clip_qkv", HF_CLAMP_QKV, HPF_REAL | HPF_ZERO_OK, 0},
    {"rope.freq_base", "attn_config.rope_theta", HF_ROPE_BASE, HPF_REAL, 10000},
    {"feed_forward_length", "ffn_config.ffn_hidden_size", HD_FF, HPF_REQUIRED, 0},
    {"expert_count", "ffn_config.moe_num_experts", HD_EXPERTS, HPF_REQUIRED, 0},
    {"expert_used_count", "ffn_config.moe_top_k", HD_EXPERTS_USED, HPF_REQUIRED, 0},
    HP_ROW_VOCAB,
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "transformer.wte.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    NORM("attn_norm", "norm_1"), NORM("attn_output_norm", "norm_2"),
    MAT("attn_qkv", "norm_attn_norm.attn.Wqkv", HD_QKV_OUT, HD_EMBD, ROLE_ATTN_QKV), MAT("attn_output", "norm_attn_norm.attn.out_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT),
    {"blk.%d.ffn_gate_inp.weight", BLOCK("ffn.router.layer.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32},
    EXPERTS("ffn_gate_exps", "w1", HD_FF_EXP, HD_EMBD, XF_COPY, ROLE_EXP_GATE), EXPERTS("ffn_up_exps", "v1", HD_FF_EXP, HD_EMBD, XF_COPY, ROLE_EXP_UP),
    EXPERTS("ffn_down_exps", "w2", HD_EMBD, HD_FF_EXP, XF_TURN, ROLE_EXP_DOWN),
    {"output_norm.weight", "transformer.norm_f.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *ffn = hfdir_hparam(dir, "ffn_config");
    const struct json *power = json_get(ffn, "moe_normalize_expert_weights");
    const char *act = hf_act(json_str(json_get(json_get(ffn, "ffn_act_fn"), "name")));
    (void)h;
    if (power && !(json_num(power, 0) >= 1 && json_num(power, 0) <= 1))
        return err_set(e, ERR_DATA,
                       "ffn_config.moe_normalize_expert_weights is %g (0: null), not 1, which the "
                       "format cannot hold",
                       json_num(power, 0));
    if (act && strcmp(act, "silu") != 0)
        return err_set(e, ERR_DATA, "ffn_config.ffn_act_fn.name is \"%.40s\", not silu", act);
    return 0;
}

#define LN(name)                                                                                   \
    { NORM_LAYER, name }
static const struct decoder_spec decoder = {
    .block = {.before_mix = LN("attn_norm"),
              .before_ffn = LN("attn_output_norm"),
              .attn = {.rope = {.kind = ROPE_HALVES}}},
    .norm = LN("output_norm"),
};

extern const struct arch arch_dbrx;
const struct arch arch_dbrx = {
    .name = "dbrx",
    .hf_classes = hf_classes,
    .family = "DBRX",
    .size_note = "mixture-of-experts transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
};
