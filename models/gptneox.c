// SPDX-License-Identifier: MIT
/* models/gptneox.c - GPT-NeoX and Pythia: LayerNorms, biases everywhere, fused q, k and v, partial
 * RoPE, an ungated feed-forward parallel to attention or after it. Falcon: no biases; attention and
 * feed-forward are parallel, with one shared norm or one norm each. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"GPTNeoXForCausalLM", NULL};
static const char *const falcon_classes[] = {"FalconForCausalLM", "RWForCausalLM", NULL};
static const char *const skip[] = {"=attention.bias", "=attention.masked_bias", NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", NULL, HD_KV_HEADS, 0, 0},
    HP_ROW_FF, HP_ROW_ROT, HP_ROW_LAYER_EPS, HP_ROW_VOCAB,
    {"rope.freq_base", "rope_parameters.rope_theta|rope_theta|rotary_emb_base", HF_ROPE_BASE, HPF_REAL, 10000},
    {.slot = -1},
};
#define AT(hf) "gpt_neox.layers.%d." hf
#define VEC(gguf, hf, width, xf) {"blk.%d." gguf, hf, {width}, xf, 0, ROLE_OTHER, W_ALL, TR_F32}
#define MAT(gguf, hf, rows, cols, xf, role) {"blk.%d." gguf ".weight", hf, {rows, cols}, xf, 0, role, W_ALL, 0}
#define BIASED(gguf, hf, rows, cols, xf, role) \
    MAT(gguf, AT(hf ".weight"), rows, cols, xf, role), VEC(gguf ".bias", AT(hf ".bias"), rows, xf)
#define NORM(gguf, hf) VEC(gguf ".weight", AT(hf ".weight"), HD_EMBD, XF_COPY), VEC(gguf ".bias", AT(hf ".bias"), HD_EMBD, XF_COPY)
#define OUTSIDE(gguf, hf, ...) {gguf, hf, {__VA_ARGS__}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32}
static const struct tensor_row tensors[] = {
    {"token_embd.weight", "gpt_neox.embed_in.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    NORM("attn_norm", "input_layernorm"),
    BIASED("attn_qkv", "attention.query_key_value", HD_QKV_OUT, HD_EMBD, XF_QKV_ALL, ROLE_ATTN_QKV),
    BIASED("attn_output", "attention.dense", HD_EMBD, HD_ATTN_OUT, XF_COPY, ROLE_ATTN_OUTPUT),
    NORM("ffn_norm", "post_attention_layernorm"),
    BIASED("ffn_up", "mlp.dense_h_to_4h", HD_FF, HD_EMBD, XF_COPY, ROLE_FFN_UP),
    BIASED("ffn_down", "mlp.dense_4h_to_h", HD_EMBD, HD_FF, XF_COPY, ROLE_FFN_DOWN),
    OUTSIDE("output_norm.weight", "gpt_neox.final_layer_norm.weight", HD_EMBD),
    OUTSIDE("output_norm.bias", "gpt_neox.final_layer_norm.bias", HD_EMBD),
    {"output.weight", "embed_out.weight|lm_head.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_GLOBAL, TR_TIED},
    {.gguf = NULL},
};

static const struct hp_row falcon_hp[] = {
    {"block_count", "num_hidden_layers|n_layer", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, 0, 2048},
    {"embedding_length", "hidden_size|n_embed", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads|n_head", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", "num_kv_heads|n_head_kv", HD_KV_HEADS, 0, 0},
    {"feed_forward_length", "ffn_hidden_size", HD_FF, 0, 0},
    HP_ROW_ROPE_BASE, HP_ROW_LAYER_EPS, HP_ROW_VOCAB,
    {.slot = -1},
};
#define H(hf) "transformer.h.%d." hf
#define FALCON_NORM(gguf, hf, flags) \
    {"blk.%d." gguf, hf, {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | (flags)}
#define TWO (TR_FOUND | TR_IF(HD_TWO_NORMS))
static const struct tensor_row falcon_tensors[] = {
    {"token_embd.weight", "transformer.word_embeddings.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},
    FALCON_NORM("attn_norm.weight", H("input_layernorm.weight") "|" H("ln_mlp.weight"), 0),
    FALCON_NORM("attn_norm.bias", H("input_layernorm.bias") "|" H("ln_mlp.bias"), 0),
    FALCON_NORM("attn_norm_2.weight", H("ln_attn.weight"), TWO),
    FALCON_NORM("attn_norm_2.bias", H("ln_attn.bias"), TWO),
    MAT("attn_qkv", H("self_attention.query_key_value.weight"), HD_QKV_OUT, HD_EMBD, XF_QKV_ALL, ROLE_ATTN_QKV),
    MAT("attn_output", H("self_attention.dense.weight"), HD_EMBD, HD_ATTN_OUT, XF_COPY, ROLE_ATTN_OUTPUT),
    MAT("ffn_up", H("mlp.dense_h_to_4h.weight"), HD_FF, HD_EMBD, XF_COPY, ROLE_FFN_UP),
    MAT("ffn_down", H("mlp.dense_4h_to_h.weight"), HD_EMBD, HD_FF, XF_COPY, ROLE_FFN_DOWN),
    OUTSIDE("output_norm.weight", "transformer.ln_f.weight", HD_EMBD),
    OUTSIDE("output_norm.bias", "transformer.ln_f.bias", HD_EMBD),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* ---- GPT-NeoX ---- */

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    h->d[HD_SERIAL] = !json_bool(hfdir_hparam(dir, "use_parallel_residual"), true);
    TRY(hf_partial_rope(h, dir, json_num(hfdir_hparam(dir, "rotary_pct"), 1), e));
    return hf_check_rope(dir, e);
}
#define PARALLEL "gptneox.use_parallel_residual"
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    bool parallel = true;
    TRY(gguf_opt_bool(g, PARALLEL, &parallel, e));
    h->d[HD_SERIAL] = !parallel;
    return 0;
}
/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    gguf_w_bool(w, PARALLEL, !h->d[HD_SERIAL]);
}
/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    (void)i;
    s->parallel = !h->d[HD_SERIAL];
}
static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .before_ffn = {NORM_LAYER, "ffn_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.act = ACT_GELU_ERF}},
    .layer = layer,
    .norm = {NORM_LAYER, "output_norm"},
};

