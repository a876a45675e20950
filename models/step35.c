// SPDX-License-Identifier: MIT
/* models/step35.c - Step 3.5 and 3.7 Flash, the language model: per-head norms of queries and keys,
 * and attention output with a scalar gate per head. Sliding-window layers have more heads and their
 * own RoPE base, and rotate whole heads; the others rotate half of each head. Some layers limit
 * SwiGLU, separately for routed and shared experts. The MTP blocks are dense layers at the end,
 * each with its own head; hone does not compute them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Step3p5ForCausalLM", "Step3p7ForConditionalGeneration",
                                         NULL};
static const char *const skip[] = {"vision_model.", "vit_large_projector.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings|max_seq_len", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED | HPF_LAYERS, 0},
    {"attention.head_count_kv", "num_attention_groups|num_key_value_heads", HD_KV_HEADS, HPF_LAYERS, 0},
    {"attention.key_length", "head_dim", HD_HEAD_DIM, HPF_REQUIRED, 0},
    {"attention.value_length", NULL, HD_HEAD_DIM, 0, 0},
    HP_ROW_RMS_EPS, HP_ROW_VOCAB, HP_ROW_FF, HP_ROW_ROT, HP_ROW_WINDOW(0), HP_ROW_LEAD_DENSE, HP_ROW_GATING(2), HP_ROW_EXPERT_NORM(1), HP_ROW_MTP,
    {"expert_count", "moe_num_experts|n_routed_experts", HD_EXPERTS, HPF_REQUIRED, 0},
    {"expert_used_count", "moe_top_k|num_experts_per_tok", HD_EXPERTS_USED, HPF_REQUIRED, 0},
    {"expert_feed_forward_length", "moe_intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0},
    {"expert_shared_feed_forward_length", "share_expert_dims|share_expert_dim", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {"expert_weights_scale", "moe_router_scaling_factor", HF_EXPERT_SCALE, HPF_REAL, 1},
    {"rope.freq_base", NULL, HF_ROPE_BASE, HPF_REAL, 10000},
    {"rope.freq_base_swa", NULL, HF_ROPE_BASE, HPF_REAL | HPF_WINDOWED, 0},
    {.slot = -1},
};
#define MOE(gguf, hf, ...) {"blk.%d." gguf ".weight", HF_LAYER("moe." hf ".weight"), {__VA_ARGS__}, XF_COPY, 0
#define SHARED(gguf, hf, rows, cols, role) ROW_MAT(gguf, "share_expert." hf, rows, cols, role, W_MOE, 0)
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROW_LLAMA3_FREQS,
    ROWS_PRE_NORMS(XF_ADD1),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_ADD1),
    ROW_MAT("attn_gate", "self_attn.g_proj", HD_HEADS, HD_EMBD, ROLE_ATTN_GATE, W_ATTN, 0),
    ROWS_FFN,
    ROW_ROUTER("moe.gate"),
    MOE("ffn_gate_exps", "gate_proj", HD_EXPERTS, HD_FF_EXP, HD_EMBD), ROLE_EXP_GATE, W_MOE, 0},
    MOE("ffn_up_exps", "up_proj", HD_EXPERTS, HD_FF_EXP, HD_EMBD), ROLE_EXP_UP, W_MOE, 0},
    MOE("ffn_down_exps", "down_proj", HD_EXPERTS, HD_EMBD, HD_FF_EXP), ROLE_EXP_DOWN, W_MOE, 0},
    ROW_ROUTER_BIAS("moe.router_bias"),
    SHARED("ffn_gate_shexp", "gate_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE),
    SHARED("ffn_up_shexp", "up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP),
    SHARED("ffn_down_shexp", "down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    {"blk.%d.nextn.eh_proj.weight", MTP("eh_proj.weight"), {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},
    {"blk.%d.nextn.embed_tokens.weight", MTP("embed_tokens.weight"), {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_MTP, TR_OPTIONAL},
    {"blk.%d.nextn.enorm.weight", MTP("enorm.weight"), {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},
    {"blk.%d.nextn.hnorm.weight", MTP("hnorm.weight"), {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32},
    {"blk.%d.nextn.shared_head_head.weight", MTP("transformer.shared_head.output.weight") "|" MTP("shared_head.head.weight"),
     {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_MTP, TR_OPTIONAL},
    {"blk.%d.nextn.shared_head_norm.weight", MTP("transformer.shared_head.norm.weight") "|" MTP("shared_head.norm.weight"),
     {HD_EMBD}, XF_ADD1, 0, ROLE_OTHER, W_MTP, TR_F32 | TR_OPTIONAL},
    ROW_OUTPUT_NORM(XF_ADD1),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS] + h->d[HD_MTP]; i++) {
        if (!h->layer[i].window) h->layer[i].n_rot = h->d[HD_ROT] / 2;
        if (i >= h->d[HD_LAYERS]) h->layer[i].ffn = FFN_DENSE;
    }
    return 0;
}

/* ---- config.json ---- */

