// SPDX-License-Identifier: MIT
/* models/bailingmoe3.c - Ling 3: Kimi delta attention with bounded decays, and latent attention
 * with one gate per head in the last layer of each group; leading dense layers, then experts
 * selected in groups by sigmoid scores with a bias, plus shared experts. Its MTP block is omitted.
 */
#include "base/json.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"BailingMoeV3ForCausalLM", "BailingHybridForCausalLM",
                                         NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", NULL, HD_KV_HEADS, HPF_LAYERS | HPF_ZERO_OK, 1},
    {"attention.q_lora_rank", "q_lora_rank", HD_Q_RANK, 0, 0},
    {"attention.kv_lora_rank", "kv_lora_rank", HD_KV_RANK, HPF_REQUIRED, 0},
    {"rope.dimension_count", "qk_rope_head_dim", HD_ROT, HPF_REQUIRED, 0},
    {NULL, "qk_nope_head_dim", HD_NOPE, HPF_NO_KEY | HPF_REQUIRED, 0},
    {"attention.key_length", NULL, HD_HEAD_DIM, 0, 0},
    {"attention.key_length_mla", NULL, HD_KEY_MLA, 0, 0},
    {"attention.value_length_mla", "v_head_dim", HD_VALUE_MLA, HPF_REQUIRED, 0},
    {"ssm.conv_kernel", "short_conv_kernel_size", HD_CONV_K, HPF_REQUIRED, 0},
    {"kda.head_dim", "linear_head_dim|head_dim", HD_LIN_K_DIM, HPF_REQUIRED, 0},
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_FF, HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROWS_GROUPS, HP_ROW_MTP,
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", HD_FF_SHEXP, 0, 0},
    {.slot = -1},
};
#define AT(x) "model.layers.%d.attention." x
#define KDA(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", AT(hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_KDA, 0}
#define VEC(gguf, hf, xf, ...) {"blk.%d." gguf, AT(hf), {__VA_ARGS__}, xf, 0, ROLE_OTHER, W_KDA, TR_F32}
#define CONV(q) VEC("ssm_conv1d_" q ".weight", q "_conv1d.weight", XF_COPY, HD_ONE, HD_LIN_INNER, HD_ONE, HD_CONV_K)
#define MLA(gguf, hf, rows, cols, role, slot) {"blk.%d." gguf ".weight", AT(hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_ATTN, TR_IF(slot)}
#define MLA_NORM(gguf, hf, width, slot) {"blk.%d." gguf ".weight", AT(hf ".weight"), {width}, XF_COPY, 0, ROLE_OTHER, W_ATTN, TR_F32 | TR_IF(slot)}
#define KV_B(gguf, rows, cols, xf) {"blk.%d." gguf ".weight", AT("kv_b_proj.weight"), {HD_HEADS, rows, cols}, xf, 0, ROLE_ATTN_LATENT, W_ATTN, 0}
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "model.word_embeddings.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    ROWS_PRE_NORMS(XF_COPY),
    KDA("attn_q", "q_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_Q), KDA("attn_k", "k_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_K),
    KDA("attn_v", "v_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_V), KDA("attn_output", "o_proj.weight|model.layers.%d.attention.dense", HD_EMBD, HD_LIN_INNER, ROLE_ATTN_OUTPUT), /* the second: saved by transformers */
    CONV("q"), CONV("k"), CONV("v"),
    KDA("ssm_f_a", "f_proj", HD_LIN_INNER, HD_EMBD, ROLE_SSM_ALPHA), KDA("ssm_g_a", "g_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_GATE),
    KDA("ssm_beta", "b_proj", HD_LIN_V_HEADS, HD_EMBD, ROLE_SSM_BETA),
    VEC("ssm_a", "A_log", XF_EXP, HD_LIN_V_HEADS, HD_ONE), VEC("ssm_dt.bias", "dt_bias", XF_COPY, HD_LIN_INNER),
    VEC("ssm_norm.weight", "o_norm.weight", XF_COPY, HD_LIN_K_DIM),
    MLA("attn_q", "q_proj", HD_Q_MLA, HD_EMBD, ROLE_ATTN_Q, HD_Q_DIRECT),
    MLA("attn_q_a", "q_a_proj", HD_Q_RANK, HD_EMBD, ROLE_ATTN_LATENT, HD_Q_RANK), MLA_NORM("attn_q_a_norm", "q_a_layernorm", HD_Q_RANK, HD_Q_RANK),
    MLA("attn_q_b", "q_b_proj", HD_Q_MLA, HD_Q_RANK, ROLE_ATTN_LATENT, HD_Q_RANK),
    MLA("attn_kv_a_mqa", "kv_a_proj_with_mqa", HD_HEAD_DIM, HD_EMBD, ROLE_ATTN_LATENT, HD_NONE),
    MLA_NORM("attn_kv_a_norm", "kv_a_layernorm", HD_KV_RANK, HD_NONE),
    KV_B("attn_k_b", HD_KV_RANK, HD_NOPE, XF_LATENT_K), KV_B("attn_v_b", HD_VALUE_MLA, HD_KV_RANK, XF_LATENT_V),
    MLA("attn_gate", "g_proj", HD_HEADS, HD_EMBD, ROLE_ATTN_GATE, HD_NONE), MLA("attn_output", "dense", HD_EMBD, HD_V_MLA, ROLE_ATTN_OUTPUT, HD_NONE),
    ROWS_FFN, ROWS_EXPERTS, ROW_ROUTER_BIAS("mlp.gate.expert_bias"), ROWS_SHARED_EXPERTS, ROWS_MTP_LAYER,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    TRY(derive_kda_mla(h, h->d[HD_ROT], e));
    TRY(derive_experts(h, e));
    if (!h->d[HD_FF_SHEXP]) TRY(derive_shared_experts(h, e));
    return layers_fill_hybrid(h, MIX_KDA, e);
}

static int check_bound(const struct hparams *h, struct err *e) {
    const double bound = h->f[HF_DECAY_BOUND];
    return bound < 0 && bound > -1e3
               ? 0
               : err_set(e, ERR_DATA, "the lower bound of decays is %g, which is not supported",
                         bound);
}

/* Rejects limits of SwiGLU in a list, which published models do not use. */
static int check_limits(const struct hfdir *dir, const char *key, struct err *e) {
    for (const struct json *j = json_first(hfdir_hparam(dir, key)); j; j = json_next(j))
        if (json_num(j, 0) > 0)
            return err_set(e, ERR_DATA, "%s has a limit of %g, which is not supported", key,
                           json_num(j, 0));
    return 0;
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "use_bias", "use_qkv_bias", NULL};
    const struct json *types = hfdir_hparam(dir, "layer_types");
    int64_t group;
    TRY(hfdir_whole(hfdir_hparam(dir, "layer_group_size"), "layer_group_size", 6, &group, e));
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "score_function", "sigmoid", e));
    TRY(hf_check_is(dir, "gated_attention_proj_granularity_type", "head_wise", e));
    TRY(check_limits(dir, "expert_swiglu_limit_list", e));
    TRY(check_limits(dir, "share_expert_swiglu_limit_list", e));
    if (!json_bool(hfdir_hparam(dir, "no_kda_lora"), true) ||
        !json_bool(hfdir_hparam(dir, "kda_safe_gate"), true))
        return err_set(e, ERR_DATA,
                       "no_kda_lora or kda_safe_gate is false, which the format cannot hold");
    h->f[HF_DECAY_BOUND] = json_num(hfdir_hparam(dir, "kda_lower_bound"), -5);
    TRY(check_bound(h, e));
    h->d[HD_KV_HEADS] = 1;
    h->d[HD_NO_MTP] = 1;
    TRY(hf_lead_dense(h, dir, e));
    TRY(hf_shared_width(h, e));
    if (types) {
        TRY(layers_mixers_hf(h, types, "linear_attention", e));
        return hf_check_rope(dir, e);
    }
    if (group < 1 || h->d[HD_LAYERS] % group)
        return err_set(e, ERR_DATA, "%lld layers are not whole groups of %lld",
                       (long long)h->d[HD_LAYERS], (long long)group);
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        *layers_own(h, HD_KV_HEADS, i) = (i + 1) % group == 0;
    return hf_check_rope(dir, e);
}

#define BOUND "bailingmoe3.kda.gate_lower_bound"
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    TRY(gguf_get_f64(g, BOUND, &h->f[HF_DECAY_BOUND], e));
    return check_bound(h, e);
}
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    gguf_w_bool(w, "bailingmoe3.kda.safe_gate", true);
    gguf_w_f32(w, BOUND, (float)h->f[HF_DECAY_BOUND]);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}, .latent = true, .gate = GATE_HEAD},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_bailingmoe3;
const struct arch arch_bailingmoe3 = {
    .name = "bailingmoe3",
    .hf_classes = hf_classes,
    .family = "Ling 3",
    .size_note = "hybrid Kimi delta and latent attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .write_keys = write_keys,
    .decoder = &decoder,
    .tools = "glm-argkv",
};
