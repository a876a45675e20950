// SPDX-License-Identifier: MIT
/* models/gemma4.c - Gemma 4: the mixture 26B-A4B, the dense 31B, and the E models with per-layer
 * embeddings. The table, and the numbers that rows cannot say; the graph is in gemma4_graph.c.
 *
 * Two kinds of attention layers with different head sizes and numbers of key/value heads; each
 * width has a slot per kind (HD_*_W: sliding window). Full layers may lack a value projection: then
 * values are the raw keys. The last layers of the E models read the keys and values of an earlier
 * one. Norms are used as stored. */
#include "models/gemma4.h"

#include <stdio.h>
#include <string.h>

#include "core/hfdir.h"
#include "core/json.h"

// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {NULL, "intermediate_size", HD_FF, HPF_NO_KEY | HPF_REQUIRED, 0}, /* key: one number or one per layer */
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {NULL, "num_key_value_heads", HD_KV_HEADS_W, HPF_NO_KEY, 0},      /* key: one number or one per layer */
    {NULL, "num_global_key_value_heads", HD_KV_HEADS, HPF_NO_KEY, 0},
    {"attention.key_length", "global_head_dim", HD_HEAD_DIM, 0, 0},
    {"attention.value_length", NULL, HD_HEAD_DIM, 0, 0},
    {"attention.key_length_swa", "head_dim", HD_HEAD_DIM_W, HPF_REQUIRED, 0},
    {"attention.value_length_swa", NULL, HD_HEAD_DIM_W, 0, 0},
    {"attention.sliding_window", "sliding_window", HD_WINDOW, HPF_REQUIRED, 0},
    {"attention.shared_kv_layers", "num_kv_shared_layers", HD_KV_SHARED, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", HD_PLE, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", HF_RMS_EPS, HPF_REAL | HPF_REQUIRED, 0},
    {"final_logit_softcapping", "final_logit_softcapping", HF_SOFTCAP, HPF_REAL | HPF_ZERO_OK, 0},
    {"expert_count", "num_experts", HD_EXPERTS, HPF_ZERO_OK, 0},
    {"expert_used_count", "top_k_experts|num_experts_per_tok", HD_EXPERTS_USED, HPF_ZERO_OK, 0},
    {"expert_feed_forward_length", "moe_intermediate_size|expert_intermediate_size", HD_FF_EXP, HPF_ZERO_OK, 0},
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta", HF_ROPE_BASE, HPF_REAL, 1000000},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", HF_ROPE_BASE_W, HPF_REAL, 10000},
    {"rope.dimension_count", NULL, HD_HEAD_DIM, 0, 0},
    {"rope.dimension_count_swa", NULL, HD_HEAD_DIM_W, 0, 0},
    {NULL, "vocab_size", HD_VOCAB, HPF_NO_KEY | HPF_REQUIRED, 0},
    {NULL, "vocab_size_per_layer_input", HD_PLE_VOCAB, HPF_NO_KEY, 0},
    {.slot = -1},
};

#define LAYER(x) "model.layers.%d." x
#define NORM(name, hf, flags) {"blk.%d." name, LAYER(hf), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | (flags)}
#define MOE TR_IF(HD_EXPERTS)
#define PLE TR_IF(HD_PLE)
/* A feed-forward of `rows` rows in the layers of a kind. */
#define FFN(rows, where)                                                                                                     \
    {"blk.%d.ffn_gate.weight", LAYER("mlp.gate_proj.weight"), {rows, HD_EMBD}, XF_COPY, 0, ROLE_FFN_GATE, where, 0},         \
    {"blk.%d.ffn_up.weight", LAYER("mlp.up_proj.weight"), {rows, HD_EMBD}, XF_COPY, 0, ROLE_FFN_UP, where, 0},               \
    {"blk.%d.ffn_down.weight", LAYER("mlp.down_proj.weight"), {HD_EMBD, rows}, XF_COPY, 0, ROLE_FFN_DOWN, where, 0}
