// SPDX-License-Identifier: MIT
/* models/glm5_next.c - GLM-5.3 Flash, for conversion and quantization: Kimi delta attention with
 * bounded decays, latent attention without RoPE whose indexer pools its keys, hyper-connections,
 * clamped SwiGLU, and one MTP block. Names and keys are those of llama.cpp. */
#include <string.h>

#include "base/attr.h"
#include "base/json.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Glm5NextForConditionalGeneration", "Glm5NextForCausalLM",
                                         NULL};
static const char *const skip[] = {"visual.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.q_lora_rank", "q_lora_rank", HD_Q_RANK, HPF_REQUIRED, 0},
    {"attention.kv_lora_rank", "kv_lora_rank", HD_KV_RANK, HPF_REQUIRED, 0},
    {NULL, "qk_nope_head_dim", HD_NOPE, HPF_NO_KEY | HPF_REQUIRED, 0},
    {"attention.key_length", NULL, HD_LATENT, 0, 0},
    {"attention.value_length", NULL, HD_LATENT, 0, 0},
    {"attention.key_length_mla", NULL, HD_KEY_MLA, 0, 0},
    {"attention.value_length_mla", "v_head_dim", HD_VALUE_MLA, HPF_REQUIRED, 0},
    HP_ROWS_KDA,
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    HP_ROW_RMS_EPS, HP_ROW_FF, HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROWS_GROUPS, HP_ROW_MTP,
    HP_ROWS_INDEXER,
    {"attention.indexer.kpool", "index_kpool", HD_INDEX_BLOCK, HPF_REQUIRED, 0},
    {"attention.indexer.kpool_select_tail", "index_kpool_always_select_tail", HD_INDEX_LOCAL, HPF_BOOL | HPF_ZERO_OK, 1},
    HP_ROWS_STREAMS,
    {.slot = -1},
};
#define AT(x) HF_LAYER("self_attn." x)
#define KDA(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", AT(hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_KDA, 0}
#define VEC(gguf, hf, xf, where, ...) {"blk.%d." gguf, hf, {__VA_ARGS__}, xf, 0, ROLE_OTHER, where, TR_F32}
#define CONV(q) VEC("ssm_conv1d_" q ".weight", AT(q "_conv1d.weight"), XF_COPY, W_KDA, HD_ONE, HD_LIN_INNER, HD_ONE, HD_CONV_K)
#define MLA(gguf, hf, rows, cols) {"blk.%d." gguf ".weight", AT(hf ".weight"), {rows, cols}, XF_COPY, 0, ROLE_ATTN_LATENT, W_ATTN, 0}
#define KV_B(gguf, rows, cols, xf) {"blk.%d." gguf ".weight", AT("kv_b_proj.weight"), {HD_HEADS, rows, cols}, xf, 0, ROLE_ATTN_LATENT, W_ATTN, 0}
#define HC(at) \
    VEC("hc_" at "_fn.weight", HF_LAYER("hc_" at "_fn"), XF_COPY, W_TRUNK, HD_STREAM_MIX, HD_STREAM_ALL), \
    VEC("hc_" at "_base.weight", HF_LAYER("hc_" at "_base"), XF_COPY, W_TRUNK, HD_STREAM_MIX), \
    VEC("hc_" at "_scale.weight", HF_LAYER("hc_" at "_scale"), XF_COPY, W_TRUNK, HD_THREE)
