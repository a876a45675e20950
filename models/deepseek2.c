// SPDX-License-Identifier: MIT
/* models/deepseek2.c - DeepSeek V2, V3, R1, Kimi K2, GLM-4.7 Flash, Youtu (dense) and similar
 * models: latent attention; leading dense layers, then routed and shared experts. Also Mistral
 * Small 4, which scales queries by position. V2 selects experts by softmax, and ranks groups by
 * their best expert; V3 selects by sigmoid scores with a bias, in groups. A GGUF stores kv_b_proj
 * as two tensors per head, keys (transposed) and values.
 *
 * head_dim here is the length of a query when multiplied with the cache: that of a latent row plus
 * that of the rotated part. */
#include <math.h>
#include <string.h>

#include "containers/hfdir.h"
#include "base/fp.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"DeepseekV2ForCausalLM",
                                         "DeepseekV3ForCausalLM",
                                         "KimiK25ForConditionalGeneration",
                                         "KimiVLForConditionalGeneration",
                                         "Glm4MoeLiteForCausalLM",
                                         "YoutuForCausalLM",
                                         NULL};
static const char *const dsa_classes[] = {"DeepseekV32ForCausalLM", NULL};
static const char *const glm_classes[] = {"GlmMoeDsaForCausalLM", NULL};
static const char *const mistral_classes[] = {"Mistral4ForCausalLM", NULL};
static const char *const skip[] = {"vision_tower.", "mm_projector.", "multi_modal_projector.",
                                   NULL};

// clang-format off
#define HP_ROWS_MLA                                                                                                                                   \
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},                                                                                  \
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},                                                                            \
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},                                                                                     \
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},                                                                        \
    {"attention.head_count_kv", NULL, HD_KV_HEADS, 0, 1},                                                                                              \
    {"attention.q_lora_rank", "q_lora_rank", HD_Q_RANK, 0, 0},                                                                                         \
    {"attention.kv_lora_rank", "kv_lora_rank", HD_KV_RANK, HPF_REQUIRED, 0},                                                                           \
    {"rope.dimension_count", "qk_rope_head_dim", HD_ROT, HPF_REQUIRED, 0},                                                                             \
    {NULL, "qk_nope_head_dim", HD_NOPE, HPF_NO_KEY | HPF_REQUIRED, 0},                                                                                 \
    {"attention.key_length", NULL, HD_HEAD_DIM, 0, 0},                                                                                                 \
    {"attention.value_length", NULL, HD_LATENT, 0, 0},                                                                                                 \
    {"attention.key_length_mla", NULL, HD_KEY_MLA, 0, 0},                                                                                              \
    {"attention.value_length_mla", "v_head_dim", HD_VALUE_MLA, 0, 0},                                                                                  \
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},                                                                                           \
    HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_FF,                                                                                                       \
    {"expert_shared_count", "n_shared_experts", HD_SHEXPS, HPF_ZERO_OK | HPF_KEEP_ZERO, 0}, HP_ROW_LEAD_DENSE, HP_ROW_EXPERT_SCALE,                    \
    HP_ROW_EXPERT_NORM(0), HP_ROW_GATING(0), HP_ROWS_GROUPS, HP_ROW_MTP,                                                                               \
    {"expert_count", "n_routed_experts", HD_EXPERTS, 0, 0}, /* some are dense */                                                                       \
    {"expert_used_count", "num_experts_per_tok", HD_EXPERTS_USED, 0, 0},                                                                               \
    {"expert_feed_forward_length", "moe_intermediate_size", HD_FF_EXP, 0, 0}
static const struct hp_row hp[] = {HP_ROWS_MLA, {.slot = -1}};
#define Q(gguf, hf, rows, cols, slot) ROW_MAT(gguf, "self_attn." hf, rows, cols, ROLE_ATTN_LATENT, W_ATTN, TR_IF(slot))
#define KV_B(gguf, rows, cols, xf) \
    {"blk.%d." gguf ".weight", HF_LAYER("self_attn.kv_b_proj.weight"), {HD_HEADS, rows, cols}, xf, 0, ROLE_ATTN_LATENT, W_ATTN, 0}
