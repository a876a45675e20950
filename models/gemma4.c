// SPDX-License-Identifier: MIT
/* models/gemma4.c - Gemma 4: the MoE model 26B-A4B, the dense 31B, and the E models with per-layer
 * embeddings. This file has the table and the derived hyperparameters; gemma4_graph.c has the graph
 * fragments.
 *
 * Sliding-window and full-attention layers differ in head size and number of key/value heads.
 * Full-attention layers may lack a value projection; their values are then the raw keys. The last
 * layers of the E models read the keys and values of an earlier layer of their kind. Norms are used
 * as stored. */
#include "models/gemma4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "base/log.h"

// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    GEMMA4_ROWS_LAYERS,
    {"attention.shared_kv_layers", "num_kv_shared_layers", HD_KV_SHARED, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", HD_PLE, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    HP_ROW_RMS_EPS,
    {"final_logit_softcapping", "final_logit_softcapping", HF_SOFTCAP, HPF_REAL | HPF_ZERO_OK, 0},
    {"expert_count", "num_experts", HD_EXPERTS, HPF_ZERO_OK, 0},
    {"expert_used_count", "top_k_experts|num_experts_per_tok", HD_EXPERTS_USED, HPF_ZERO_OK, 0},
    {"expert_feed_forward_length", "moe_intermediate_size|expert_intermediate_size", HD_FF_EXP, HPF_ZERO_OK, 0},
    GEMMA4_ROWS_ROPE,
    HP_ROW_VOCAB,
    {NULL, "vocab_size_per_layer_input", HD_PLE_VOCAB, HPF_NO_KEY, 0},
    {.slot = -1},
};