#define INDEXER(gguf, hf, flags, ...) {"blk.%d." gguf, AT("indexer." hf), {__VA_ARGS__}, XF_COPY, 0, ROLE_OTHER, W_ATTN, flags}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_COPY), HC("attn"), HC("ffn"),
    KDA("attn_q", "q_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_Q), KDA("attn_k", "k_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_K),
    KDA("attn_v", "v_proj", HD_LIN_INNER, HD_EMBD, ROLE_ATTN_V), KDA("attn_output", "o_proj", HD_EMBD, HD_LIN_INNER, ROLE_ATTN_OUTPUT),
    CONV("q"), CONV("k"), CONV("v"),
    KDA("ssm_f_a", "f_a_proj", HD_LIN_K_DIM, HD_EMBD, ROLE_SSM_ALPHA), KDA("ssm_f_b", "f_b_proj", HD_LIN_INNER, HD_LIN_K_DIM, ROLE_SSM_ALPHA),
    KDA("ssm_g_a", "g_a_proj", HD_LIN_K_DIM, HD_EMBD, ROLE_SSM_ALPHA), KDA("ssm_g_b", "g_b_proj", HD_LIN_INNER, HD_LIN_K_DIM, ROLE_SSM_ALPHA),
    KDA("ssm_beta", "b_proj", HD_LIN_V_HEADS, HD_EMBD, ROLE_SSM_BETA),
    VEC("ssm_a", AT("A_log"), XF_NEG_EXP, W_KDA, HD_LIN_V_HEADS), VEC("ssm_dt.bias", AT("dt_bias"), XF_COPY, W_KDA, HD_LIN_INNER),
    VEC("ssm_norm.weight", AT("o_norm.weight"), XF_COPY, W_KDA, HD_LIN_K_DIM),
    MLA("attn_q_a", "q_a_proj", HD_Q_RANK, HD_EMBD), VEC("attn_q_a_norm.weight", AT("q_a_layernorm.weight"), XF_COPY, W_ATTN, HD_Q_RANK),
    MLA("attn_q_b", "q_b_proj", HD_Q_MLA, HD_Q_RANK),
    MLA("attn_kv_a_mqa", "kv_a_proj_with_mqa", HD_KV_RANK, HD_EMBD), VEC("attn_kv_a_norm.weight", AT("kv_a_layernorm.weight"), XF_COPY, W_ATTN, HD_KV_RANK),
    KV_B("attn_k_b", HD_KV_RANK, HD_NOPE, XF_LATENT_K), KV_B("attn_v_b", HD_VALUE_MLA, HD_KV_RANK, XF_LATENT_V),
    ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_V_MLA, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    INDEXER("indexer.attn_q_b.weight", "wq_b.weight", 0, HD_INDEX_Q, HD_Q_RANK), INDEXER("indexer.attn_k.weight", "wk.weight", 0, HD_INDEX_DIM, HD_EMBD),
    INDEXER("indexer.k_norm.weight", "k_norm.weight", TR_F32, HD_INDEX_DIM), INDEXER("indexer.k_norm.bias", "k_norm.bias", TR_F32, HD_INDEX_DIM),
    INDEXER("indexer.proj.weight", "weights_proj.weight", TR_F32, HD_INDEX_HEADS, HD_EMBD),
    INDEXER("indexer_compressor_ape.weight", "index_kpool_compress_ape", TR_F32, HD_INDEX_BLOCK, HD_INDEX_DIM),
    INDEXER("indexer_compressor_gate.weight", "index_kpool_compress_gate", TR_F32, HD_INDEX_DIM, HD_EMBD),
    ROWS_FFN, ROWS_EXPERTS, ROW_ROUTER_BIAS("mlp.gate.e_score_correction_bias"), ROWS_SHARED_EXPERTS, ROWS_MTP_LAYER,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    TRY(derive_kda_mla(h, 0, e));
    TRY(derive_streams(h, e));
    TRY(hparams_mul(h, HD_INDEX_Q, d[HD_INDEX_HEADS], d[HD_INDEX_DIM], e));
    TRY(derive_shared_experts(h, e));
    return layers_fill_hybrid(h, MIX_KDA, e);
}