#define TENSOR_ROWS                                                                                                                                   \
    ROW_TOKEN_EMBD,                                                                                                                                    \
    ROWS_PRE_NORMS(XF_COPY),                                                                                                                           \
    ROW_MAT("attn_q", "self_attn.q_proj", HD_Q_MLA, HD_EMBD, ROLE_ATTN_Q, W_ATTN, TR_IF(HD_Q_DIRECT)),                                                 \
    Q("attn_q_a", "q_a_proj", HD_Q_RANK, HD_EMBD, HD_Q_RANK),                                                                                          \
    ROW_VEC("attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight", HD_Q_RANK, XF_COPY, W_ATTN, TR_IF(HD_Q_RANK)),                                   \
    Q("attn_q_b", "q_b_proj", HD_Q_MLA, HD_Q_RANK, HD_Q_RANK),                                                                                         \
    Q("attn_kv_a_mqa", "kv_a_proj_with_mqa", HD_HEAD_DIM, HD_EMBD, HD_NONE),                                                                           \
    ROW_VEC("attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight", HD_KV_RANK, XF_COPY, W_ATTN, 0),                                               \
    {"blk.%d.attn_kv_b.weight", NULL, {HD_KV_B, HD_KV_RANK}, XF_COPY, 0, ROLE_ATTN_V, W_ATTN, TR_IF(HD_KV_B)},                                         \
    KV_B("attn_k_b", HD_KV_RANK, HD_NOPE, XF_LATENT_K),                                                                                                \
    KV_B("attn_v_b", HD_VALUE_MLA, HD_KV_RANK, XF_LATENT_V),                                                                                           \
    ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_V_MLA, ROLE_ATTN_OUTPUT, W_ATTN, 0),                                                        \
    ROWS_FFN,                                                                                                                                          \
    ROWS_EXPERTS,                                                                                                                                      \
    ROW_VEC("exp_probs_b.bias", "mlp.gate.e_score_correction_bias", HD_EXPERTS, XF_COPY, W_MOE, TR_FOUND | TR_IF(HD_PREFER)),                          \
    ROWS_SHARED_EXPERTS,                                                                                                                               \
    ROWS_MTP_LAYER,                                                                                                                                    \
    ROW_OUTPUT_NORM(XF_COPY),                                                                                                                          \
    ROW_OUTPUT
static const struct tensor_row tensors[] = {TENSOR_ROWS, {.gguf = NULL}};
/* Hyperparameters of sparse attention's indexer, which selects the keys that a query attends to. */
static const struct hp_row dsa_hp[] = {
    HP_ROWS_MLA,
    HP_ROWS_INDEXER,
    {.slot = -1},
};
#define INDEXER(gguf, hf, flags, ...) \
    {"blk.%d.indexer." gguf, HF_LAYER("self_attn.indexer." hf), {__VA_ARGS__}, XF_COPY, 0, ROLE_OTHER, W_ATTN, TR_SELECT | TR_IF(HD_INDEXED) | (flags)}
static const struct tensor_row dsa_tensors[] = {
    TENSOR_ROWS,
    INDEXER("attn_q_b.weight", "wq_b.weight", TR_FOUND, HD_INDEX_Q, HD_Q_RANK),
    INDEXER("attn_k.weight", "wk.weight", 0, HD_INDEX_DIM, HD_EMBD),
    INDEXER("k_norm.weight", "k_norm.weight", TR_F32, HD_INDEX_DIM),
    INDEXER("k_norm.bias", "k_norm.bias", TR_F32, HD_INDEX_DIM),
    INDEXER("proj.weight", "weights_proj.weight", TR_F32, HD_INDEX_HEADS, HD_EMBD),
    {.gguf = NULL},
};
// clang-format on

