// SPDX-License-Identifier: MIT
/* models/gemma3n.c - Gemma 3n: four residual streams (AltUp), of which a block processes one.
 *
 *   p = streams mixed by P tanh(R rms(active stream) / d); a = active stream of p, h = rms(a)
 *   x = (a + rms(attention(h)) + h + rms(laurel_r laurel_l h)) / sqrt(2)
 *   x += rms(ffn(rms(x))), gates of the first blocks sparsified (OP_PEAKS)
 *   each stream of p += (1 + C tanh(R rms(x) / d)) (x - a)
 *   streams 1 and later += rms(proj(gelu(gate(scale * active stream)) * ple[layer]))
 *
 * where ple are the token's embeddings for all layers. The residual visible to other code is the
 * active stream after a block. The last layers read keys and values of an earlier one. */
#include <math.h>
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/block.h"
#include "models/gemma4.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Gemma3nForConditionalGeneration", "Gemma3nForCausalLM",
                                         NULL};
static const char *const skip[] = {"vision_tower.", "embed_vision.", "audio_tower.", "embed_audio.",
                                   NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_VOCAB,
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta|rope_theta", HF_ROPE_BASE, HPF_REAL, 1000000},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta|rope_local_base_freq", HF_ROPE_BASE, HPF_REAL | HPF_WINDOWED, 10000},
    HP_ROW_WINDOW(HPF_REQUIRED),
    {"final_logit_softcapping", "final_logit_softcapping", HF_SOFTCAP, HPF_REAL | HPF_ZERO_OK, 0},
    {"attention.shared_kv_layers", "num_kv_shared_layers", HD_KV_SHARED, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", HD_PLE, HPF_REQUIRED, 0},
    {NULL, "vocab_size_per_layer_input", HD_PLE_VOCAB, HPF_NO_KEY, 0},
    {"altup.active_idx", "altup_active_idx", HD_ALTUP_AT, HPF_ZERO_OK | HPF_KEEP_ZERO, 0},
    {"altup.num_inputs", "altup_num_inputs", HD_ALTUP, HPF_REQUIRED, 0},
    {NULL, "laurel_rank", HD_LAUREL, HPF_NO_KEY, 0},
    {.slot = -1},
};
#define L(x) "model.layers.%d." x
#define MAT(gguf, hf, rows, cols, flags) {"blk.%d." gguf ".weight", L(hf), {rows, cols}, XF_COPY, 0, ROLE_OTHER, W_ALL, flags}
#define VEC(gguf, hf) {"blk.%d." gguf ".weight", L(hf), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", {HD_PLE_VOCAB, HD_PLE_ALL}, XF_COPY, 0, ROLE_PLE_EMBD, W_GLOBAL, 0},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight", {HD_PLE_ALL, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, 0},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight", {HD_PLE}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    {"altup_proj.weight", "model.altup_projections.%e.weight", {HD_ALTUP_MORE, HD_EMBD, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, 0},
    {"altup_unembd_proj.weight", "model.altup_unembed_projections.%e.weight", {HD_ALTUP_MORE, HD_EMBD, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, 0},
    VEC("attn_norm", "input_layernorm.weight"),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY),
    VEC("post_attention_norm", "post_attention_layernorm.weight"),
    VEC("ffn_norm", "pre_feedforward_layernorm.weight"),
    ROWS_FFN,
    VEC("post_ffw_norm", "post_feedforward_layernorm.weight"),
    MAT("altup_router", "altup.modality_router.weight", HD_ALTUP, HD_EMBD, TR_F32),
    VEC("altup_router_norm", "altup.router_norm.weight"),
    MAT("altup_predict_coef", "altup.prediction_coefs.weight", HD_ALTUP_SQ, HD_ALTUP, TR_F32),
    MAT("altup_correct_coef", "altup.correction_coefs.weight", HD_ALTUP, HD_ALTUP, TR_F32),
    VEC("altup_correct_scale", "altup.correct_output_scale"),
    MAT("laurel_l", "laurel.linear_left.weight", HD_LAUREL, HD_EMBD, 0),
    MAT("laurel_r", "laurel.linear_right.weight", HD_EMBD, HD_LAUREL, 0),
    VEC("laurel_post_norm", "laurel.post_laurel_norm.weight"),
    {"blk.%d.inp_gate.weight", L("per_layer_input_gate.weight"), {HD_PLE, HD_EMBD}, XF_COPY, 0, ROLE_PLE_GATE, W_ALL, 0},
    {"blk.%d.proj.weight", L("per_layer_projection.weight"), {HD_EMBD, HD_PLE}, XF_COPY, 0, ROLE_PLE_PROJ, W_ALL, 0},
    VEC("post_norm", "post_per_layer_input_norm.weight"),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* ---- numbers ---- */

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (d[HD_ALTUP] < 2 || d[HD_ALTUP] > 16 || d[HD_ALTUP_AT] >= d[HD_ALTUP])
        return err_set(e, ERR_DATA, "stream %lld of %lld is active: 2 to 16 streams are supported",
                       (long long)d[HD_ALTUP_AT], (long long)d[HD_ALTUP]);
    d[HD_ALTUP_MORE] = d[HD_ALTUP] - 1;
    d[HD_ALTUP_SQ] = d[HD_ALTUP] * d[HD_ALTUP];
    TRY(layers_fill(h, e));
    TRY(hparams_mul(h, HD_PLE_ALL, d[HD_LAYERS], d[HD_PLE], e));
    if (!d[HD_PLE_VOCAB]) d[HD_PLE_VOCAB] = d[HD_VOCAB];
    return gemma4_share(h, e);
}