/* Sets which layers have attention from layer_types; the others have Kimi delta attention. */
static int read_types(struct hparams *h, const struct json *types, struct err *e) {
    static const char *const attn[] = {"deepseek_sparse_attention", "indexed_attention",
                                       "full_attention"};
    int64_t i = 0;
    for (const struct json *t = json_first(types); t && i < h->d[HD_LAYERS]; t = json_next(t)) {
        const char *is = json_str(t);
        bool full = false;
        for (size_t k = 0; is && k < COUNT_OF(attn); k++) full |= strcmp(is, attn[k]) == 0;
        if (!full && (!is || strcmp(is, "linear_attention") != 0))
            return err_set(e, ERR_DATA, "layer_types[%lld] is \"%.40s\", which is not supported",
                           (long long)i, is ? is : "?");
        *layers_own(h, HD_KV_HEADS, i++) = full;
    }
    if (i == h->d[HD_LAYERS]) return 0;
    return err_set(e, ERR_DATA, "layer_types has %lld entries for %lld layers", (long long)i,
                   (long long)h->d[HD_LAYERS]);
}

/* Rejects indexers that reuse the selection of an earlier layer, which published models lack. */
static int check_indexers(const struct hfdir *dir, struct err *e) {
    const struct json *types = hfdir_hparam(dir, "indexer_types");
    for (const struct json *t = json_first(types); t; t = json_next(t))
        if (!json_str(t) || strcmp(json_str(t), "full") != 0)
            return err_set(e, ERR_DATA,
                           "indexer_types has an entry other than \"full\", which is not "
                           "supported");
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    const struct json *lin = hfdir_hparam(dir, "linear_attn_config"),
                      *types = hfdir_hparam(dir, "layer_types");
    int64_t rope;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if ((json_i64(hfdir_hparam(dir, "qk_rope_head_dim"), &rope) && rope != 0) ||
        !json_bool(hfdir_hparam(dir, "mla_use_nope"), true) ||
        !json_bool(hfdir_hparam(dir, "mhc"), true) ||
        !json_bool(hfdir_hparam(dir, "index_kpool_compress"), true))
        return err_set(e, ERR_DATA,
                       "qk_rope_head_dim, mla_use_nope, mhc or index_kpool_compress is not what "
                       "this architecture can hold");
    TRY(check_indexers(dir, e));
    h->f[HF_DECAY_BOUND] = json_num(json_get(lin, "gate_lower_bound"),
                                    json_num(hfdir_hparam(dir, "linear_lower_bound"), -5));
    h->d[HD_KV_HEADS] = 1;
    TRY(hf_lead_dense(h, dir, e));
    if (types) return read_types(h, types, e);
    return hf_full_layers(h, json_get(lin, "full_attn_layers"), 0, e);
}

#define KEY(x) "glm5-next." x
/* Writes the keys with a value per block, which also count the MTP block. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    const int n = (int)(h->d[HD_LAYERS] + h->d[HD_MTP]);
    int32_t kv[HP_MAX_LAYERS];
    float limit[HP_MAX_LAYERS];
    for (int i = 0; i < n; i++) {
        kv[i] = (int32_t)h->layer[i].kv_heads;
        limit[i] = (float)h->f[HF_SWIGLU_LIMIT];
    }
    gguf_w_arr(w, KEY("attention.head_count_kv"), GV_I32, kv, (uint64_t)n);
    gguf_w_u32(w, KEY("rope.dimension_count"), 0);
    gguf_w_f32(w, KEY("attention.layer_norm_epsilon"), 1e-6f); /* of the indexer's keys */
    if (h->f[HF_DECAY_BOUND] < 0)
        gguf_w_f32(w, KEY("kda.gate_lower_bound"), (float)h->f[HF_DECAY_BOUND]);
    if (h->f[HF_SWIGLU_LIMIT] > 0) {
        gguf_w_arr(w, KEY("swiglu_clamp_exp"), GV_F32, limit, (uint64_t)n);
        gguf_w_arr(w, KEY("swiglu_clamp_shexp"), GV_F32, limit, (uint64_t)n);
    }
}

extern const struct arch arch_glm5_next;
const struct arch arch_glm5_next = {
    .name = "glm5-next",
    .hf_classes = hf_classes,
    .family = "GLM-5.3 Flash",
    .size_note = "hybrid Kimi delta and sparse latent attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .keeps_mtp = true,
    .tools = "glm-argkv",
};