/* Returns ERR_DATA unless the dimensions of latent attention and experts are consistent. */
static int check_dims(const int64_t *d, struct err *e) {
    if (d[HD_KV_HEADS] != 1)
        return err_set(
            e, ERR_DATA,
            "attention.head_count_kv is %lld, not 1: an older file, with keys and values "
            "of single heads; convert the model again, or download a newer file",
            (long long)d[HD_KV_HEADS]);
    if (d[HD_HEAD_DIM] != d[HD_KV_RANK] + d[HD_ROT] || d[HD_LATENT] != d[HD_KV_RANK] ||
        d[HD_NOPE] < 1 || d[HD_KEY_MLA] != d[HD_NOPE] + d[HD_ROT] || d[HD_VALUE_MLA] < 1)
        return err_set(e, ERR_DATA,
                       "latent attention of rank %lld, of whose keys rope turns %lld values, does "
                       "not fit keys of %lld and heads of %lld and %lld",
                       (long long)d[HD_KV_RANK], (long long)d[HD_ROT], (long long)d[HD_HEAD_DIM],
                       (long long)d[HD_KEY_MLA], (long long)d[HD_VALUE_MLA]);
    if (d[HD_EXPERTS] && (d[HD_EXPERTS_USED] < 1 || d[HD_FF_EXP] < 1))
        return err_set(e, ERR_DATA,
                       "%lld experts, but their width or the number used per token is missing",
                       (long long)d[HD_EXPERTS]);
    return 0;
}

/* Returns YaRN's factor for attention scores at a given weight (mscale). */
static double yarn_growth(const struct hparams *h, double weight) {
    const double f = h->f[HF_YARN_FACTOR];
    return f > 1 ? 1 + 0.1 * weight * fp_log(f) : 1;
}

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (!d[HD_KEY_MLA]) d[HD_KEY_MLA] = d[HD_NOPE] + d[HD_ROT];
    if (!d[HD_NOPE]) d[HD_NOPE] = d[HD_KEY_MLA] - d[HD_ROT];
    if (!d[HD_HEAD_DIM]) d[HD_HEAD_DIM] = d[HD_KV_RANK] + d[HD_ROT];
    if (!d[HD_LATENT]) d[HD_LATENT] = d[HD_KV_RANK];
    TRY(check_dims(d, e));
    d[HD_Q_DIRECT] = d[HD_Q_RANK] == 0;
    const double more = yarn_growth(h, h->f[HF_YARN_LOG]);
    h->f[HF_ATTN_SCALE] = more * more / sqrt((double)d[HD_KEY_MLA]);
    TRY(hparams_mul(h, HD_Q_MLA, d[HD_HEADS], d[HD_KEY_MLA], e));
    TRY(hparams_mul(h, HD_V_MLA, d[HD_HEADS], d[HD_VALUE_MLA], e));
    TRY(derive_shared_experts(h, e));
    return layers_fill(h, e);
}

/* Reads how experts are selected. Without scoring_func the default is softmax for V2, and sigmoid
 * for all others, which descend from V3. Only group_limited_greedy and noaux_tc use groups. */
static int read_router(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const char *score = json_str(hfdir_hparam(dir, "scoring_func"));
    const char *type = json_str(hfdir_hparam(dir, "model_type"));
    const char *method = json_str(hfdir_hparam(dir, "topk_method"));
    const bool v2 = type && strcmp(type, "deepseek_v2") == 0;
    if (!score) score = v2 ? "softmax" : "sigmoid";
    if (strcmp(score, "softmax") != 0 && strcmp(score, "sigmoid") != 0)
        return err_set(e, ERR_DATA, "scoring_func is \"%.40s\", which is not supported", score);
    h->d[HD_SCORE] = strcmp(score, "sigmoid") == 0 ? 2 : 1;
    if (v2 && (!method || strcmp(method, "greedy") == 0))
        h->d[HD_GROUPS] = h->d[HD_GROUPS_USED] = 0;
    h->d[HD_NO_MTP] = !type || strcmp(type, "glm4_moe_lite") != 0;
    return 0;
}

