// SPDX-License-Identifier: MIT
/* models/qwen4exp.c - Qwen3.8 Flash Next, for conversion and quantization: gated delta nets, and
 * attention with an indexer in every fourth layer; hyper-connections with a low-rank mixer instead
 * of norms; one layer adds embeddings of hashed n-grams from a table that checkpoints store in
 * shards. Norms are stored as w - 1. Its MTP block is omitted. Names and keys are those of
 * llama.cpp. */
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/str.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Qwen4ExpForConditionalGeneration", "Qwen4ExpForCausalLM",
                                         NULL};
#define TABLE "ple_embedding."
static const char *const skip[] = {"visual.",
                                   "=mtp.",
                                   "=" TABLE "layer_multipliers",
                                   "=" TABLE "ngram_heads_offsets",
                                   "=" TABLE "ngram_heads_vocab_sizes",
                                   NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER,
    {"ssm.conv_kernel", "linear_conv_kernel_dim", HD_CONV_K, HPF_REQUIRED, 0},
    {"ssm.state_size", "linear_key_head_dim", HD_LIN_K_DIM, HPF_REQUIRED, 0},
    {"ssm.group_count", "linear_num_key_heads", HD_LIN_K_HEADS, HPF_REQUIRED, 0},
    {"ssm.time_step_rank", "linear_num_value_heads", HD_LIN_V_HEADS, HPF_REQUIRED, 0},
    {"ssm.inner_size", NULL, HD_LIN_INNER, HPF_REQUIRED, 0},
    {NULL, "linear_value_head_dim", HD_LIN_V_DIM, HPF_NO_KEY, 0},
    {"full_attention_interval", "full_attention_interval", HD_FULL_INTERVAL, 0, 4},
    HP_ROW_ROT, HP_ROWS_EXPERTS,
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {"hyper_connection.count", "hc_count", HD_STREAMS, HPF_REQUIRED, 0},
    {"hyper_connection.low_rank", "hc_lowrank", HD_STREAM_RANK, HPF_REQUIRED, 0},
    {"attention.indexer.head_count", "indexer_n_heads", HD_INDEX_HEADS, HPF_REQUIRED, 0},
    {"attention.indexer.key_length", "indexer_head_dim", HD_INDEX_DIM, HPF_REQUIRED, 0},
    {"attention.indexer.top_k", "indexer_budget", HD_TOP_KEYS, HPF_REQUIRED, 0},
    {NULL, "indexer_compress_ratio", HD_INDEX_BLOCK, HPF_NO_KEY | HPF_REQUIRED, 0},
    {NULL, "ngram_size", HD_NGRAM_SIZE, HPF_NO_KEY, 3},
    {NULL, "heads_per_ngram", HD_NGRAM_HEADS, HPF_NO_KEY, 8},
    {NULL, "ple_conv_kernel_size", HD_NGRAM_CONV, HPF_NO_KEY, 4},
    {.slot = -1},
};
#define LINEAR(x) "model.layers.%d.linear_attn." x
#define STREAM(gguf, at, where) \
    {gguf "_norm.weight", at "hc_norm.weight", {HD_STREAM_ALL}, XF_ADD1, 0, ROLE_OTHER, where, TR_F32}, \
    {gguf "_down.weight", at "input_mix_weight_down.weight", {HD_STREAM_RANK, HD_STREAM_ALL}, XF_COPY, 0, ROLE_OTHER, where, 0}, \
    {gguf "_up.weight", at "input_mix_weight_up.weight", {HD_STREAM_ALL, HD_STREAM_RANK}, XF_COPY, 0, ROLE_OTHER, where, 0}