/* Returns the quantile p of the standard normal distribution. */
static double quantile(double p) {
    double lo = -9, hi = 9;
    for (int i = 0; i < 80; i++) {
        const double mid = (lo + hi) / 2;
        *(0.5 * erfc(-mid / sqrt(2)) < p ? &lo : &hi) = mid;
    }
    return (lo + hi) / 2;
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int sparsity_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *list = hfdir_hparam(dir, "activation_sparsity_pattern");
    int64_t i = 0;
    if (!list) { /* default of its class */
        for (; i < h->d[HD_LAYERS]; i++)
            h->layer[i].peaks = i < 10 && h->d[HD_LAYERS] > 10 ? (float)quantile(0.95) : -INFINITY;
        return 0;
    }
    if (json_type(list) != JSON_ARR || json_len(list) != h->d[HD_LAYERS])
        return err_set(e, ERR_DATA,
                       "activation_sparsity_pattern does not have an entry for each layer");
    for (const struct json *j = json_first(list); j; j = json_next(j), i++) {
        const double p = json_num(j, -1);
        if (!(p >= 0 && p < 1))
            return err_set(e, ERR_DATA, "activation_sparsity_pattern[%lld] is not in [0, 1)",
                           (long long)i);
        h->layer[i].peaks = p > 0 ? (float)quantile(p) : -INFINITY;
    }
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    h->tied = json_bool(hfdir_hparam(dir, "tie_word_embeddings"), true);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_activation", "gelu_pytorch_tanh", e));
    TRY(hf_check_rope(dir, e));
    if (!json_bool(hfdir_hparam(dir, "altup_correct_scale"), true))
        return err_set(e, ERR_DATA, "altup_correct_scale is false, which the format cannot hold");
    if (!h->d[HD_LAUREL]) h->d[HD_LAUREL] = 64;
    TRY(layers_windows_hf(h, hfdir_hparam(dir, "layer_types"), 5, e));
    return sparsity_from_hf(h, dir, e);
}

#define CAP_KEY "gemma3n.final_logit_softcapping"
#define SPARSITY_KEY "gemma3n.activation_sparsity_scale"
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    const struct gguf_tensor *low = gguf_find_tensor(g, "blk.0.laurel_l.weight");
    const struct gguf_tensor *ple = gguf_find_tensor(g, "per_layer_token_embd.weight");
    const struct gguf_kv *kv = gguf_find(g, SPARSITY_KEY);
    TRY(layers_windows_gguf(h, "gemma3n", g, 5, e));
    if (!gguf_find(g, CAP_KEY)) h->f[HF_SOFTCAP] = 30; /* as other programs assume */
    if (low && low->ne[1] <= INT32_MAX) h->d[HD_LAUREL] = low->ne[1];
    if (ple && ple->ne[1] <= INT32_MAX) h->d[HD_PLE_VOCAB] = ple->ne[1];
    if (!kv || kv->type != GV_ARR || kv->elem != GV_F32 || kv->count != (uint64_t)h->d[HD_LAYERS])
        return err_set(e, ERR_DATA, SPARSITY_KEY " does not have a number for each of %lld layers",
                       (long long)h->d[HD_LAYERS]);
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        h->layer[i].peaks = (float)gguf_kv_f64(kv, (uint64_t)i);
        if (isnan(h->layer[i].peaks) || h->layer[i].peaks > 1e6f)
            return err_set(e, ERR_DATA, SPARSITY_KEY "[%lld] is %g", (long long)i,
                           (double)h->layer[i].peaks);
    }
    return 0;
}
/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    float v[HP_MAX_LAYERS];
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) v[i] = h->layer[i].peaks;
    gguf_w_arr(w, SPARSITY_KEY, GV_F32, v, (uint64_t)h->d[HD_LAYERS]);
    layers_windows_write(h, "gemma3n", w);
}