/* Attention of the layers of a kind; v: flags of the value projection. */
#define ATTN(q_out, kv_out, hd, where, v)                                                                                                   \
    {"blk.%d.attn_q.weight", LAYER("self_attn.q_proj.weight"), {q_out, HD_EMBD}, XF_COPY, 0, ROLE_ATTN_Q, where, 0},                        \
    {"blk.%d.attn_k.weight", LAYER("self_attn.k_proj.weight"), {kv_out, HD_EMBD}, XF_COPY, 0, ROLE_ATTN_K, where, TR_KV},                   \
    {"blk.%d.attn_v.weight", LAYER("self_attn.v_proj.weight"), {kv_out, HD_EMBD}, XF_COPY, 0, ROLE_ATTN_V, where, TR_KV | (v)},             \
    {"blk.%d.attn_output.weight", LAYER("self_attn.o_proj.weight"), {HD_EMBD, q_out}, XF_COPY, 0, ROLE_ATTN_OUTPUT, where, 0},              \
    {"blk.%d.attn_q_norm.weight", LAYER("self_attn.q_norm.weight"), {hd}, XF_COPY, 0, ROLE_OTHER, where, TR_F32},                           \
    {"blk.%d.attn_k_norm.weight", LAYER("self_attn.k_norm.weight"), {hd}, XF_COPY, 0, ROLE_OTHER, where, TR_F32 | TR_KV}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", {HD_PLE_VOCAB, HD_PLE_ALL}, XF_COPY, 0, ROLE_PLE_EMBD, W_GLOBAL, PLE},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight", {HD_PLE_ALL, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, PLE},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", {HD_PLE}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, PLE | TR_F32},
    {"rope_freqs.weight", NULL, {HD_FREQS}, XF_ROPE_FREQS, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    NORM("attn_norm.weight", "input_layernorm.weight", 0),
    ATTN(HD_Q_OUT, HD_KV_OUT, HD_HEAD_DIM, W_FULL, TR_IF(HD_FULL_V)),
    ATTN(HD_Q_OUT_W, HD_KV_OUT_W, HD_HEAD_DIM_W, W_WINDOW, 0),
    NORM("post_attention_norm.weight", "post_attention_layernorm.weight", 0),
    NORM("ffn_norm.weight", "pre_feedforward_layernorm.weight", 0),
    FFN(HD_FF, W_OWN_KV),
    FFN(HD_FF_SHARED, W_SHARED_KV),
    NORM("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight", MOE),
    NORM("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight", MOE),
    {"blk.%d.ffn_gate_inp.weight", LAYER("router.proj.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | MOE},
    {"blk.%d.ffn_gate_inp.scale", LAYER("router.scale"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | MOE},
    {"blk.%d.ffn_gate_up_exps.weight", LAYER("experts.gate_up_proj"), {HD_EXPERTS, HD_FF_EXP2, HD_EMBD}, XF_COPY, 0, ROLE_EXP_GATE_UP, W_ALL, MOE},
    {"blk.%d.ffn_down_exps.weight", LAYER("experts.down_proj"), {HD_EXPERTS, HD_EMBD, HD_FF_EXP}, XF_COPY, 0, ROLE_EXP_DOWN, W_ALL, MOE},
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
static const char *const hf_classes[] = {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", NULL};
static const char *const skip[] = {"vision_tower.", "embed_vision.", "audio_tower.", "embed_audio.", "multi_modal_projector.", NULL};
// clang-format on

/* ---- derived numbers ---- */

/* Sizes of one kind of attention layers. */
static int derive_kind(struct hparams *h, int hd, int kv, int q_out, int kv_out, struct err *e) {
    int64_t *d = h->d;
    if (d[hd] < 2 || d[hd] % 2)
        return err_set(e, ERR_DATA, "heads of %lld values cannot be rotated in pairs",
                       (long long)d[hd]);
    if (d[kv] < 1 || d[HD_HEADS] % d[kv])
        return err_set(e, ERR_DATA, "%lld attention heads cannot share %lld key/value heads",
                       (long long)d[HD_HEADS], (long long)d[kv]);
    TRY(hparams_mul(h, q_out, d[HD_HEADS], d[hd], e));
    return hparams_mul(h, kv_out, d[kv], d[hd], e);
}

/* Layers without own keys need an earlier layer of their kind that has them. */
static int derive_shared(struct hparams *h, struct err *e) {
    int64_t n = h->d[HD_LAYERS], own = n - h->d[HD_KV_SHARED];
    bool has[2] = {false, false};
    for (int64_t i = 0; i < n; i++) {
        h->shared_kv[i] = i >= own;
        if (i < own)
            has[h->window[i]] = true;
        else if (!has[h->window[i]])
            return err_set(e, ERR_DATA,
                           "layer %lld shares keys and values, but no layer of its kind before "
                           "the last %lld has any",
                           (long long)i, (long long)h->d[HD_KV_SHARED]);
    }
    return 0;
}

static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (h->f[HF_YARN_FACTOR] > 0)
        return err_set(e, ERR_DATA, "rope is extended by yarn, which this model has no use for");
    if (!d[HD_KV_HEADS_W]) d[HD_KV_HEADS_W] = d[HD_HEADS];
    if (!d[HD_KV_HEADS]) d[HD_KV_HEADS] = d[HD_KV_HEADS_W];
    if (!d[HD_HEAD_DIM]) d[HD_HEAD_DIM] = d[HD_HEAD_DIM_W];
    TRY(derive_kind(h, HD_HEAD_DIM, HD_KV_HEADS, HD_Q_OUT, HD_KV_OUT, e));
    TRY(derive_kind(h, HD_HEAD_DIM_W, HD_KV_HEADS_W, HD_Q_OUT_W, HD_KV_OUT_W, e));
    d[HD_FREQS] = d[HD_HEAD_DIM] / 2;
    if (!d[HD_FF_SHARED]) d[HD_FF_SHARED] = d[HD_FF];
    if (d[HD_EXPERTS] && (!d[HD_EXPERTS_USED] || !d[HD_FF_EXP]))
        return err_set(e, ERR_DATA, "there are %lld experts, but not how many are used or how wide",
                       (long long)d[HD_EXPERTS]);
    TRY(derive_experts(h, e));
    TRY(hparams_mul(h, HD_PLE_ALL, d[HD_LAYERS], d[HD_PLE], e));
    if (!d[HD_PLE_VOCAB]) d[HD_PLE_VOCAB] = d[HD_VOCAB];
    return derive_shared(h, e);
}

/* ---- config.json ---- */

/* Which layers slide: layer_types, or every sixth is full; the last always is. */
static int kinds_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t n = h->d[HD_LAYERS];
    const struct json *types = hfdir_hparam(dir, "layer_types");
    for (int64_t i = 0; i < n; i++) h->window[i] = (i + 1) % 6 != 0;
    if (json_type(types) == JSON_ARR) {
        int64_t i = 0;
        for (const struct json *t = json_first(types); t && i < n; t = json_next(t), i++) {
            const char *s = json_str(t);
            h->window[i] = s && strcmp(s, "sliding_attention") == 0;
            if (!s || (!h->window[i] && strcmp(s, "full_attention") != 0))
                return err_set(e, ERR_DATA,
                               "layer_types[%lld] is neither sliding_attention nor full_attention",
                               (long long)i);
        }
        if (json_len(types) != n)
            return err_set(e, ERR_DATA, "layer_types has %lld entries for %lld layers",
                           (long long)json_len(types), (long long)n);
    }
    h->window[n - 1] = 0;
    return 0;
}

static int set_once(struct hparams *h, int slot, const struct json *j, const char *what,
                    struct err *e) {
    int64_t v;
    if (json_type(j) == JSON_NULL) return 0;
    if (!json_i64(j, &v) || v < 1 || v > INT32_MAX || (h->d[slot] && h->d[slot] != v))
        return err_set(e, ERR_DATA,
                       "per_layer_config: %s is not the same number in all layers of "
                       "a kind, which the format cannot hold",
                       what);
    h->d[slot] = v;
    return 0;
}

/* Re-saved configs give the sizes of full layers here, by layer index. */
static int sizes_from_layers(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *all = hfdir_hparam(dir, "per_layer_config");
    if (json_type(all) != JSON_OBJ) return 0;
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        const struct json *one = json_get(all, name);
        bool w = h->window[i];
        TRY(set_once(h, w ? HD_HEAD_DIM_W : HD_HEAD_DIM, json_get(one, "head_dim"), "head_dim", e));
        TRY(set_once(h, w ? HD_KV_HEADS_W : HD_KV_HEADS, json_get(one, "num_key_value_heads"),
                     "num_key_value_heads", e));
    }
    return 0;
}

/* Rope of the kinds: plain in sliding layers; in full ones a share of the pairs turns. */
static int rope_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const kind[2] = {"full_attention", "sliding_attention"};
    double part = 0.25;
    for (int w = 0; w < 2; w++) {
        const struct json *r = json_get(hfdir_hparam(dir, "rope_parameters"), kind[w]);
        const char *type = json_str(json_get(r, "rope_type"));
        bool plain = type && strcmp(type, "default") == 0;
        if (type && !plain && (w || strcmp(type, "proportional") != 0))
            return err_set(e, ERR_DATA, "%s asks for rope_type \"%.40s\", which is not supported",
                           kind[w], type);
        if (!w) part = json_num(json_get(r, "partial_rotary_factor"), plain ? 1 : 0.25);
    }
    if (!(part > 0 && part <= 1))
        return err_set(e, ERR_DATA, "partial_rotary_factor is %g, not in (0, 1]", part);
    int64_t hd = h->d[HD_HEAD_DIM] ? h->d[HD_HEAD_DIM] : h->d[HD_HEAD_DIM_W];
    h->d[HD_ROT] = 2 * (int64_t)((double)hd * part / 2);
    return 0;
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t *d = h->d;
    if (json_bool(hfdir_hparam(dir, "attention_bias"), false))
        return err_set(e, ERR_DATA, "attention_bias is true, which this architecture cannot hold");
    const char *act = json_str(hfdir_hparam(dir, "hidden_activation"));
    if (act && strcmp(act, "gelu_pytorch_tanh") != 0)
        return err_set(e, ERR_DATA, "hidden_activation is \"%.40s\", not gelu_pytorch_tanh", act);
    if (!json_bool(hfdir_hparam(dir, "enable_moe_block"), false))
        d[HD_EXPERTS] = d[HD_EXPERTS_USED] = d[HD_FF_EXP] = 0;
    if (!d[HD_PLE]) d[HD_PLE_VOCAB] = 0;
    if (d[HD_KV_SHARED] >= d[HD_LAYERS])
        return err_set(e, ERR_DATA, "num_kv_shared_layers is %lld of %lld layers",
                       (long long)d[HD_KV_SHARED], (long long)d[HD_LAYERS]);
    TRY(kinds_from_hf(h, dir, e));
    TRY(sizes_from_layers(h, dir, e));
    TRY(rope_from_hf(h, dir, e));
    d[HD_FULL_V] = !json_bool(hfdir_hparam(dir, "attention_k_eq_v"), false);
    if (d[HD_KV_SHARED] && json_bool(hfdir_hparam(dir, "use_double_wide_mlp"), false))
        return hparams_mul(h, HD_FF_SHARED, 2, d[HD_FF], e);
    return 0;
}

/* ---- keys that are not one number ---- */

#define KEY(x) "gemma4." x

/* One number when both kinds have it, else one per layer. */
static void write_layers(const struct hparams *h, struct gguf_w *w, const char *key,
                         const uint8_t *second, int64_t a, int64_t b) {
    int32_t v[HP_MAX_LAYERS] = {0};
    int64_t n = h->d[HD_LAYERS];
    bool both = true;
    for (int64_t i = 0; i < n; i++) {
        v[i] = (int32_t)(second[i] ? b : a);
        both = both && v[i] == v[0];
    }
    if (both)
        gguf_w_u32(w, key, (uint32_t)v[0]);
    else
        gguf_w_arr(w, key, GV_I32, v, (uint64_t)n);
}

static void write_keys(const struct hparams *h, struct gguf_w *w) {
    const int64_t *d = h->d;
    write_layers(h, w, KEY("attention.head_count_kv"), h->window, d[HD_KV_HEADS], d[HD_KV_HEADS_W]);
    write_layers(h, w, KEY("feed_forward_length"), h->shared_kv, d[HD_FF], d[HD_FF_SHARED]);
    gguf_w_arr(w, KEY("attention.sliding_window_pattern"), GV_BOOL, h->window,
               (uint64_t)d[HD_LAYERS]);
}

static bool int_elems(enum gguf_vtype t) {
    return t == GV_I32 || t == GV_U32 || t == GV_BOOL;
}

/* The value of layer i of a key that is one number or one per layer. */
static int layer_value(const struct hparams *h, const struct gguf *g, const char *key, int64_t i,
                       int64_t *v, struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return err_set(e, ERR_DATA, "the key %s is missing", key);
    bool arr = kv->type == GV_ARR;
    if (!int_elems(arr ? kv->elem : kv->type) || (arr && kv->count != (uint64_t)h->d[HD_LAYERS]))
        return err_set(e, ERR_DATA, "%s is neither an integer nor one for each of %lld layers", key,
                       (long long)h->d[HD_LAYERS]);
    *v = gguf_kv_i64(kv, arr ? (uint64_t)i : 0);
    return 0;
}

/* A number that all layers of a kind share; second[i]: layer i is of the kind of slot b. */
static int read_layers(struct hparams *h, const struct gguf *g, const char *key,
                       const uint8_t *second, int a, int b, struct err *e) {
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        int64_t v, *slot = &h->d[second[i] ? b : a];
        TRY(layer_value(h, g, key, i, &v, e));
        if (v < 1 || v > INT32_MAX || (*slot && *slot != v))
            return err_set(e, ERR_DATA,
                           "%s: %lld in layer %lld is out of range, or another value "
                           "than in other layers of its kind",
                           key, (long long)v, (long long)i);
        *slot = v;
    }
    return 0;
}

