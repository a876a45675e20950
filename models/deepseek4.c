// SPDX-License-Identifier: MIT
/* models/deepseek4.c - DeepSeek V4, for conversion and quantization: one key per token for all
 * heads, and compressed keys of 4 or 128 tokens; an indexer selects among those of 4. The output
 * projection is low-rank, per group of heads. Hyper-connections. The first layers pick experts by
 * token id. The MTP block is omitted. Names and keys are those of llama.cpp. */
#include <string.h>

#include "base/attr.h"
#include "base/json.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"DeepseekV4ForCausalLM", NULL};
static const char *const skip[] = {"=mtp.", NULL};
enum { GATING_SQRT_SOFTPLUS = 4 }; /* value of expert_gating_func */
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE,
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {"rope.dimension_count", "qk_rope_head_dim", HD_ROT, 0, 64},
    HP_ROW_WINDOW(HPF_REQUIRED), /* of all layers */
    {"attention.q_lora_rank", "q_lora_rank", HD_Q_RANK, HPF_REQUIRED, 0},
    {"attention.output_lora_rank", "o_lora_rank", HD_OUT_RANK, HPF_REQUIRED, 0},
    {"attention.output_group_count", "o_groups", HD_OUT_GROUPS, HPF_REQUIRED, 0},
    {"attention.compress_rope_freq_base", "compress_rope_theta", HF_COMPRESS_BASE, HPF_REAL, 160000},
    HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_EXPERT_SCALE, HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(GATING_SQRT_SOFTPLUS),
    {"hash_layer_count", "num_hash_layers", HD_HASHED, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    HP_ROWS_INDEXER,
    HP_ROWS_STREAMS,
    {.slot = -1},
};
#define MAT(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", "layers.%d." hf ".weight", {rows, cols}, XF_COPY, 0, role, W_ALL, 0}
#define VEC(gguf, hf, where, ...) {"blk.%d." gguf, hf, {__VA_ARGS__}, XF_COPY, 0, ROLE_OTHER, where, TR_F32}
#define COMPRESSOR(gguf, at, width, head, where, role) \
    VEC(gguf "_compressor_ape.weight", "layers.%d." at "compressor.ape", where, HD_RATIO, width), \
    {"blk.%d." gguf "_compressor_kv.weight", "layers.%d." at "compressor.wkv.weight", {width, HD_EMBD}, XF_COPY, 0, role, where, 0}, \
    {"blk.%d." gguf "_compressor_gate.weight", "layers.%d." at "compressor.wgate.weight", {width, HD_EMBD}, XF_COPY, 0, role, where, 0}, \
    VEC(gguf "_compressor_norm.weight", "layers.%d." at "compressor.norm.weight", where, head)
#define HC(at) \
    VEC("hc_" at "_fn.weight", "layers.%d.hc_" at "_fn", W_ALL, HD_STREAM_MIX, HD_STREAM_ALL), \
    VEC("hc_" at "_base.weight", "layers.%d.hc_" at "_base", W_ALL, HD_STREAM_MIX), \
    VEC("hc_" at "_scale.weight", "layers.%d.hc_" at "_scale", W_ALL, HD_THREE)