#define STREAMS(name, at) \
    STREAM("blk.%d.hc_" name, "model.layers.%d." at ".", W_ALL), \
    {"blk.%d.hc_" name "_inject.weight", "model.layers.%d." at ".block_inject_weight.weight", {HD_STREAMS, HD_STREAM_ALL}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
#define INDEX(gguf, hf, xf, ...) {"blk.%d.indexer." gguf ".weight", "model.layers.%d.self_attn.indexer." hf ".weight", {__VA_ARGS__}, xf, 0, ROLE_OTHER, W_ATTN, 0}
#define NGRAM_NORM(x) {"blk.%d.ple_norm_" x ".weight", "model.layers.%d.ple.norm_" x ".weight", {HD_STREAM_ALL}, XF_ADD1, 0, ROLE_OTHER, W_NGRAM, TR_F32}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    {"per_layer_token_embd.weight", "model.layers.%d.ple." TABLE "ngram_embedding.shard_%e.weight|model.layers.%d.ple." TABLE "ngram_embedding.weight",
     {HD_NGRAM_ROWS, HD_NGRAM_DIM}, XF_SHARDS, 0, ROLE_PLE_EMBD, W_GLOBAL, TR_IF(HD_NGRAM_ROWS)},
    STREAMS("attn", "attn_hyper_connection"), STREAMS("ffn", "mlp_hyper_connection"),
    ROWS_QKVO(HD_QG_OUT, XF_COPY), ROWS_QK_NORM(XF_ADD1),
    INDEX("q_proj", "index_qk_proj", XF_INDEX_Q, HD_INDEX_Q, HD_EMBD), INDEX("k_proj", "index_qk_proj", XF_INDEX_K, HD_INDEX_DIM, HD_EMBD),
    INDEX("q_norm", "q_layernorm", XF_ADD1, HD_INDEX_DIM), INDEX("k_norm", "k_layernorm", XF_ADD1, HD_INDEX_DIM),
    {"blk.%d.attn_qkv.weight", LINEAR("in_proj_qkv.weight"), {HD_CONV_CH, HD_EMBD}, XF_V_ROWS_TAIL, HD_LIN_V_DIM, ROLE_ATTN_QKV, W_DELTA, 0},
    {"blk.%d.attn_gate.weight", LINEAR("in_proj_z.weight"), {HD_LIN_INNER, HD_EMBD}, XF_V_ROWS, HD_LIN_V_DIM, ROLE_ATTN_GATE, W_DELTA, 0},
    {"blk.%d.ssm_alpha.weight", LINEAR("in_proj_a.weight"), {HD_LIN_V_HEADS, HD_EMBD}, XF_V_ROWS, HD_ONE, ROLE_SSM_ALPHA, W_DELTA, 0},
    {"blk.%d.ssm_beta.weight", LINEAR("in_proj_b.weight"), {HD_LIN_V_HEADS, HD_EMBD}, XF_V_ROWS, HD_ONE, ROLE_SSM_BETA, W_DELTA, 0},
    {"blk.%d.ssm_conv1d.weight", LINEAR("conv1d.weight"), {HD_CONV_CH, HD_CONV_K}, XF_V_ROWS_TAIL, HD_LIN_V_DIM, ROLE_OTHER, W_DELTA, TR_F32},
    {"blk.%d.ssm_a", LINEAR("A_log"), {HD_LIN_V_HEADS}, XF_NEG_EXP_V, HD_ONE, ROLE_OTHER, W_DELTA, TR_F32},
    {"blk.%d.ssm_dt.bias", LINEAR("dt_bias"), {HD_LIN_V_HEADS}, XF_V_ROWS, HD_ONE, ROLE_OTHER, W_DELTA, TR_F32},
    {"blk.%d.ssm_norm.weight", LINEAR("norm.weight"), {HD_LIN_V_DIM}, XF_COPY, 0, ROLE_OTHER, W_DELTA, TR_F32},
    {"blk.%d.ssm_out.weight", LINEAR("out_proj.weight"), {HD_EMBD, HD_LIN_INNER}, XF_V_COLS, HD_LIN_V_DIM, ROLE_SSM_OUT, W_DELTA, 0},
    ROW_MAT("ple_key", "ple.key_proj", HD_STREAM_ALL, HD_NGRAM_ALL, ROLE_PLE_GATE, W_NGRAM, 0), ROW_MAT("ple_value", "ple.value_proj", HD_EMBD, HD_NGRAM_ALL, ROLE_PLE_PROJ, W_NGRAM, 0),
    NGRAM_NORM("key"), NGRAM_NORM("query"), NGRAM_NORM("conv"),
    {"blk.%d.ple_conv1d.weight", "model.layers.%d.ple.conv1d.weight", {HD_STREAM_ALL, HD_NGRAM_CONV}, XF_COPY, 0, ROLE_OTHER, W_NGRAM, TR_F32},
    ROWS_EXPERTS, ROWS_SHARED_EXPERT,
    STREAM("output_hc", "model.hyper_connection_mixer.", W_GLOBAL), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    TRY(derive_experts(h, e));
    TRY(derive_streams(h, e));
    TRY(hparams_mul(h, HD_INDEX_Q, d[HD_INDEX_HEADS], d[HD_INDEX_DIM], e));
    TRY(hparams_mul(h, HD_NGRAM_ALL, (d[HD_NGRAM_SIZE] - 1) * d[HD_NGRAM_HEADS], d[HD_NGRAM_DIM],
                    e));
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < d[HD_LAYERS]; i++)
        if ((i + 1) % d[HD_FULL_INTERVAL] != 0) h->layer[i].mixer = MIX_DELTA;
    return derive_linear(h, e);
}