/* Sets the YaRN scaling. With mscale_all_dim, scores are scaled instead of cos and sin. mscale must
 * equal it, as in all published configs, because GGUF has no key for mscale. */
static int yarn(struct hparams *h, struct err *e) {
    if (!(h->f[HF_YARN_LOG] > 0)) return 0;
    if (fabs(h->f[HF_YARN_ATTN] * yarn_growth(h, 1) - 1) > 1e-6)
        return err_set(e, ERR_DATA,
                       "mscale differs from mscale_all_dim, which the format cannot hold");
    h->f[HF_YARN_ATTN] = 1 / yarn_growth(h, h->f[HF_YARN_LOG]); /* so that no key is written */
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if (!json_bool(hfdir_said(dir, "rope_interleave"), true))
        return err_set(e, ERR_DATA, "rope_interleave is false, which the format cannot hold");
    if (json_num(hfdir_hparam(dir, "moe_layer_freq"), 1) > 1)
        return err_set(e, ERR_DATA,
                       "moe_layer_freq asks for dense layers among those with experts");
    TRY(read_router(h, dir, e));
    if (!h->d[HD_EXPERTS]) { /* values that GGUF files of dense models contain */
        h->d[HD_LEAD_DENSE] = h->d[HD_LAYERS];
        h->d[HD_FF_EXP] = h->d[HD_FF];
    }
    TRY(yarn(h, e));
    return hf_check_rope(dir, e);
}

/* Reads a Mistral Small 4 config: a softmax router, and queries scaled up with every multiple of
 * the original context. */
static int mistral_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *r = hf_rope(dir, ROPE_FULL);
    if (h->d[HD_GROUPS] > 1)
        return err_set(e, ERR_DATA, "n_group is %lld, but this router has no groups",
                       (long long)h->d[HD_GROUPS]);
    TRY(from_hf(h, dir, e));
    h->d[HD_SCORE] = 1;
    h->d[HD_GROUPS] = h->d[HD_GROUPS_USED] = 0;
    h->d[HD_NORM_TOPK] = json_bool(hfdir_hparam(dir, "norm_topk_prob"), true);
    h->f[HF_TEMPER] = json_num(json_get(r, "llama_4_scaling_beta"), 0);
    h->d[HD_TEMPER_STEP] = h->d[HD_YARN_CTX];
    if (!(h->f[HF_TEMPER] >= 0 && h->f[HF_TEMPER] < 1e3) ||
        (h->f[HF_TEMPER] > 0 && h->d[HD_YARN_CTX] < 1))
        return err_set(e, ERR_DATA, "llama_4_scaling_beta is %g without a context to grow with",
                       h->f[HF_TEMPER]);
    return 0;
}

/* Adapts files from before 2025, which store the sizes of keys and values per head, and kv_b_proj
 * as one tensor. */
static int read_older(struct hparams *h, const struct gguf *g, struct err *e) {
    int64_t *d = h->d;
    if (d[HD_KV_HEADS] != d[HD_HEADS] || d[HD_HEADS] == 1 || d[HD_KEY_MLA] ||
        !gguf_find_tensor(g, "blk.0.attn_kv_b.weight"))
        return 0;
    d[HD_KEY_MLA] = d[HD_HEAD_DIM];
    d[HD_VALUE_MLA] = d[HD_LATENT];
    d[HD_KV_HEADS] = 1;
    d[HD_HEAD_DIM] = d[HD_LATENT] = 0;
    return hparams_mul(h, HD_KV_B, d[HD_HEADS], d[HD_KEY_MLA] - d[HD_ROT] + d[HD_VALUE_MLA], e);
}