#define LAYER(x) "model.layers.%d." x
#define NORM(name, hf, flags) {"blk.%d." name, LAYER(hf), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | (flags)}
#define MOE TR_IF(HD_EXPERTS)
#define PLE TR_IF(HD_PLE)
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", {HD_PLE_VOCAB, HD_PLE_ALL}, XF_COPY, 0, ROLE_PLE_EMBD, W_GLOBAL, PLE},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight", {HD_PLE_ALL, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, PLE},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", {HD_PLE}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, PLE | TR_F32},
    {"rope_freqs.weight", NULL, {HD_FREQS}, XF_ROPE_FREQS, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    NORM("attn_norm.weight", "input_layernorm.weight", 0),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY),
    NORM("post_attention_norm.weight", "post_attention_layernorm.weight", 0),
    NORM("ffn_norm.weight", "pre_feedforward_layernorm.weight", 0),
    ROW_MAT("ffn_gate", "mlp.gate_proj", HD_FF, HD_EMBD, ROLE_FFN_GATE, W_ALL, 0),
    ROW_MAT("ffn_up", "mlp.up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP, W_ALL, 0),
    ROW_MAT("ffn_down", "mlp.down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_ALL, 0),
    NORM("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight", MOE),
    NORM("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight", MOE),
    {"blk.%d.ffn_gate_inp.weight", LAYER("router.proj.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | MOE},
    {"blk.%d.ffn_gate_inp.scale", LAYER("router.scale"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | MOE},
    {"blk.%d.ffn_gate_up_exps.weight", LAYER("experts.gate_up_proj") "|" LAYER("experts.%e.gate_proj.weight&up_proj.weight"), {HD_EXPERTS, HD_FF_EXP2, HD_EMBD}, XF_COPY, 0, ROLE_EXP_GATE_UP, W_ALL, MOE},
    {"blk.%d.ffn_down_exps.weight", LAYER("experts.down_proj") "|" LAYER("experts.%e.down_proj.weight"), {HD_EXPERTS, HD_EMBD, HD_FF_EXP}, XF_COPY, 0, ROLE_EXP_DOWN, W_ALL, MOE},
    {"blk.%d.ffn_down_exps.scale", LAYER("router.per_expert_scale"), {HD_EXPERTS}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | MOE},
    NORM("post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight", MOE),
    NORM("post_ffw_norm.weight", "post_feedforward_layernorm.weight", 0),
    {"blk.%d.inp_gate.weight", LAYER("per_layer_input_gate.weight"), {HD_PLE, HD_EMBD}, XF_COPY, 0, ROLE_PLE_GATE, W_ALL, PLE},
    {"blk.%d.proj.weight", LAYER("per_layer_projection.weight"), {HD_EMBD, HD_PLE}, XF_COPY, 0, ROLE_PLE_PROJ, W_ALL, PLE},
    NORM("post_norm.weight", "post_per_layer_input_norm.weight", PLE),
    {"blk.%d.layer_output_scale.weight", LAYER("layer_scalar"), {HD_ONE}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
static const char *const hf_classes[] = {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4UnifiedForConditionalGeneration",
                                         "Gemma4UnifiedForCausalLM", NULL};
static const char *const skip[] = {"vision_tower.", "embed_vision.", "audio_tower.", "embed_audio.", "vision_embedder.", "multi_modal_projector.", NULL};
// clang-format on

/* ---- derived hyperparameters ---- */

int gemma4_share(struct hparams *h, struct err *e) {
    const int64_t n = h->d[HD_LAYERS], own = n - h->d[HD_KV_SHARED];
    int last[2] = {-1, -1};
    if (own < 1)
        return err_set(e, ERR_DATA, "%lld layers of %lld layers share keys and values",
                       (long long)h->d[HD_KV_SHARED], (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int kind = h->layer[i].window > 0;
        if (i < own)
            last[kind] = (int)i;
        else if (last[kind] < 0)
            return err_set(e, ERR_DATA,
                           "layer %lld shares keys and values, but no layer of its kind before "
                           "the last %lld has any",
                           (long long)i, (long long)h->d[HD_KV_SHARED]);
        h->layer[i].kv_of = last[kind];
    }
    return 0;
}

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (h->f[HF_YARN_FACTOR] > 0)
        return err_set(e, ERR_DATA, "yarn is set, which this model does not support");
    if (!h->d_windowed[HD_KV_HEADS] && !d[HD_KV_HEADS]) d[HD_KV_HEADS] = d[HD_HEADS];
    TRY(layers_fill(h, e));
    d[HD_FREQS] = d[HD_HEAD_DIM] / 2;
    for (int64_t i = 0; i < d[HD_LAYERS]; i++)
        h->layer[i].keys_are_values = d[HD_KEYS_VALUES] && !h->layer[i].window;
    if (d[HD_EXPERTS] && (!d[HD_EXPERTS_USED] || !d[HD_FF_EXP]))
        return err_set(e, ERR_DATA, "there are %lld experts, but not how many are used or how wide",
                       (long long)d[HD_EXPERTS]);
    TRY(derive_experts(h, e));
    TRY(hparams_mul(h, HD_PLE_ALL, d[HD_LAYERS], d[HD_PLE], e));
    if (!d[HD_PLE_VOCAB]) d[HD_PLE_VOCAB] = d[HD_VOCAB];
    return gemma4_share(h, e);
}

/* ---- config.json ---- */

/* Sets *to to the number j. Fails if an earlier layer set a different number. */
static int set_once(int64_t *to, const struct json *j, const char *what, struct err *e) {
    int64_t v;
    if (json_type(j) == JSON_NULL) return 0;
    if (!json_i64(j, &v) || v < 1 || v > INT32_MAX || (*to && *to != v))
        return err_set(e, ERR_DATA,
                       "per_layer_config: %s is not the same number in all layers of "
                       "a kind, which the format cannot hold",
                       what);
    *to = v;
    return 0;
}

/* Reads the sizes of full-attention layers from per_layer_config, in which re-saved configs store
 * them by layer index. */
static int sizes_from_layers(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *all = hfdir_hparam(dir, "per_layer_config");
    if (json_type(all) != JSON_OBJ) { /* defaults of its class */
        if (!h->d[HD_HEAD_DIM]) h->d[HD_HEAD_DIM] = 512;
        if (!json_bool(hfdir_hparam(dir, "attention_k_eq_v"), false)) h->d[HD_KV_HEADS] = 0;
        return 0;
    }
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const struct json *one = json_first(all); /* a number: also written "05" */
        while (one && strtoll(json_name(one), NULL, 10) != i) one = json_next(one);
        int64_t *d = *layers_own(h, HD_WINDOW, i) ? h->d_windowed : h->d;
        TRY(set_once(&d[HD_HEAD_DIM], json_get(one, "head_dim"), "head_dim", e));
        TRY(set_once(&d[HD_KV_HEADS], json_get(one, "num_key_value_heads"), "num_key_value_heads",
                     e));
    }
    return 0;
}

/* Reads the RoPE of both kinds of layers: plain RoPE in sliding-window layers; in full-attention
 * layers only a fraction of the pairs rotates. */
static int rope_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const kind[2] = {"full_attention", "sliding_attention"};
    double part = 0.25;
    for (int w = 0; w < 2; w++) {
        const struct json *r = hf_rope(dir, kind[w]);
        const char *type = json_str(json_get(r, "rope_type"));
        bool plain = type && strcmp(type, "default") == 0;
        if (type && !plain && (w || strcmp(type, "proportional") != 0))
            return err_set(e, ERR_DATA, "%s asks for rope_type \"%.40s\", which is not supported",
                           kind[w], type);
        if (!w) part = json_num(json_get(r, "partial_rotary_factor"), plain ? 1 : 0.25);
    }
    if (!(part > 0 && part <= 1))
        return err_set(e, ERR_DATA, "partial_rotary_factor is %g, not in (0, 1]", part);
    int64_t hd = h->d[HD_HEAD_DIM] ? h->d[HD_HEAD_DIM] : h->d_windowed[HD_HEAD_DIM];
    h->d[HD_FREQS_ROT] = 2 * (int64_t)((double)hd * part / 2);
    return 0;
}

/* Checks use_bidirectional_attention, which no key records: "all" is refused, since then all tokens
 * see later ones; an unusual value for images is warned about. Programs assume that the tokens of
 * an image see each other, in layers with a window, unless the model has per-layer embeddings. */
static int check_attention(const struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *j = hfdir_hparam(dir, "use_bidirectional_attention");
    const char *is = json_str(j);
    const bool whole = is && strcmp(is, "vision") == 0;
    if (is && strcmp(is, "all") == 0)
        return err_set(e, ERR_DATA,
                       "use_bidirectional_attention is \"all\": every token attends to later ones, "
                       "but programs run Gemma 4 files with causal attention");
    if (!json_get(hfdir_config(dir), "vision_config") || !j || whole == !h->d[HD_PLE]) return 0;
    log_warn("use_bidirectional_attention is %s%.40s%s, which the format cannot hold: programs "
             "that read the file %s",
             is ? "\"" : "", is ? is : "null", is ? "\"" : "",
             whole ? "let tokens of images see only earlier tokens"
                   : "let all tokens of an image see each other");
    return 0;
}

int gemma4_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t *d = h->d;
    static const char *const no[] = {"attention_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    const char *act = json_str(hfdir_hparam(dir, "hidden_activation"));
    if (act && strcmp(act, "gelu_pytorch_tanh") != 0)
        return err_set(e, ERR_DATA, "hidden_activation is \"%.40s\", not gelu_pytorch_tanh", act);
    if (!json_bool(hfdir_hparam(dir, "enable_moe_block"), false))
        d[HD_EXPERTS] = d[HD_EXPERTS_USED] = d[HD_FF_EXP] = 0;
    if (!d[HD_PLE]) d[HD_PLE_VOCAB] = 0;
    TRY(layers_windows_hf(h, hfdir_hparam(dir, "layer_types"), 6, e));
    *layers_own(h, HD_WINDOW, d[HD_LAYERS] - 1) = 0;
    TRY(check_attention(h, dir, e));
    TRY(sizes_from_layers(h, dir, e));
    TRY(rope_from_hf(h, dir, e));
    d[HD_KEYS_VALUES] = json_bool(hfdir_hparam(dir, "attention_k_eq_v"), false);
    const bool wide = json_bool(hfdir_hparam(dir, "use_double_wide_mlp"), false);
    for (int64_t i = 0; wide && i < d[HD_LAYERS]; i++)
        *layers_own(h, HD_FF, i) = i < d[HD_LAYERS] - d[HD_KV_SHARED] ? d[HD_FF] : 2 * d[HD_FF];
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    if (h->d[HD_KV_SHARED] >= h->d[HD_LAYERS])
        return err_set(e, ERR_DATA, "num_kv_shared_layers is %lld of %lld layers",
                       (long long)h->d[HD_KV_SHARED], (long long)h->d[HD_LAYERS]);
    return gemma4_from_hf(h, dir, e);
}

/* ---- keys with several values ---- */

/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    layers_windows_write(h, "gemma4", w);
}

/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    TRY(layers_windows_gguf(h, "gemma4", g, -1, e));
    if (!h->d[HD_KV_HEADS])
        return err_set(e, ERR_DATA, "the key gemma4.attention.head_count_kv is missing");
    /* Only the tensors show which projections exist. */
    h->d[HD_KEYS_VALUES] = 1;
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%lld.attn_v.weight", (long long)i);
        if (!*layers_own(h, HD_WINDOW, i) && gguf_find_tensor(g, name)) h->d[HD_KEYS_VALUES] = 0;
    }
    const struct gguf_tensor *t = gguf_find_tensor(g, "per_layer_token_embd.weight");
    if (t && t->ne[1] <= INT32_MAX) h->d[HD_PLE_VOCAB] = t->ne[1];
    return 0;
}

extern const struct arch arch_gemma4;
/* Lets the tokens of an image see each other in layers with a window, if the model has no per-layer
 * embeddings. No key of the file records that. */
static void adjust_layer(const struct hparams *h, int layer, struct block_spec *s) {
    s->attn.whole = h->layer[layer].window > 0 && !h->d[HD_PLE];
}
static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, POST_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES, .scaling = SCALING_FULL},
                       .scale = 1,
                       .value_norm = true,
                       QK_NORMS},
              .ffn = {.act = ACT_GEGLU}, .own_ffn = gemma4_ffn, .more = gemma4_more},
    .layer = adjust_layer,
    .embd_sqrt = true,
    .start = gemma4_start,
};
const struct arch arch_gemma4 = {
    .name = "gemma4",
    .hf_classes = hf_classes,
    .family = "Gemma 4",
    .size_note = "sliding-window and full attention, dense or mixture of experts",
    .tools = "gemma4",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .layer_sizes = true,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
};