/* ---- embeddings of n-grams ---- */

/* Returns the folder's tensor whose name ends in `tail`; NULL: none. */
static const struct st_tensor *named(const struct hfdir *dir, const char *tail) {
    for (int64_t i = 0; i < hfdir_n_tensors(dir); i++)
        if (str_ends(hfdir_tensor_at(dir, i)->name, tail)) return hfdir_tensor_at(dir, i);
    return NULL;
}

/* Reads n constants of the hash, which are integers of up to 64 bits. */
static int read_constants(const struct hfdir *dir, const char *tail, int64_t n, uint64_t *out,
                          struct err *e) {
    const struct st_tensor *t = named(dir, tail);
    if (!t)
        return err_set(e, ERR_DATA, "the tensor %s is missing: n-grams cannot be hashed without it",
                       tail);
    if (t->dtype != ST_I64 || t->n_elems != n)
        return err_set(e, ERR_DATA, "the tensor %s is not a list of %lld 64-bit integers", tail,
                       (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = load_i64(t->data + 8 * i);
        if (v < 0) return err_set(e, ERR_DATA, "the tensor %s has a negative entry", tail);
        out[i] = (uint64_t)v;
    }
    return 0;
}

/* Sets the size of the table of embeddings, which may be stored in shards. */
static int measure_table(struct hparams *h, const struct hfdir *dir, struct err *e) {
    h->d[HD_NGRAM_ROWS] = 0;
    for (int64_t i = 0; i < hfdir_n_tensors(dir); i++) {
        const struct st_tensor *t = hfdir_tensor_at(dir, i);
        if (!strstr(t->name, TABLE "ngram_embedding.") || !str_ends(t->name, ".weight")) continue;
        if (t->n_dims != 2 || t->shape[0] > INT32_MAX - h->d[HD_NGRAM_ROWS])
            return err_set(e, ERR_DATA, "the table of n-grams is not a matrix, or too large");
        h->d[HD_NGRAM_ROWS] += t->shape[0];
        h->d[HD_NGRAM_DIM] = t->shape[1];
    }
    return h->d[HD_NGRAM_ROWS] ? 0 : err_set(e, ERR_DATA, "the table of n-grams is missing");
}

/* Reads the n-gram embeddings of the layer in ple_layer_ids, which counts from 1. */
static int read_ngrams(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *ids = hfdir_hparam(dir, "ple_layer_ids"),
                      *eos = hfdir_hparam(dir, "eos_token_id");
    const int64_t n = h->d[HD_NGRAM_SIZE], heads = (n - 1) * h->d[HD_NGRAM_HEADS];
    int64_t at;
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) *layers_own(h, HD_NGRAM, i) = 0;
    if (!json_len(ids)) return 0;
    if (json_len(ids) != 1 || !json_i64(json_first(ids), &at) || at < 1 || at > h->d[HD_LAYERS])
        return err_set(e, ERR_DATA, "ple_layer_ids is not one layer, counted from 1");
    if (json_type(eos) == JSON_ARR) eos = json_first(eos);
    if (!json_i64(eos, &h->d[HD_NGRAM_EOS]) || h->d[HD_NGRAM_EOS] < 0)
        return err_set(e, ERR_DATA, "eos_token_id is missing: n-grams end at that token");
    if (n < 2 || n > HP_MAX_NGRAM || h->d[HD_NGRAM_HEADS] > HP_MAX_HASHES || heads > HP_MAX_HASHES)
        return err_set(e, ERR_DATA, "ngram_size %lld with %lld heads is not supported",
                       (long long)n, (long long)h->d[HD_NGRAM_HEADS]);
    *layers_own(h, HD_NGRAM, at - 1) = 1;
    h->d[HD_NGRAM_AT] = at - 1;
    TRY(measure_table(h, dir, e));
    TRY(read_constants(dir, TABLE "layer_multipliers", n, h->hash_factor, e));
    TRY(read_constants(dir, TABLE "ngram_heads_offsets", heads, h->hash_first, e));
    TRY(read_constants(dir, TABLE "ngram_heads_vocab_sizes", heads, h->hash_rows, e));
    const uint64_t rows = (uint64_t)h->d[HD_NGRAM_ROWS];
    for (int64_t i = 0; i < heads; i++)
        if (!h->hash_rows[i] || h->hash_rows[i] > rows || h->hash_first[i] > rows - h->hash_rows[i])
            return err_set(e, ERR_DATA,
                           "hash %lld of the n-grams needs rows that the table of %lld rows lacks",
                           (long long)i, (long long)h->d[HD_NGRAM_ROWS]);
    return 0;
}

