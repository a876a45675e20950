// SPDX-License-Identifier: MIT
/* models/gemma4_assistant.c - drafts for Gemma 4 ("assistants"), for conversion and quantization: a
 * few dense layers of Gemma 4 without keys and values, which read those of the model's last layers.
 * pre_projection reduces the scaled embedding and the last hidden row of the model, of the model's
 * width, to the draft's; post_projection leads back. The head is tied to the draft's embeddings;
 * the small ones first choose among clusters of tokens (centroids). Names and keys are those of
 * llama.cpp, in which all blocks count as MTP blocks. */
#include "base/json.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/draft.h"
#include "models/gemma4.h"

static const char *const hf_classes[] = {"Gemma4AssistantForCausalLM",
                                         "Gemma4UnifiedAssistantForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"embedding_length_out", "backbone_hidden_size", HD_TARGET_EMBD, HPF_REQUIRED, 0},
    GEMMA4_ROWS_LAYERS,
    {"attention.shared_kv_layers", NULL, HD_KV_SHARED, 0, 0},
    HP_ROW_RMS_EPS,
    GEMMA4_ROWS_ROPE,
    HP_ROW_VOCAB,
    {NULL, "num_centroids", HD_CENTROIDS, HPF_NO_KEY | HPF_ZERO_OK, 0},
    {.slot = -1},
};
#define LAYER(x) "model.layers.%d." x
#define VEC(name, hf, width) {"blk.%d." name ".weight", LAYER(hf), {width}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
#define MAT(gguf, hf, rows, cols, role) {"blk.%d." gguf ".weight", LAYER(hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_ALL, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    {"nextn.pre_projection.weight", "pre_projection.weight", {HD_EMBD, HD_TARGET_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_GLOBAL, 0},
    {"nextn.post_projection.weight", "post_projection.weight", {HD_TARGET_EMBD, HD_EMBD}, XF_COPY, 0, ROLE_MTP_PROJ, W_GLOBAL, 0},
    {"masked_embd_centroids.weight", "masked_embedding.centroids.weight", {HD_CENTROIDS, HD_EMBD}, XF_COPY, 0, ROLE_MTP_PROJ, W_GLOBAL, TR_IF(HD_CENTROIDS)},
    {"masked_embd_ordering", "masked_embedding.token_ordering", {HD_VOCAB}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_I32 | TR_IF(HD_CENTROIDS)},
    {"rope_freqs.weight", NULL, {HD_FREQS}, XF_ROPE_FREQS, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    VEC("attn_norm", "input_layernorm.weight", HD_EMBD),
    MAT("attn_q", "self_attn.q_proj", HD_ATTN_OUT, HD_EMBD, ROLE_ATTN_Q),
    VEC("attn_q_norm", "self_attn.q_norm.weight", HD_HEAD_DIM),
    MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT),
    VEC("post_attention_norm", "post_attention_layernorm.weight", HD_EMBD),
    VEC("ffn_norm", "pre_feedforward_layernorm.weight", HD_EMBD),
    MAT("ffn_gate", "mlp.gate_proj", HD_FF, HD_EMBD, ROLE_FFN_GATE),
    MAT("ffn_up", "mlp.up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP),
    MAT("ffn_down", "mlp.down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN),
    VEC("post_ffw_norm", "post_feedforward_layernorm.weight", HD_EMBD),
    VEC("layer_output_scale", "layer_scalar", HD_ONE),
    ROW_OUTPUT_NORM(XF_COPY),
    {.gguf = NULL},
};
// clang-format on

static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (!h->d_windowed[HD_KV_HEADS] && !d[HD_KV_HEADS]) d[HD_KV_HEADS] = d[HD_HEADS];
    if (d[HD_CENTROIDS] && d[HD_VOCAB] % d[HD_CENTROIDS])
        return err_set(e, ERR_DATA, "%lld tokens cannot be cut into %lld clusters",
                       (long long)d[HD_VOCAB], (long long)d[HD_CENTROIDS]);
    if (d[HD_TARGET_EMBD] == d[HD_EMBD])
        return err_set(e, ERR_DATA,
                       "draft and model have the same width, %lld, which llama.cpp does not load",
                       (long long)d[HD_EMBD]);
    d[HD_KV_SHARED] = d[HD_LAYERS];
    TRY(draft_derive(h, e));
    d[HD_FREQS] = d[HD_HEAD_DIM] / 2;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    if (!json_bool(hfdir_hparam(dir, "use_ordered_embeddings"), false)) h->d[HD_CENTROIDS] = 0;
    if (json_bool(hfdir_hparam(dir, "enable_moe_block"), false) ||
        json_bool(hfdir_hparam(dir, "use_double_wide_mlp"), false) ||
        json_num(hfdir_hparam(dir, "hidden_size_per_layer_input"), 0) > 0)
        return err_set(e, ERR_DATA,
                       "enable_moe_block, use_double_wide_mlp or hidden_size_per_layer_input is "
                       "set, which drafts of Gemma 4 do not have");
    TRY(gemma4_from_hf(h, dir, e));
    return draft_target_hf(h, dir, e);
}

static void write_keys(const struct hparams *h, struct gguf_w *w) {
    gguf_w_u32(w, "gemma4-assistant.nextn_predict_layers", (uint32_t)h->d[HD_LAYERS]);
    layers_windows_write(h, "gemma4-assistant", w);
}

static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    const struct gguf_tensor *t = gguf_find_tensor(g, "masked_embd_centroids.weight");
    if (t) h->d[HD_CENTROIDS] = t->ne[1];
    return layers_windows_gguf(h, "gemma4-assistant", g, -1, e);
}

extern const struct arch arch_gemma4_assistant;
const struct arch arch_gemma4_assistant = {
    .name = "gemma4-assistant",
    .hf_classes = hf_classes,
    .family = "Gemma 4 assistants",
    .size_note = "draft that reads the keys and values of Gemma 4",
    .hp = hp,
    .tensors = tensors,
    .layer_sizes = true,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .draft = "mtp",
};