/* Returns layer i's number: its entry if j is a list, j itself if it is a number, `otherwise` if
 * absent. */
static double entry_of_layer(const struct json *j, int64_t i, double otherwise) {
    const struct json *t = json_type(j) == JSON_ARR ? json_first(j) : NULL;
    if (!t) return json_num(j, otherwise);
    while (t && i-- > 0) t = json_next(t);
    return json_num(t, otherwise);
}

/* Reads the RoPE bases and checks the rotated fractions. Published configs list both for each
 * layer, re-saved ones give them for each kind of layer. */
static int rope(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *base = hfdir_hparam(dir, "rope_theta");
    const struct json *part = hfdir_hparam(dir, "partial_rotary_factors");
    const bool by_kind = !base && !part;
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const bool windowed = h->layer[i].window > 0;
        const struct json *r = by_kind ? hf_rope(dir, windowed ? ROPE_SLIDING : ROPE_FULL) : NULL;
        double *to = windowed ? &h->f_windowed[HF_ROPE_BASE] : &h->f[HF_ROPE_BASE];
        const double is = r ? json_num(json_get(r, "rope_theta"), 10000)
                            : entry_of_layer(base, i, 10000),
                     share = r ? json_num(json_get(r, "partial_rotary_factor"), 1)
                               : entry_of_layer(part, i, windowed ? 1 : 0.5);
        const char *type = windowed ? json_str(json_get(r, "rope_type")) : NULL;
        if (type && strcmp(type, "default") != 0)
            return err_set(e, ERR_DATA,
                           "layers with a window have rope_type \"%.40s\", which is not supported",
                           type);
        if (!(is > 0 && isfinite(is)) || fabs(share - (windowed ? 1 : 0.5)) > 1e-9)
            return err_set(e, ERR_DATA,
                           "layer %lld has rope_theta %g and partial_rotary_factor %g: the format "
                           "wants 1 with a window, 0.5 without",
                           (long long)i, is, share);
        *to = is;
    }
    h->d[HD_ROT] = h->d[HD_HEAD_DIM];
    h->d[HD_FREQS_ROT] = h->d[HD_ROT] / 2; /* scaled layers rotate half of each head */
    return hf_rope_llama3(h, dir, e);
}

/* Reads the list of layers with experts, an array or a string of numbers. It must name all layers
 * after the leading dense ones. */
static int sparse_from(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *j = hfdir_hparam(dir, "moe_layers_enum");
    const char *s = json_str(j);
    const struct json *t = json_type(j) == JSON_ARR ? json_first(j) : NULL;
    const int64_t n = h->d[HD_LAYERS];
    if (!s && !t) {
        h->d[HD_LEAD_DENSE] = 3;
        return hf_lead_dense(h, dir, e);
    }
    int64_t first = -1, next = -1;
    while (s ? *s != 0 : t != NULL) {
        char *end = NULL;
        int64_t i = s ? strtoll(s, &end, 10) : -1;
        if (!s && !json_i64(t, &i)) i = -1;
        if (first < 0) first = next = i;
        if (i != next++ || (s && end == s))
            return err_set(e, ERR_DATA, "moe_layers_enum omits layers after the first");
        if (s) s = *end == ',' ? end + 1 : end;
        if (t) t = json_next(t);
    }
    if (first < 0 || next < n)
        return err_set(e, ERR_DATA, "moe_layers_enum ends before the last of %lld layers",
                       (long long)n);
    h->d[HD_LEAD_DENSE] = first;
    return 0;
}

/* Reads layer i's number of heads from per_layer_config, in which re-saved configs store the
 * numbers that differ from the model's. ERR_DATA: it sets something else. */