/* ---- config.json and keys ---- */

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const int64_t usual[4] = {11, 11, 10, 0};
    static const char *const no[] = {"attention_bias", NULL};
    const char *gate = json_str(hfdir_hparam(dir, "output_gate_type"));
    int64_t kv;
    TRY(hf_check_rope(dir, e));
    TRY(hf_partial_rope(h, dir, 0.25, e));
    TRY(hf_rope_sections(h, dir, usual, e));
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if (!gate || strcmp(gate, "sigmoid") != 0)
        return err_set(e, ERR_DATA, "output_gate_type is \"%.40s\"; the format has sigmoid only",
                       gate ? gate : "silu");
    if (json_i64(hfdir_hparam(dir, "indexer_kv_heads"), &kv) && kv != 1)
        return err_set(e, ERR_DATA, "indexer_kv_heads is %lld, not 1", (long long)kv);
    if (h->d[HD_STREAMS] < 2)
        return err_set(e, ERR_DATA, "hc_count is %lld; at least 2 streams are needed",
                       (long long)h->d[HD_STREAMS]);
    TRY(read_ngrams(h, dir, e));
    h->d[HD_NO_MTP] = 1;
    const struct json *image = json_get(hfdir_config(dir), "image_token_id");
    if (!json_i64(image, &h->d[HD_NGRAM_IMAGE])) h->d[HD_NGRAM_IMAGE] = 0;
    return layers_interval_hf(h, hfdir_hparam(dir, "layer_types"), e);
}

#define KEY(x) "qwen4exp." x
/* Writes the keys of the n-gram embeddings. */
static void write_ngrams(const struct hparams *h, struct gguf_w *w) {
    const int32_t at = (int32_t)h->d[HD_NGRAM_AT];
    const uint64_t n = (uint64_t)h->d[HD_NGRAM_SIZE],
                   heads = (n - 1) * (uint64_t)h->d[HD_NGRAM_HEADS];
    if (!h->d[HD_NGRAM_ROWS]) return;
    gguf_w_arr(w, KEY("ple.layers"), GV_I32, &at, 1);
    gguf_w_u32(w, KEY("ple.ngram_size"), (uint32_t)n);
    gguf_w_u32(w, KEY("ple.heads_per_ngram"), (uint32_t)h->d[HD_NGRAM_HEADS]);
    gguf_w_u32(w, KEY("ple.conv_kernel"), (uint32_t)h->d[HD_NGRAM_CONV]);
    gguf_w_u32(w, KEY("ple.eos_token_id"), (uint32_t)h->d[HD_NGRAM_EOS]);
    if (h->d[HD_NGRAM_IMAGE])
        gguf_w_u32(w, KEY("ple.image_token_id"), (uint32_t)h->d[HD_NGRAM_IMAGE]);
    gguf_w_u32(w, KEY("embedding_length_per_layer_input"), (uint32_t)h->d[HD_NGRAM_DIM]);
    gguf_w_arr(w, KEY("ple.layer_multipliers"), GV_U64, h->hash_factor, n);
    gguf_w_arr(w, KEY("ple.head_offsets"), GV_U64, h->hash_first, heads);
    gguf_w_arr(w, KEY("ple.head_vocab_sizes"), GV_U64, h->hash_rows, heads);
}

/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    int32_t ratio[HP_MAX_LAYERS];
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        ratio[i] = h->layer[i].mixer == MIX_ATTN ? (int32_t)h->d[HD_INDEX_BLOCK] : 0;
    gguf_w_arr(w, KEY("attention.compress_ratios"), GV_I32, ratio, (uint64_t)h->d[HD_LAYERS]);
    rope_sections_write(h, "qwen4exp", w);
    write_ngrams(h, w);
}

extern const struct arch arch_qwen4exp;
const struct arch arch_qwen4exp = {
    .name = "qwen4exp",
    .hf_classes = hf_classes,
    .family = "Qwen3.8 Flash Next",
    .size_note = "hybrid gated delta net and sparse attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .tools = "qwen-xml",
};
