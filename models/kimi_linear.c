// SPDX-License-Identifier: MIT
/* models/kimi_linear.c - Kimi Linear: three of four layers use Kimi delta attention, the fourth
 * latent attention without RoPE. The first layer has a dense feed-forward, the others have experts
 * selected by sigmoid scores. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"KimiLinearForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings|model_max_length", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", NULL, HD_KV_HEADS, HPF_LAYERS | HPF_ZERO_OK, 1},
    {"attention.kv_lora_rank", "kv_lora_rank", HD_KV_RANK, HPF_REQUIRED, 0},
    {"rope.dimension_count", "qk_rope_head_dim", HD_ROT, HPF_REQUIRED, 0}, /* of keys in addition to the latent row; not rotated */
    {NULL, "qk_nope_head_dim", HD_NOPE, HPF_NO_KEY | HPF_REQUIRED, 0},
    {"attention.key_length", NULL, HD_HEAD_DIM, 0, 0},
    {"attention.value_length", "head_dim|qk_rope_head_dim", HD_VALUE_KEY, 0, 0},
    {"attention.key_length_mla", NULL, HD_KEY_MLA, 0, 0},
    {"attention.value_length_mla", "v_head_dim", HD_VALUE_MLA, HPF_REQUIRED, 0},
    HP_ROWS_KDA,
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    HP_ROWS_KIMI_EXPERTS,
    {"expert_group_used_count", "topk_group", HD_GROUPS_USED, 0, 0}, /* group count: no key */
    {.slot = -1},
};
#define LAYER(x) "model.layers.%d." x
#define KDA(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", LAYER("self_attn." hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_KDA, 0}
#define VEC(gguf, hf, xf, ...) {"blk.%d." gguf, LAYER("self_attn." hf), {__VA_ARGS__}, xf, 0, ROLE_OTHER, W_KDA, TR_F32}
#define CONV(q) VEC("ssm_conv1d_" q ".weight", q "_conv1d.weight", XF_COPY, HD_ONE, HD_LIN_INNER, HD_ONE, HD_CONV_K)
#define KV_B(gguf, rows, cols, xf) \
    {"blk.%d." gguf ".weight", LAYER("self_attn.kv_b_proj.weight"), {HD_HEADS, rows, cols}, xf, 0, ROLE_ATTN_LATENT, W_ATTN, 0}
#define MOE(gguf, hf, rows, cols, role) ROW_MAT(gguf, "block_sparse_moe.shared_experts." hf, rows, cols, role, W_MOE, TR_IF(HD_FF_SHEXP))
/* transformers 5 saves dense feed-forwards under the name of the experts. */
#define DENSE(gguf, hf, rows, cols, role) \
    {"blk.%d." gguf ".weight", HF_LAYER("mlp." hf ".weight") "|" HF_LAYER("block_sparse_moe." hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_DENSE, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY),
    KDA("attn_q", "q_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_Q), KDA("attn_k", "k_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_K),
    KDA("attn_v", "v_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_V), KDA("attn_output", "o_proj", HD_EMBD, HD_LIN_INNER, ROLE_ATTN_OUTPUT),
    CONV("q"), CONV("k"), CONV("v"),
    KDA("ssm_f_a", "f_a_proj", HD_LIN_K_DIM, HD_EMBD, ROLE_SSM_ALPHA), KDA("ssm_f_b", "f_b_proj", HD_LIN_INNER, HD_LIN_K_DIM, ROLE_SSM_ALPHA),
    KDA("ssm_g_a", "g_a_proj", HD_LIN_K_DIM, HD_EMBD, ROLE_SSM_ALPHA), KDA("ssm_g_b", "g_b_proj", HD_LIN_INNER, HD_LIN_K_DIM, ROLE_SSM_ALPHA),
    KDA("ssm_beta", "b_proj", HD_LIN_V_HEADS, HD_EMBD, ROLE_SSM_BETA),
    VEC("ssm_a", "A_log", XF_NEG_EXP, HD_ONE, HD_ONE, HD_LIN_V_HEADS, HD_ONE), VEC("ssm_dt.bias", "dt_bias", XF_COPY, HD_LIN_INNER),
    VEC("ssm_norm.weight", "o_norm.weight", XF_COPY, HD_LIN_K_DIM),
    ROW_MAT("attn_q", "self_attn.q_proj", HD_Q_MLA, HD_EMBD, ROLE_ATTN_Q, W_ATTN, 0),
    ROW_MAT("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", HD_HEAD_DIM, HD_EMBD, ROLE_ATTN_LATENT, W_ATTN, 0),
    ROW_VEC("attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight", HD_KV_RANK, XF_COPY, W_ATTN, 0),
    KV_B("attn_k_b", HD_KV_RANK, HD_NOPE, XF_LATENT_K), KV_B("attn_v_b", HD_VALUE_MLA, HD_KV_RANK, XF_LATENT_V),
    ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_V_MLA, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    DENSE("ffn_gate", "gate_proj", HD_FF, HD_EMBD, ROLE_FFN_GATE), DENSE("ffn_up", "up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP),
    DENSE("ffn_down", "down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN),
    ROW_ROUTER("block_sparse_moe.gate"), ROW_ROUTER_BIAS("block_sparse_moe.gate.e_score_correction_bias"),
    ROWS_EXPERT_MATS("block_sparse_moe.experts", "w1", "w3", "w2"),
    MOE("ffn_gate_shexp", "gate_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE), MOE("ffn_up_shexp", "up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP),
    MOE("ffn_down_shexp", "down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    TRY(derive_kda_mla(h, h->d[HD_ROT], e));
    TRY(derive_shared_experts(h, e));
    return layers_fill_hybrid(h, MIX_KDA, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    const struct json *at = json_get(hfdir_hparam(dir, "linear_attn_config"), "full_attn_layers"),
                      *types = hfdir_hparam(dir, "layer_types");
    int64_t groups;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "moe_router_activation_func", "sigmoid", e));
    if (json_type(hfdir_hparam(dir, "q_lora_rank")) == JSON_NUM ||
        !json_bool(hfdir_hparam(dir, "mla_use_nope"), true) ||
        (json_i64(hfdir_hparam(dir, "num_expert_group"), &groups) && groups != 1))
        return err_set(e, ERR_DATA,
                       "q_lora_rank, mla_use_nope or num_expert_group is not what this "
                       "architecture can hold");
    h->d[HD_KV_HEADS] = 1;
    TRY(hf_lead_dense(h, dir, e));
    if (!at && types) return layers_mixers_hf(h, types, "linear_attention", e);
    if (at) return hf_full_layers(h, at, 1, e);
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        *layers_own(h, HD_KV_HEADS, i) = i && i % 4 == 0; /* default of its class */
    return 0;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.latent = true},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_kimi_linear;
const struct arch arch_kimi_linear = {
    .name = "kimi-linear",
    .hf_classes = hf_classes,
    .family = "Kimi Linear",
    .size_note = "hybrid Kimi delta attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
    .tools = "kimi",
};