static int heads_of_layer(struct hparams *h, const struct json *all, int64_t i, struct err *e) {
    const struct json *one = json_first(all); /* a number: also written "05" */
    int64_t *n = layers_own(h, HD_HEADS, i);
    while (one && strtoll(json_name(one), NULL, 10) != i) one = json_next(one);
    *n = h->d[HD_HEADS];
    for (const struct json *m = json_first(one); m; m = json_next(m)) {
        if (strcmp(json_name(m), "num_attention_heads") != 0)
            return err_set(e, ERR_DATA,
                           "per_layer_config sets %.64s of layer %lld, which step35 files cannot "
                           "store",
                           json_name(m), (long long)i);
        if (!json_i64(m, n) || *n < 1 || *n > 1 << 20)
            return err_set(e, ERR_DATA,
                           "per_layer_config: layer %lld has no proper number of heads",
                           (long long)i);
    }
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    const struct json *other = hfdir_hparam(dir, "attention_other_setting");
    const struct json *by_layer = hfdir_hparam(dir, "per_layer_config");
    const double scalar =
        json_num(hfdir_hparam(dir, "query_pre_attn_scalar"), (double)h->d[HD_HEAD_DIM]);
    int64_t heads = h->d[HD_HEADS];
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "moe_router_activation", "sigmoid", e));
    if (fabs(scalar - (double)h->d[HD_HEAD_DIM]) > 0)
        return err_set(e, ERR_DATA,
                       "query_pre_attn_scalar is %g, but the format has only head_dim, %lld",
                       scalar, (long long)h->d[HD_HEAD_DIM]);
    (void)json_i64(json_get(other, "num_attention_heads"), &heads);
    (void)json_i64(hfdir_hparam(dir, "num_sliding_attention_heads"), &heads);
    if (heads < 1 || heads > 1 << 20)
        return err_set(e, ERR_DATA, "layers with a window have %lld heads", (long long)heads);
    for (int64_t i = 0; i < h->d[HD_LAYERS] + h->d[HD_MTP]; i++) {
        struct layer_hp *l = &h->layer[i];
        *layers_own(h, HD_HEADS, i) = l->window ? heads : h->d[HD_HEADS];
        if (json_type(by_layer) == JSON_OBJ && i < h->d[HD_LAYERS])
            TRY(heads_of_layer(h, by_layer, i, e));
        l->limit_exp = (float)entry_of_layer(hfdir_hparam(dir, "swiglu_limits"), i, 0);
        l->limit = (float)entry_of_layer(hfdir_hparam(dir, "swiglu_limits_shared"), i, 0);
    }
    TRY(sparse_from(h, dir, e));
    return rope(h, dir, e);
}

/* ---- GGUF ---- */

#define CLAMP_EXP "step35.swiglu_clamp_exp"
#define CLAMP "step35.swiglu_clamp_shexp"

/* Reads the clamp of activations of each layer; a missing key leaves them unset. */
static int read_limits(struct hparams *h, const struct gguf *g, const char *key, bool experts,
                       struct err *e) {
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GV_ARR || kv->elem != GV_F32 || kv->count < (uint64_t)h->d[HD_LAYERS])
        return err_set(e, ERR_DATA, "%s is not an array with a number for each layer", key);
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        const double v = gguf_kv_f64(kv, (uint64_t)i);
        if (!(v >= 0 && v < 1e6)) return err_set(e, ERR_DATA, "%s has the number %g", key, v);
        *(experts ? &h->layer[i].limit_exp : &h->layer[i].limit) = (float)v;
    }
    return 0;
}
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    TRY(read_limits(h, g, CLAMP_EXP, true, e));
    return read_limits(h, g, CLAMP, false, e);
}
/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    float exp[HP_MAX_LAYERS], other[HP_MAX_LAYERS];
    const int64_t n = h->d[HD_LAYERS] + h->d[HD_MTP];
    for (int64_t i = 0; i < n; i++) {
        exp[i] = h->layer[i].limit_exp;
        other[i] = h->layer[i].limit;
    }
    gguf_w_arr(w, CLAMP_EXP, GV_F32, exp, (uint64_t)n);
    gguf_w_arr(w, CLAMP, GV_F32, other, (uint64_t)n);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES, .scaling = SCALING_FULL},
                       .gate = GATE_HEAD,
                       QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_step35;
const struct arch arch_step35 = {
    .name = "step35",
    .hf_classes = hf_classes,
    .family = "Step 3.5 and 3.7 Flash",
    .size_note = "sliding-window and full attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .keeps_mtp = true,
    .layer_sizes = true,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .write_keys = write_keys,
    .window_period = -1,
    .window_keys = true,
    .decoder = &decoder,
    .tools = "qwen-xml",
};