/* Fills in missing keys. GLM-4.7 Flash files may lack expert_gating_func. They are recognised by
 * vocabulary and layer count, as llama.cpp does. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    TRY(read_older(h, g, e));
    const int64_t blocks = h->d[HD_LAYERS] + h->d[HD_MTP];
    if (!h->d[HD_SCORE] && h->d[HD_VOCAB] == 154880 && (blocks == 47 || blocks == 48))
        h->d[HD_SCORE] = 2;
    if (h->f[HF_YARN_LOG] > 0) h->f[HF_YARN_ATTN] = 1 / yarn_growth(h, 1);
    return 0;
}

#define TEMPER "mistral4.attention.temperature_"
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int mistral_read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    TRY(read_keys(h, g, e));
    if (!gguf_find(g, TEMPER "scale")) return 0;
    TRY(gguf_get_f64(g, TEMPER "scale", &h->f[HF_TEMPER], e));
    uint64_t step = (uint64_t)h->d[HD_YARN_CTX];
    TRY(gguf_opt_u64(g, TEMPER "length", &step, e));
    h->d[HD_TEMPER_STEP] = step <= INT32_MAX ? (int64_t)step : 0;
    return h->f[HF_TEMPER] >= 0 && h->f[HF_TEMPER] < 1e3 && h->d[HD_TEMPER_STEP] > 0
               ? 0
               : err_set(e, ERR_DATA, TEMPER "scale is %g without a length to grow with",
                         h->f[HF_TEMPER]);
}
/* Writes the keys that only this architecture has. */
static void mistral_write_keys(const struct hparams *h, struct gguf_w *w) {
    if (!(h->f[HF_TEMPER] > 0)) return;
    gguf_w_f32(w, TEMPER "scale", (float)h->f[HF_TEMPER]);
    gguf_w_u32(w, TEMPER "length", (uint32_t)h->d[HD_TEMPER_STEP]);
}

/* ---- sparse attention ---- */

/* Derives dimensions and layers from the hyperparameters. The indexer may be missing: its selection
 * has no effect on contexts no longer than the number of tokens it selects, so these can be
 * computed without it. ERR_DATA: inconsistent. */
static int dsa_derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    TRY(hparams_mul(h, HD_INDEX_Q, d[HD_INDEX_HEADS], d[HD_INDEX_DIM], e));
    d[HD_MOST_CTX] = d[HD_INDEXED] ? 0 : d[HD_TOP_KEYS];
    if (d[HD_ROT] > d[HD_INDEX_DIM] || !d[HD_Q_RANK])
        return err_set(e, ERR_DATA,
                       "an indexer with heads of %lld values does not fit queries of rank %lld and "
                       "keys of which rope turns %lld values",
                       (long long)d[HD_INDEX_DIM], (long long)d[HD_Q_RANK], (long long)d[HD_ROT]);
    if (h->layer[0].index_shared)
        return err_set(e, ERR_DATA, "the first layer has no preceding selection of keys to reuse");
    return derive(h, e);
}

/* Reads which layers select keys ("full") and which reuse the selection of the preceding layer:
 * from a list, a string of F and S, or a period with an offset. */
static void dsa_types(struct hparams *h, const struct hfdir *dir) {
    const struct json *t = json_first(hfdir_hparam(dir, "indexer_types"));
    const char *text = json_str(hfdir_hparam(dir, "index_topk_pattern"));
    const double freq = fmax(json_num(hfdir_hparam(dir, "index_topk_freq"), 1), 1);
    const double offset = json_num(hfdir_hparam(dir, "index_skip_topk_offset"), 2);
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const char *is = json_str(t);
        bool shared = fmod(fmax((double)i - offset + 1, 0), freq) > 0.5;
        if (text) shared = (size_t)i < strlen(text) && text[i] == 'S';
        if (t) shared = is && strcmp(is, "shared") == 0;
        h->layer[i].index_shared = shared;
        t = t ? json_next(t) : NULL;
    }
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int dsa_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_lead_dense(h, dir, e));
    TRY(from_hf(h, dir, e));
    h->d[HD_NO_MTP] = 0;
    return 0;
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int glm_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    dsa_types(h, dir);
    return dsa_from_hf(h, dir, e);
}

#define TYPES "glm-dsa.attention.indexer.types"
/* Reads the keys that only this architecture has; ERR_DATA: out of range. Without
 * expert_gating_func, the router uses sigmoids. */