/* ---- the graph ---- */

static const struct norm_spec router_norm = {NORM_RMS, "altup_router_norm"},
                              laurel_norm = {NORM_RMS, "laurel_post_norm"},
                              ple_after = {NORM_RMS, "post_norm"};

/* Appends a node with these registers; y may be GR_NONE. */
static struct gr_node *append_node(struct build *b, enum gr_op op, gr_reg dst, gr_reg x, gr_reg y) {
    struct gr_node *n = graph_node(b->g, op, b->layer);
    n->dst = dst;
    n->src[0] = x;
    n->src[1] = y;
    return n;
}
/* Returns a copy of stream i of the parallel residual streams. */
static gr_reg stream_at(struct build *b, gr_reg streams, int64_t i) {
    return block_columns(b, streams, i * b->h->d[HD_EMBD], b->h->d[HD_EMBD]);
}
/* Returns the coefficients <name> . tanh(router . rms(x) / d). */
static gr_reg coefs(struct build *b, const char *name, gr_reg x) {
    gr_reg r = block_norm(b, &router_norm, x);
    block_scale(b, r, 1 / (double)b->h->d[HD_EMBD]);
    gr_reg m = block_matmul(b, "altup_router", r);
    block_give(b, r);
    append_node(b, OP_ACT, m, m, GR_NONE)->pick.f = GR_TANH;
    gr_reg c = block_matmul(b, name, m);
    block_give(b, m);
    return c;
}
/* Multiplies each stream after the first by a separate matrix, and rescales it to the magnitude of
 * `like`. */
static gr_reg project_streams(struct build *b, const char *name, gr_reg rest, gr_reg like) {
    gr_reg out = block_take(b, b->g->reg_width[rest]);
    const gr_w w = block_weight(b, name);
    append_node(b, OP_MATMUL_HEADS, out, rest, GR_NONE)->product.matrix = w;
    block_give(b, rest);
    append_node(b, OP_LEVEL, out, like, GR_NONE);
    return out;
}

/* Builds the initial streams: the first is the scaled embedding, the others are its products with
 * their matrices of altup_proj. */
static void build_streams(struct build *b) {
    const int64_t n = b->h->d[HD_ALTUP], d = b->h->d[HD_EMBD];
    const gr_reg x = b->g->residual;
    gemma4_start(b);
    gr_reg copies = block_columns(b, x, 0, d);
    for (int64_t i = 2; i < n; i++) {
        gr_reg more = block_take(b, i * d);
        append_node(b, OP_CONCAT, more, copies, x);
        block_give(b, copies);
        copies = more;
    }
    const gr_reg rest = project_streams(b, "altup_proj.weight", copies, x);
    b->streams = block_take(b, n * d);
    append_node(b, OP_CONCAT, b->streams, x, rest);
    block_give(b, rest);
}

/* Adds the low-rank residual branch and returns its output. */
static gr_reg add_laurel(struct build *b, gr_reg h) {
    gr_reg low = block_matmul(b, "laurel_l", h), r = block_matmul(b, "laurel_r", low);
    block_give(b, low);
    return block_norm_after(b, &laurel_norm, r);
}

