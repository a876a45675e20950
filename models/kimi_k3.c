// SPDX-License-Identifier: MIT
/* models/kimi_k3.c - Kimi K3, for conversion and quantization: Kimi delta attention with bounded
 * decays and a full-rank gate, latent attention without RoPE and with an output gate, experts that
 * work on rows of lower rank, SiTU activations, and attention over the residuals of earlier blocks.
 * The two vectors that score a residual are stored as their product. Names and keys are those of
 * llama.cpp. */
#include "base/json.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"KimiK3ForConditionalGeneration", "KimiK3ForCausalLM",
                                         NULL};
static const char *const skip[] = {"vision_tower.", "mm_projector.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings|model_max_length", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", NULL, HD_KV_HEADS, HPF_LAYERS | HPF_ZERO_OK, 1},
    {"attention.q_lora_rank", "q_lora_rank", HD_Q_RANK, 0, 0},
    {"attention.kv_lora_rank", "kv_lora_rank", HD_KV_RANK, HPF_REQUIRED, 0},
    {"rope.dimension_count", "qk_rope_head_dim", HD_ROT, HPF_REQUIRED, 0},
    {NULL, "qk_nope_head_dim", HD_NOPE, HPF_NO_KEY | HPF_REQUIRED, 0},
    {"attention.key_length", NULL, HD_HEAD_DIM, 0, 0},
    {"attention.value_length", NULL, HD_LATENT, 0, 0},
    {"attention.key_length_mla", NULL, HD_KEY_MLA, 0, 0},
    {"attention.value_length_mla", "v_head_dim", HD_VALUE_MLA, HPF_REQUIRED, 0},
    {"ssm.conv_kernel", "linear_attn_config.short_conv_kernel_size", HD_CONV_K, HPF_REQUIRED, 0},
    {"kda.head_dim", "linear_attn_config.head_dim", HD_LIN_K_DIM, HPF_REQUIRED, 0},
    {NULL, "linear_attn_config.num_heads", HD_LIN_V_HEADS, HPF_NO_KEY, 0},
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    HP_ROWS_KIMI_EXPERTS,
    {"expert_latent_length", "routed_expert_hidden_size", HD_MOE_LATENT, 0, 0},
    {"activation.situ_beta", "activation_situ_beta", HF_SITU_BETA, HPF_REAL | HPF_REQUIRED, 0},
    {"activation.situ_linear_beta", "activation_situ_linear_beta", HF_SITU_LINEAR, HPF_REAL | HPF_REQUIRED, 0},
    {"attn_res.block_size", "attn_res_block_size", HD_RES_BLOCK, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    {.slot = -1},
};
#define LAYER(x) "model.layers.%d." x
#define AT(x) LAYER("self_attn." x)
#define MOE(x) LAYER("block_sparse_moe." x)
#define MAT(gguf, hf, rows, cols, role, where, flags) {"blk.%d." gguf ".weight", hf ".weight", {rows, cols}, XF_COPY, 0, role, where, flags}
#define VEC(gguf, hf, xf, where, flags, ...) {"blk.%d." gguf, hf, {__VA_ARGS__}, xf, 0, ROLE_OTHER, where, TR_F32 | (flags)}
#define CONV(q) VEC("ssm_conv1d_" q ".weight", AT(q "_conv1d.weight"), XF_COPY, W_KDA, 0, HD_ONE, HD_LIN_INNER, HD_ONE, HD_CONV_K)
#define KV_B(gguf, rows, cols, xf) {"blk.%d." gguf ".weight", AT("kv_b_proj.weight"), {HD_HEADS, rows, cols}, xf, 0, ROLE_ATTN_LATENT, W_ATTN, 0}
#define RES(gguf, at, where) {gguf "_res_score.weight", at "_res_norm.weight&" at "_res_proj.weight", {HD_EMBD}, XF_PRODUCT, 0, ROLE_OTHER, where, TR_F32 | TR_IF(HD_RES_BLOCK)}
#define EXPERT(gguf, w, rows, cols, role) {"blk.%d." gguf "_exps.weight", MOE("experts.%e." w ".weight"), {HD_EXPERTS, rows, cols}, XF_COPY, 0, role, W_MOE, 0}
#define SHARED(gguf, hf, rows, cols, role) MAT(gguf "_shexp", MOE("shared_experts." hf), rows, cols, role, W_MOE, TR_IF(HD_FF_SHEXP))
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY),
    RES("blk.%d.attn", LAYER("self_attention"), W_ALL), RES("blk.%d.ffn", LAYER("mlp"), W_ALL),
    MAT("attn_q", AT("q_proj"), HD_LIN_INNER, HD_EMBD, ROLE_ATTN_Q, W_KDA, 0), MAT("attn_k", AT("k_proj"), HD_LIN_INNER, HD_EMBD, ROLE_ATTN_K, W_KDA, 0),
    MAT("attn_v", AT("v_proj"), HD_LIN_INNER, HD_EMBD, ROLE_ATTN_V, W_KDA, 0), CONV("q"), CONV("k"), CONV("v"),
    MAT("ssm_f_a", AT("f_a_proj"), HD_LIN_K_DIM, HD_EMBD, ROLE_SSM_ALPHA, W_KDA, 0), MAT("ssm_f_b", AT("f_b_proj"), HD_LIN_INNER, HD_LIN_K_DIM, ROLE_SSM_ALPHA, W_KDA, 0),
    MAT("ssm_g", AT("g_proj"), HD_LIN_INNER, HD_EMBD, ROLE_ATTN_GATE, W_KDA, 0), MAT("ssm_beta", AT("b_proj"), HD_LIN_V_HEADS, HD_EMBD, ROLE_SSM_BETA, W_KDA, 0),
    VEC("ssm_a", AT("A_log"), XF_NEG_EXP, W_KDA, 0, HD_LIN_V_HEADS), VEC("ssm_dt.bias", AT("dt_bias"), XF_COPY, W_KDA, 0, HD_LIN_INNER),
    VEC("ssm_norm.weight", AT("o_norm.weight"), XF_COPY, W_KDA, 0, HD_LIN_K_DIM), MAT("attn_output", AT("o_proj"), HD_EMBD, HD_LIN_INNER, ROLE_ATTN_OUTPUT, W_KDA, 0),
    MAT("attn_q", AT("q_proj"), HD_Q_MLA, HD_EMBD, ROLE_ATTN_Q, W_ATTN, TR_IF(HD_Q_DIRECT)),
    MAT("attn_q_a", AT("q_a_proj"), HD_Q_RANK, HD_EMBD, ROLE_ATTN_LATENT, W_ATTN, TR_IF(HD_Q_RANK)),
    VEC("attn_q_a_norm.weight", AT("q_a_layernorm.weight"), XF_COPY, W_ATTN, TR_IF(HD_Q_RANK), HD_Q_RANK),
    MAT("attn_q_b", AT("q_b_proj"), HD_Q_MLA, HD_Q_RANK, ROLE_ATTN_LATENT, W_ATTN, TR_IF(HD_Q_RANK)),
    MAT("attn_kv_a_mqa", AT("kv_a_proj_with_mqa"), HD_HEAD_DIM, HD_EMBD, ROLE_ATTN_LATENT, W_ATTN, 0),
    VEC("attn_kv_a_norm.weight", AT("kv_a_layernorm.weight"), XF_COPY, W_ATTN, 0, HD_KV_RANK),
    KV_B("attn_k_b", HD_KV_RANK, HD_NOPE, XF_LATENT_K), KV_B("attn_v_b", HD_VALUE_MLA, HD_KV_RANK, XF_LATENT_V),
    MAT("attn_gate", AT("g_proj"), HD_V_MLA, HD_EMBD, ROLE_ATTN_GATE, W_ATTN, TR_OPTIONAL), MAT("attn_output", AT("o_proj"), HD_EMBD, HD_V_MLA, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    ROWS_FFN, ROW_ROUTER("block_sparse_moe.gate"), ROW_ROUTER_BIAS("block_sparse_moe.gate.e_score_correction_bias"),
    EXPERT("ffn_gate", "w1", HD_FF_EXP, HD_EXP_IN, ROLE_EXP_GATE), EXPERT("ffn_up", "w3", HD_FF_EXP, HD_EXP_IN, ROLE_EXP_UP), EXPERT("ffn_down", "w2", HD_EXP_IN, HD_FF_EXP, ROLE_EXP_DOWN),
    MAT("ffn_routed_down", MOE("routed_expert_down_proj"), HD_MOE_LATENT, HD_EMBD, ROLE_ATTN_LATENT, W_MOE, TR_IF(HD_MOE_LATENT)),
    MAT("ffn_routed_up", MOE("routed_expert_up_proj"), HD_EMBD, HD_MOE_LATENT, ROLE_ATTN_LATENT, W_MOE, TR_IF(HD_MOE_LATENT)),
    VEC("ffn_routed_norm.weight", MOE("routed_expert_norm.weight"), XF_COPY, W_MOE, TR_OPTIONAL | TR_IF(HD_MOE_LATENT), HD_MOE_LATENT),
    SHARED("ffn_gate", "gate_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE), SHARED("ffn_up", "up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP),
    SHARED("ffn_down", "down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    RES("output", "model.output_attn", W_GLOBAL), ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    d[HD_EXP_IN] = d[HD_MOE_LATENT] ? d[HD_MOE_LATENT] : d[HD_EMBD];
    TRY(derive_kda_mla(h, d[HD_ROT], e));
    TRY(derive_shared_experts(h, e));
    return layers_fill_hybrid(h, MIX_KDA, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    const struct json *lin = hfdir_hparam(dir, "linear_attn_config");
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "situ", e));
    TRY(hf_check_is(dir, "moe_router_activation_func", "sigmoid", e));
    if (!json_bool(hfdir_hparam(dir, "mla_use_nope"), true) ||
        !json_bool(json_get(lin, "use_full_rank_gate"), true))
        return err_set(e, ERR_DATA,
                       "mla_use_nope or use_full_rank_gate is false, which the format cannot hold");
    h->f[HF_DECAY_BOUND] = json_num(json_get(lin, "gate_lower_bound"), 0);
    h->d[HD_KV_HEADS] = 1;
    TRY(hf_lead_dense(h, dir, e));
    return hf_full_layers(h, json_get(lin, "full_attn_layers"), 1, e);
}

static void write_keys(const struct hparams *h, struct gguf_w *w) {
    if (h->f[HF_DECAY_BOUND] < 0)
        gguf_w_f32(w, "kimi-k3.kda.gate_lower_bound", (float)h->f[HF_DECAY_BOUND]);
}

extern const struct arch arch_kimi_k3;
const struct arch arch_kimi_k3 = {
    .name = "kimi-k3",
    .hf_classes = hf_classes,
    .family = "Kimi K3",
    .size_note = "hybrid Kimi delta and latent attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .mxfp4 = true,
    .tools = "kimi-k3",
};