#define HEAD(gguf, hf, ...) {"output_hc_" gguf ".weight", "hc_head_" hf "|hc_head.hc_" hf, {__VA_ARGS__}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32}
#define EXPERT(gguf, w, rows, cols, role) {"blk.%d." gguf "_exps.weight", "layers.%d.ffn.experts.%e." w ".weight", {HD_EXPERTS, rows, cols}, XF_COPY, 0, role, W_MOE, 0}
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "embed.weight|embed_tokens.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    VEC("attn_norm.weight", "layers.%d.attn_norm.weight", W_ALL, HD_EMBD), VEC("ffn_norm.weight", "layers.%d.ffn_norm.weight", W_ALL, HD_EMBD),
    HC("attn"), HC("ffn"),
    VEC("attn_sinks.weight", "layers.%d.attn.attn_sink", W_ALL, HD_HEADS),
    MAT("attn_q_a", "attn.wq_a", HD_Q_RANK, HD_EMBD, ROLE_ATTN_LATENT), VEC("attn_q_a_norm.weight", "layers.%d.attn.q_norm.weight", W_ALL, HD_Q_RANK),
    MAT("attn_q_b", "attn.wq_b", HD_ATTN_OUT, HD_Q_RANK, ROLE_ATTN_LATENT),
    MAT("attn_kv", "attn.wkv", HD_HEAD_DIM, HD_EMBD, ROLE_ATTN_LATENT),
    VEC("attn_kv_a_norm.weight", "layers.%d.attn.kv_norm.weight|layers.%d.attn.norm.weight", W_ALL, HD_HEAD_DIM),
    MAT("attn_output_a", "attn.wo_a", HD_OUT_LOW, HD_OUT_GROUP, ROLE_ATTN_OUTPUT), MAT("attn_output_b", "attn.wo_b", HD_EMBD, HD_OUT_LOW, ROLE_ATTN_OUTPUT),
    COMPRESSOR("attn", "attn.", HD_COMPRESS, HD_HEAD_DIM, W_COMPRESS, ROLE_ATTN_LATENT),
    COMPRESSOR("indexer", "attn.indexer.", HD_INDEX_COMPRESS, HD_INDEX_DIM, W_INDEXER, ROLE_OTHER),
    {"blk.%d.indexer.attn_q_b.weight", "layers.%d.attn.indexer.wq_b.weight", {HD_INDEX_Q, HD_Q_RANK}, XF_COPY, 0, ROLE_OTHER, W_INDEXER, 0},
    VEC("indexer.proj.weight", "layers.%d.attn.indexer.weights_proj.weight", W_INDEXER, HD_INDEX_HEADS, HD_EMBD),
    VEC("ffn_gate_inp.weight", "layers.%d.ffn.gate.weight", W_MOE, HD_EXPERTS, HD_EMBD),
    {"blk.%d.ffn_gate_tid2eid.weight", "layers.%d.ffn.gate.tid2eid", {HD_VOCAB, HD_EXPERTS_USED}, XF_COPY, 0, ROLE_OTHER, W_HASHED, TR_I32},
    VEC("exp_probs_b.bias", "layers.%d.ffn.gate.bias", W_SCORED, HD_EXPERTS),
    EXPERT("ffn_gate", "w1", HD_FF_EXP, HD_EMBD, ROLE_EXP_GATE), EXPERT("ffn_up", "w3", HD_FF_EXP, HD_EMBD, ROLE_EXP_UP), EXPERT("ffn_down", "w2", HD_EMBD, HD_FF_EXP, ROLE_EXP_DOWN),
    MAT("ffn_gate_shexp", "ffn.shared_experts.w1", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE), MAT("ffn_up_shexp", "ffn.shared_experts.w3", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP),
    MAT("ffn_down_shexp", "ffn.shared_experts.w2", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    HEAD("fn", "fn", HD_STREAMS, HD_STREAM_ALL), HEAD("base", "base", HD_STREAMS), HEAD("scale", "scale", HD_ONE),
    {"output_norm.weight", "norm.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    {"output.weight", "head.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_GLOBAL, 0}, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (d[HD_HEADS] % d[HD_OUT_GROUPS])
        return err_set(e, ERR_DATA, "%lld heads cannot be cut into o_groups of %lld",
                       (long long)d[HD_HEADS], (long long)d[HD_OUT_GROUPS]);
    TRY(derive_streams(h, e));
    TRY(hparams_mul(h, HD_OUT_LOW, d[HD_OUT_GROUPS], d[HD_OUT_RANK], e));
    TRY(hparams_mul(h, HD_INDEX_Q, d[HD_INDEX_HEADS], d[HD_INDEX_DIM], e));
    TRY(hparams_mul(h, HD_INDEX_COMPRESS, 2, d[HD_INDEX_DIM], e));
    TRY(derive_shared_experts(h, e));
    return layers_fill(h, e);
}