static int glm_read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    if (!h->d[HD_SCORE]) h->d[HD_SCORE] = 2;
    const struct gguf_kv *kv = gguf_find(g, TYPES);
    if (kv && (kv->type != GV_ARR || kv->count < (uint64_t)h->d[HD_LAYERS] ||
               (kv->elem != GV_BOOL && kv->elem != GV_I32 && kv->elem != GV_U32)))
        return err_set(e, ERR_DATA, TYPES " does not have an entry for each of %lld layers",
                       (long long)h->d[HD_LAYERS]);
    for (int64_t i = 0; kv && i < h->d[HD_LAYERS]; i++)
        h->layer[i].index_shared = !gguf_kv_i64(kv, (uint64_t)i);
    return read_keys(h, g, e);
}
/* Writes the keys that only this architecture has. */
static void glm_write_keys(const struct hparams *h, struct gguf_w *w) {
    uint8_t own[HP_MAX_LAYERS];
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) own[i] = !h->layer[i].index_shared;
    gguf_w_arr(w, TYPES, GV_BOOL, own, (uint64_t)h->d[HD_LAYERS]);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}, .latent = true},
              .ffn = {.router = {.norm_key = true}}},
};

/* RoPE of the indexer: halves in DeepSeek V3.2, adjacent pairs in GLM-5. */
static const struct decoder_spec dsa_decoder = {
    .block = {PRE_NORMS,
              .attn = {.rope = {.kind = ROPE_PAIRS},
                       .latent = true,
                       .index_rope = {.kind = ROPE_HALVES}},
              .ffn = {.router = {.norm_key = true}}},
};
static const struct decoder_spec glm_decoder = {
    .block = {PRE_NORMS,
              .attn = {.rope = {.kind = ROPE_PAIRS},
                       .latent = true,
                       .index_rope = {.kind = ROPE_PAIRS}},
              .ffn = {.router = {.norm_key = true}}},
};

extern const struct arch arch_deepseek2, arch_mistral4, arch_deepseek32, arch_glm_dsa;
const struct arch arch_deepseek2 = {
    .name = "deepseek2",
    .hf_classes = hf_classes,
    .family = "DeepSeek V2, V3, R1, Kimi K2, GLM-4.7 Flash, Youtu",
    .size_note = "latent attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .decoder = &decoder,
    .yarn_log = 0.1,
    .drafts = true,
    .tools = "deepseek-v31 kimi glm-argkv",
};
const struct arch arch_mistral4 = {
    .name = "mistral4",
    .hf_classes = mistral_classes,
    .family = "Mistral Small 4",
    .size_note = "latent attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = mistral_from_hf,
    .read_keys = mistral_read_keys,
    .write_keys = mistral_write_keys,
    .decoder = &decoder,
    .yarn_log = 0.1,
    .tools = "mistral-args mistral-array",
};
const struct arch arch_deepseek32 = {
    .name = "deepseek32",
    .hf_classes = dsa_classes,
    .family = "DeepSeek V3.2",
    .size_note = "sparse latent attention, mixture of experts",
    .hp = dsa_hp,
    .tensors = dsa_tensors,
    .derive = dsa_derive,
    .from_hf = dsa_from_hf,
    .read_keys = read_keys,
    .keeps_mtp = true,
    .decoder = &dsa_decoder,
    .yarn_log = 0.1,
    .tools = "dsml",
};
const struct arch arch_glm_dsa = {
    .name = "glm-dsa",
    .hf_classes = glm_classes,
    .family = "GLM-5",
    .size_note = "sparse latent attention, mixture of experts",
    .hp = dsa_hp,
    .tensors = dsa_tensors,
    .derive = dsa_derive,
    .from_hf = glm_from_hf,
    .read_keys = glm_read_keys,
    .write_keys = glm_write_keys,
    .keeps_mtp = true,
    .decoder = &glm_decoder,
    .yarn_log = 0.1,
    .tools = "glm-argkv",
};