static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    int64_t n = h->d[HD_LAYERS], v;
    static const char pattern[] = KEY("attention.sliding_window_pattern");
    const struct gguf_kv *kv = gguf_find(g, pattern);
    if (!kv || kv->type != GV_ARR)
        return err_set(e, ERR_DATA, "the key %s is missing or not an array", pattern);
    if (h->d[HD_KV_SHARED] >= n)
        return err_set(e, ERR_DATA, "%s is %lld of %lld layers", KEY("attention.shared_kv_layers"),
                       (long long)h->d[HD_KV_SHARED], (long long)n);
    for (int64_t i = 0; i < n; i++) {
        TRY(layer_value(h, g, pattern, i, &v, e));
        h->window[i] = v != 0;
        h->shared_kv[i] = i >= n - h->d[HD_KV_SHARED];
    }
    TRY(read_layers(h, g, KEY("attention.head_count_kv"), h->window, HD_KV_HEADS, HD_KV_HEADS_W,
                    e));
    TRY(read_layers(h, g, KEY("feed_forward_length"), h->shared_kv, HD_FF, HD_FF_SHARED, e));
    /* Which projections there are is said by tensors only. */
    for (int64_t i = 0; i < n; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%lld.attn_v.weight", (long long)i);
        if (!h->window[i] && gguf_find_tensor(g, name)) h->d[HD_FULL_V] = 1;
    }
    const struct gguf_tensor *t = gguf_find_tensor(g, "per_layer_token_embd.weight");
    if (t && t->ne[1] <= INT32_MAX) h->d[HD_PLE_VOCAB] = t->ne[1];
    return 0;
}

extern const struct arch arch_gemma4;
static int build(const struct hparams *h, struct graph *g, struct err *e) {
    return gemma4_build(&arch_gemma4, h, g, e);
}
const struct arch arch_gemma4 = {
    .name = "gemma4",
    .hf_classes = hf_classes,
    .family = "Gemma 4",
    .size_note = "sliding-window and full attention, dense or mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .build = build,
};