/* Sets a layer's ratio. ERR_DATA: a ratio that llama.cpp's format does not have. */
static int set_ratio(struct hparams *h, int64_t i, int64_t ratio, struct err *e) {
    if (ratio != 0 && ratio != 4 && ratio != 128)
        return err_set(e, ERR_DATA,
                       "layer %lld compresses %lld tokens into a key; the format has 4 and 128",
                       (long long)i, (long long)ratio);
    *layers_own(h, HD_RATIO, i) = ratio;
    return 0;
}

/* Reads how many tokens each layer compresses into a key: from compress_ratios, or from layer_types
 * as transformers names them. */
static int read_ratios(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const struct {
        const char *type;
        int64_t ratio;
    } types[] = {{"sliding_attention", 0},
                 {"compressed_sparse_attention", 4},
                 {"heavily_compressed_attention", 128}};
    const struct json *list = hfdir_hparam(dir, "compress_ratios"),
                      *rates = hfdir_hparam(dir, "compress_rates");
    const bool named = json_type(list) != JSON_ARR;
    int64_t i = 0;
    if (named) list = hfdir_hparam(dir, "layer_types");
    for (const struct json *t = json_first(list); t && i < h->d[HD_LAYERS]; t = json_next(t), i++) {
        int64_t ratio = -1;
        const char *is = json_str(t);
        for (size_t k = 0; named && is && k < COUNT_OF(types); k++)
            if (strcmp(is, types[k].type) == 0)
                TRY(hfdir_whole(json_get(rates, is), "compress_rates", types[k].ratio, &ratio, e));
        if (!named && !json_i64(t, &ratio)) ratio = -1;
        TRY(set_ratio(h, i, ratio, e));
    }
    if (i == h->d[HD_LAYERS]) return 0;
    return err_set(e, ERR_DATA, "%s has %lld entries for %lld layers",
                   named ? "layer_types" : "compress_ratios", (long long)i,
                   (long long)h->d[HD_LAYERS]);
}

/* Counts the leading layers that pick experts by token id in mlp_layer_types, if num_hash_layers is
 * missing. */
static int read_hashed(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *types = hfdir_hparam(dir, "mlp_layer_types");
    int64_t i = 0;
    if (json_type(types) != JSON_ARR || hfdir_said(dir, "num_hash_layers")) return 0;
    h->d[HD_HASHED] = 0;
    for (const struct json *t = json_first(types); t; t = json_next(t), i++) {
        const bool hashed = json_str(t) && strcmp(json_str(t), "hash_moe") == 0;
        if (hashed && h->d[HD_HASHED] < i)
            return err_set(e, ERR_DATA, "mlp_layer_types[%lld]: hash_moe layers must come first",
                           (long long)i);
        h->d[HD_HASHED] += hashed;
    }
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_is(dir, "scoring_func", "sqrtsoftplus", e));
    if (h->d[HD_KV_HEADS] != 1)
        return err_set(e, ERR_DATA, "num_key_value_heads is %lld, not 1",
                       (long long)h->d[HD_KV_HEADS]);
    h->d[HD_NO_MTP] = 1;
    h->tied = false;
    TRY(read_hashed(h, dir, e));
    TRY(read_ratios(h, dir, e));
    return hf_check_rope(dir, e);
}

#define KEY(x) "deepseek4." x
/* Writes the keys with a value per block. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    const int n = (int)h->d[HD_LAYERS];
    int32_t ratio[HP_MAX_LAYERS];
    float limit[HP_MAX_LAYERS];
    for (int i = 0; i < n; i++) {
        ratio[i] = (int32_t)h->layer[i].ratio;
        limit[i] = (float)h->f[HF_SWIGLU_LIMIT];
    }
    gguf_w_arr(w, KEY("attention.compress_ratios"), GV_I32, ratio, (uint64_t)n);
    if (h->f[HF_SWIGLU_LIMIT] > 0)
        gguf_w_arr(w, KEY("swiglu_clamp_exp"), GV_F32, limit, (uint64_t)n);
}

extern const struct arch arch_deepseek4;
const struct arch arch_deepseek4 = {
    .name = "deepseek4",
    .hf_classes = hf_classes,
    .family = "DeepSeek V4",
    .size_note = "compressed sparse attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .mxfp4 = true,
    .tools = "dsml-v4",
};