/* Adds the feed-forward part, with sparse activations if the layer has them. */
static gr_reg add_feed_forward(struct build *b, gr_reg in) {
    const float peaks = b->h->layer[b->layer].peaks;
    gr_reg gate = block_matmul(b, "ffn_gate", in), up = block_matmul(b, "ffn_up", in);
    if (peaks > -INFINITY) append_node(b, OP_PEAKS, gate, gate, GR_NONE)->scale.by = peaks;
    block_gate(b, ACT_GEGLU, gate, up, 0);
    block_give(b, up);
    gr_reg out = block_matmul(b, "ffn_down", gate);
    block_give(b, gate);
    return out;
}

/* Returns the result of mixer and feed-forward on the active stream a. */
static gr_reg activated(struct build *b, const struct block_spec *s, gr_reg a) {
    gr_reg h = block_norm(b, &s->before_mix, a);
    gr_reg x = block_norm_after(b, &s->after_mix, block_attn(b, &s->attn, h));
    block_add(b, x, a);
    block_add(b, x, add_laurel(b, h));
    block_add(b, x, h);
    block_scale(b, x, sqrt(0.5));
    gr_reg f = block_norm(b, &s->before_ffn, x);
    gr_reg out = block_norm_after(b, &s->after_ffn, add_feed_forward(b, f));
    block_give(b, f);
    block_add(b, out, x);
    return out;
}

/* Returns the contribution of the token's embedding for this layer, computed with the active
 * stream. */
static gr_reg of_token(struct build *b, gr_reg a) {
    const gr_w by = block_weight(b, "altup_correct_scale.weight");
    block_scale(b, a, 0);
    b->g->node[b->g->n_nodes - 1].scale.number = by;
    gr_reg gate = block_matmul(b, "inp_gate", a);
    block_give(b, a);
    block_gate(b, ACT_GEGLU, gate, b->extra, b->layer * b->h->d[HD_PLE]);
    gr_reg out = block_matmul(b, "proj", gate);
    block_give(b, gate);
    return block_norm_after(b, &ple_after, out);
}

/* Changes the block plan *s where layer i of this model differs. */
static void add_layer(struct build *b, const struct block_spec *s) {
    const int64_t *d = b->h->d, at = d[HD_ALTUP_AT];
    gr_reg a = stream_at(b, b->streams, at), c = coefs(b, "altup_predict_coef", a);
    gr_reg p = block_take(b, d[HD_ALTUP] * d[HD_EMBD]);
    block_give(b, a);
    append_node(b, OP_MIX, p, b->streams, c);
    block_give(b, b->streams);
    block_give(b, c);
    b->streams = p;
    gr_reg x = activated(b, s, stream_at(b, p, at));
    c = coefs(b, "altup_correct_coef", x);
    a = stream_at(b, p, at);
    block_scale(b, a, -1);
    block_add(b, x, a); /* the change */
    append_node(b, OP_SPREAD, p, x, c);
    block_give(b, x);
    block_give(b, c);
    x = of_token(b, stream_at(b, p, at));
    append_node(b, OP_SPREAD, p, x, GR_NONE)->pick.offset = 1;
    block_give(b, x);
    append_node(b, OP_COLUMNS, b->g->residual, p, GR_NONE)->pick.offset = at * d[HD_EMBD];
}

/* Computes the mean of all streams, after projecting all but the first back. */
static void mean_of_streams(struct build *b) {
    const int64_t n = b->h->d[HD_ALTUP], d = b->h->d[HD_EMBD];
    const gr_reg out = b->g->residual;
    append_node(b, OP_COLUMNS, out, b->streams, GR_NONE);
    const gr_reg rest = project_streams(b, "altup_unembd_proj.weight",
                                        block_columns(b, b->streams, d, (n - 1) * d), out);
    for (int64_t i = 0; i < n - 1; i++) block_add(b, out, stream_at(b, rest, i));
    block_give(b, rest);
    block_scale(b, out, 1 / (double)n);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, POST_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES, .scaling = SCALING_FULL},
                       .scale = 1,
                       .value_norm = true,
                       QK_NORMS},
              .ffn = {.act = ACT_GEGLU}},
    .whole = add_layer,
    .embd_sqrt = true,
    .start = build_streams,
    .end = mean_of_streams,
};

extern const struct arch arch_gemma3n;
const struct arch arch_gemma3n = {
    .name = "gemma3n",
    .hf_classes = hf_classes,
    .family = "Gemma 3n",
    .size_note = "four residual streams, sliding-window and full attention, dense",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
    .ple_rows = true,
};