/* ---- Falcon ---- */

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int falcon_derive(struct hparams *h, struct err *e) {
    if (!h->d[HD_FF]) TRY(hparams_mul(h, HD_FF, 4, h->d[HD_EMBD], e));
    return layers_fill(h, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int falcon_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"alibi", "bias", NULL};
    const bool grouped = json_bool(hfdir_hparam(dir, "new_decoder_architecture"), false);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "activation", "gelu", e));
    if (!grouped && !json_bool(hfdir_hparam(dir, "parallel_attn"), true))
        return err_set(e, ERR_DATA, "parallel_attn is false, which this architecture cannot hold");
    if (!grouped)
        h->d[HD_KV_HEADS] = json_bool(hfdir_hparam(dir, "multi_query"), true) ? 1 : h->d[HD_HEADS];
    return hf_check_rope(dir, e);
}
/* Changes the block plan *s where layer i of this model differs. */
static void falcon_layer(const struct hparams *h, int i, struct block_spec *s) {
    (void)i;
    if (!h->d[HD_TWO_NORMS]) return;
    s->before_mix.name = "attn_norm_2";
    s->before_ffn = (struct norm_spec){NORM_LAYER, "attn_norm"};
}
static const struct decoder_spec falcon_decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.act = ACT_GELU_ERF},
              .parallel = true},
    .layer = falcon_layer,
    .norm = {NORM_LAYER, "output_norm"},
};

extern const struct arch arch_gptneox, arch_falcon;
const struct arch arch_gptneox = {
    .name = "gptneox",
    .hf_classes = hf_classes,
    .family = "GPT-NeoX and Pythia",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = layers_fill,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .write_keys = write_keys,
    .decoder = &decoder,
};
const struct arch arch_falcon = {
    .name = "falcon",
    .hf_classes = falcon_classes,
    .family = "Falcon 1 and 2",
    .size_note = "dense transformer",
    .hp = falcon_hp,
    .tensors = falcon_tensors,
    .derive = falcon_derive,
    .from_hf = falcon_from_hf,
    .decoder = &falcon_decoder,
};
