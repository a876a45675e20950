// SPDX-License-Identifier: MIT
/* models/draft.c - drafts for another model, for conversion and quantization: EAGLE-3 and DFlash.
 * Both read inputs of a few layers of that model, reduced by the matrix fc. They use that model's
 * embeddings and head unless they have their own. A draft with fewer tokens than its model has the
 * table d2t, from its tokens to those of the model.
 *
 * EAGLE-3 is one Llama layer, whose projections read the normalised embedding of a token next to
 * the normalised features. DFlash is a few Qwen 3 layers that draft a block of tokens at once.
 * Names and keys are those of llama.cpp. In its files, layers are numbered by their inputs: what
 * DFlash calls the output of layer i is the input of layer i + 1. */
#include "models/draft.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "models/block.h"

// clang-format off
#define HP_ROW_DRAFT_VOCAB {NULL, "draft_vocab_size", HD_DRAFT_VOCAB, HPF_NO_KEY, 0}
static const struct hp_row eagle3_hp[] = {
    HP_ROWS_SIZES, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_FF,
    {"rope.dimension_count", NULL, HD_ROT, 0, 0},
    {"vocab_size", "vocab_size|target_vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    HP_ROW_DRAFT_VOCAB,
    {"target_hidden_size", "target_hidden_size", HD_TARGET_EMBD, 0, 0},
    {"norm_before_residual", "norm_before_residual", HD_NORM_RESIDUAL, HPF_BOOL | HPF_ZERO_OK, 0},
    {"norm_before_fc", "norm_before_fc|eagle_config.norm_before_fc", HD_NORM_FC, HPF_BOOL | HPF_ZERO_OK, 0},
    {.slot = -1},
};
static const struct hp_row dflash_hp[] = {
    HP_ROWS_SIZES, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_FF, HP_ROW_VOCAB, HP_ROW_DRAFT_VOCAB,
    HP_ROW_WINDOW(HPF_ZERO_OK),
    {"block_size", "block_size|dflash_config.block_size", HD_BLOCK_SIZE, HPF_REQUIRED, 0},
    {NULL, "mask_token_id|dflash_config.mask_token_id", HD_MASK_TOKEN, HPF_NO_KEY | HPF_REQUIRED | HPF_ZERO_OK, 0},
    {.slot = -1},
};
#define AT(x) "layers.%d." x "|model.layers.%d." x "|midlayer." x
#define VEC(gguf, hf, width, flags) {gguf ".weight", hf, {width}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | (flags)}
#define MAT(gguf, hf, rows, cols, xf, role) {"blk.%d." gguf ".weight", AT(hf ".weight"), {rows, cols}, xf, HD_HEAD_DIM, role, W_ALL, 0}
#define TOP(gguf, hf, width, flags) {gguf ".weight", hf "|model." hf, {width}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32 | (flags)}
#define ROWS_DRAFT                                                                                                     \
    {"token_embd.weight", "embed_tokens.weight|model.embed_tokens.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, TR_OPTIONAL}, \
    {"fc.weight", "fc.weight|model.fc.weight", {HD_EMBD, HD_FEATURES}, XF_COPY, 0, ROLE_MTP_PROJ, W_GLOBAL, 0},        \
    {"d2t", "d2t", {HD_DRAFT_VOCAB}, XF_TOKEN_IDS, 0, ROLE_OTHER, W_GLOBAL, TR_I64 | TR_OPTIONAL}
#define ROWS_LAYER(cols, xf)                                                                                           \
    VEC("blk.%d.attn_norm", AT("input_layernorm.weight"), HD_EMBD, 0),                                                 \
    MAT("attn_q", "self_attn.q_proj", HD_ATTN_OUT, cols, xf, ROLE_ATTN_Q),                                             \
    MAT("attn_k", "self_attn.k_proj", HD_KV_OUT, cols, xf, ROLE_ATTN_K),                                               \
    MAT("attn_v", "self_attn.v_proj", HD_KV_OUT, cols, XF_COPY, ROLE_ATTN_V),                                          \
    MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_ATTN_OUT, XF_COPY, ROLE_ATTN_OUTPUT),                           \
    VEC("blk.%d.ffn_norm", AT("post_attention_layernorm.weight"), HD_EMBD, 0),                                         \
    MAT("ffn_gate", "mlp.gate_proj", HD_FF, HD_EMBD, XF_COPY, ROLE_FFN_GATE),                                          \
    MAT("ffn_up", "mlp.up_proj", HD_FF, HD_EMBD, XF_COPY, ROLE_FFN_UP),                                                \
    MAT("ffn_down", "mlp.down_proj", HD_EMBD, HD_FF, XF_COPY, ROLE_FFN_DOWN)
#define ROWS_TAIL                                                                                                      \
    TOP("output_norm", "norm.weight", HD_EMBD, 0),                                                                     \
    {"output.weight", "lm_head.weight", {HD_DRAFT_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_OUTPUT, W_GLOBAL, TR_OPTIONAL},    \
    {.gguf = NULL}
static const struct tensor_row eagle3_tensors[] = {
    ROWS_DRAFT,
    TOP("enc.output_norm", "input_norm.weight", HD_FEATURES, TR_IF(HD_NORM_FC)),
    ROW_LLAMA3_FREQS,
    ROWS_LAYER(HD_EMBD2, XF_ROPE_PAIRS),
    VEC("blk.%d.attn_norm_2", AT("hidden_norm.weight"), HD_EMBD, 0),
    ROWS_TAIL,
};
static const struct tensor_row dflash_tensors[] = {
    ROWS_DRAFT,
    TOP("enc.output_norm", "hidden_norm.weight", HD_EMBD, 0),
    ROWS_LAYER(HD_EMBD, XF_COPY),
    VEC("blk.%d.attn_q_norm", AT("self_attn.q_norm.weight"), HD_HEAD_DIM, 0),
    VEC("blk.%d.attn_k_norm", AT("self_attn.k_norm.weight"), HD_HEAD_DIM, 0),
    ROWS_TAIL,
};
// clang-format on
static const char *const eagle3_classes[] = {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM",
                                             "Eagle3Speculator", "Eagle3DraftModel", NULL};
static const char *const dflash_classes[] = {"DFlashDraftModel", NULL};
static const char *const skip[] = {"=t2d", NULL}; /* the inverse of d2t */

/* ---- shared with other drafts ---- */

/* Compares a number of the draft with that of its model. */
static int same_as_target(const struct hfdir *dir, const char *key, int64_t mine, struct err *e) {
    int64_t v;
    if (!json_i64(hfdir_target_hparam(dir, key), &v) || v == mine) return 0;
    return err_set(e, ERR_DATA,
                   "%s is %lld in the draft and %lld in %s: the draft belongs to another model",
                   key, (long long)mine, (long long)v, hfdir_target(dir));
}

int draft_target_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t *width = &h->d[HD_TARGET_EMBD];
    if (!*width && (!json_i64(hfdir_target_hparam(dir, "hidden_size"), width) || *width < 1 ||
                    *width > INT32_MAX))
        *width = h->d[HD_EMBD];
    TRY(same_as_target(dir, "hidden_size", *width, e));
    return same_as_target(dir, "vocab_size", h->d[HD_VOCAB], e);
}

/* Names of the number of layers of the draft's model. */
static const char n_layers[] = "num_hidden_layers|n_layers|n_layer";

int draft_layers_hf(struct hparams *h, const struct hfdir *dir, const struct json *list,
                    int64_t more, struct err *e) {
    int64_t n = 0, v, last; /* the input of the layer after the last is its output */
    if (!json_i64(hfdir_target_hparam(dir, n_layers), &last)) last = INT32_MAX;
    for (const struct json *j = json_first(list); j; j = json_next(j), n++) {
        if (n == HP_MAX_TARGETS || !json_i64(j, &v) || v < 0 || v >= HP_MAX_LAYERS)
            return err_set(e, ERR_DATA,
                           "the list of layers that the draft reads is not up to %d "
                           "numbers of layers",
                           HP_MAX_TARGETS);
        if (v + more > last)
            return err_set(e, ERR_DATA,
                           "the draft reads the input of layer %lld, but %s has %lld layers: the "
                           "draft belongs to another model",
                           (long long)(v + more), hfdir_target(dir), (long long)last);
        h->target[n] = (int32_t)(v + more);
    }
    h->d[HD_TARGETS] = n;
    return 0;
}

static void layers_key(char out[96], const char *arch) {
    snprintf(out, 96, "%s.target_layers", arch);
}

void draft_layers_write(const struct hparams *h, const char *arch, struct gguf_w *w) {
    char key[96];
    layers_key(key, arch);
    gguf_w_arr(w, key, GV_I32, h->target, (uint64_t)h->d[HD_TARGETS]);
}

int draft_layers_read(struct hparams *h, const char *arch, const struct gguf *g, struct err *e) {
    char key[96];
    layers_key(key, arch);
    const struct gguf_kv *kv = gguf_find(g, key);
    char old[96]; /* of files from before autumn 2026 */
    snprintf(old, sizeof old, "%s.extract_layers", arch);
    if (!kv) kv = gguf_find(g, old);
    const struct gguf_tensor *ids = gguf_find_tensor(g, "d2t");
    if (!kv || kv->type != GV_ARR || (kv->elem != GV_I32 && kv->elem != GV_U32) || !kv->count ||
        kv->count > HP_MAX_TARGETS)
        return err_set(e, ERR_DATA, "%s is not a list of 1 to %d layers", key, HP_MAX_TARGETS);
    for (uint64_t i = 0; i < kv->count; i++) {
        const int64_t v = gguf_kv_i64(kv, i);
        if (v < 0 || v > HP_MAX_LAYERS)
            return err_set(e, ERR_DATA, "%s: there is no layer %lld", key, (long long)v);
        h->target[i] = (int32_t)v;
    }
    h->d[HD_TARGETS] = (int64_t)kv->count;
    if (ids) h->d[HD_DRAFT_VOCAB] = ids->ne[0];
    return 0;
}

int draft_derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (!d[HD_DRAFT_VOCAB]) d[HD_DRAFT_VOCAB] = d[HD_VOCAB];
    if (d[HD_DRAFT_VOCAB] > d[HD_VOCAB])
        return err_set(e, ERR_DATA, "draft_vocab_size is %lld of %lld tokens",
                       (long long)d[HD_DRAFT_VOCAB], (long long)d[HD_VOCAB]);
    TRY(hparams_mul(h, HD_EMBD2, 2, d[HD_EMBD], e));
    TRY(hparams_mul(h, HD_TARGET_EMBD2, 2, d[HD_TARGET_EMBD], e));
    TRY(hparams_mul(h, HD_FEATURES, d[HD_TARGETS], d[HD_TARGET_EMBD], e));
    return layers_fill(h, e);
}

/* ---- EAGLE-3 ---- */

static int eagle3_derive(struct hparams *h, struct err *e) {
    TRY(draft_derive(h, e));
    if (h->d[HD_LAYERS] != 1)
        return err_set(e, ERR_DATA, "an EAGLE-3 draft of %lld layers; the format has one",
                       (long long)h->d[HD_LAYERS]);
    if (h->d[HD_HEAD_DIM] % 2 || h->d[HD_ROT] != h->d[HD_HEAD_DIM])
        return err_set(e, ERR_DATA, "%lld rotated dimensions of heads of %lld: all must be",
                       (long long)h->d[HD_ROT], (long long)h->d[HD_HEAD_DIM]);
    return 0;
}

/* Reads which layers' inputs the draft reads. Speculators number them so; eagle_config of other
 * publishers names layers whose outputs are meant. By default they are those of EAGLE's authors,
 * which depend on the number of layers of the model. */
static int eagle3_layers(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const char *const key = "eagle_aux_hidden_state_layer_ids";
    const struct json *inputs = hfdir_said(dir, key);
    const struct json *outputs = json_get(hfdir_said(dir, "eagle_config"), key);
    int64_t n = 0;
    if (json_type(inputs) == JSON_ARR)
        TRY(draft_layers_hf(h, dir, inputs, 0, e));
    else if (json_type(outputs) == JSON_ARR)
        TRY(draft_layers_hf(h, dir, outputs, 1, e));
    else if (!hfdir_target(dir))
        return err_set(e, ERR_DATA,
                       "it does not list the layers that the draft reads: name the folder of the "
                       "model that the draft belongs to with --target-model-dir");
    else if (!json_i64(hfdir_target_hparam(dir, n_layers), &n) || n < 6 || n > HP_MAX_LAYERS)
        return err_set(e, ERR_DATA, "%s/config.json names no number of layers that fits a draft",
                       hfdir_target(dir));
    else {
        const int32_t usual[] = {2, (int32_t)(n / 2), (int32_t)(n - 3)};
        memcpy(h->target, usual, sizeof usual);
        h->d[HD_TARGETS] = 3;
    }
    if (h->d[HD_TARGETS] != 3)
        return err_set(e, ERR_DATA, "the draft reads %lld layers; the format has three",
                       (long long)h->d[HD_TARGETS]);
    log_info("the draft reads the inputs of layers %d, %d and %d", (int)h->target[0],
             (int)h->target[1], (int)h->target[2]);
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int eagle3_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", "fc_norm", "norm_output", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_rope_llama3(h, dir, e));
    TRY(draft_target_hf(h, dir, e));
    return eagle3_layers(h, dir, e);
}

static void eagle3_write(const struct hparams *h, struct gguf_w *w) {
    draft_layers_write(h, "eagle3", w);
}

static int eagle3_read(struct hparams *h, const struct gguf *g, struct err *e) {
    return draft_layers_read(h, "eagle3", g, e);
}

/* ---- DFlash ---- */

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int dflash_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    const struct json *types = hfdir_hparam(dir, "layer_types"), *layers = NULL;
    bool windows = false;
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_rope(dir, e));
    h->d[HD_TARGET_EMBD] = h->d[HD_EMBD]; /* the format has no other width */
    TRY(draft_target_hf(h, dir, e));
    if (h->d[HD_MASK_TOKEN] >= h->d[HD_VOCAB])
        return err_set(e, ERR_DATA, "mask_token_id is %lld of %lld tokens",
                       (long long)h->d[HD_MASK_TOKEN], (long long)h->d[HD_VOCAB]);
    for (const struct json *t = json_first(types); t; t = json_next(t))
        windows |= json_str(t) && strcmp(json_str(t), "sliding_attention") == 0;
    windows &= json_bool(hfdir_said(dir, "use_sliding_window"), true);
    if (!windows) h->d[HD_WINDOW] = 0;
    if (windows && !h->d[HD_WINDOW])
        return err_set(e, ERR_DATA, "layer_types has windows, but sliding_window is missing");
    if (windows) TRY(layers_windows_hf(h, types, WINDOW_EVERYWHERE, e));
    layers = hfdir_said(dir, "target_layer_ids");
    if (!layers) layers = json_get(hfdir_said(dir, "dflash_config"), "target_layer_ids");
    TRY(draft_layers_hf(h, dir, layers, 1, e));
    return h->d[HD_TARGETS] ? 0
                            : err_set(e, ERR_DATA,
                                      "target_layer_ids, the layers that the draft reads, is "
                                      "missing");
}

static void dflash_write(const struct hparams *h, struct gguf_w *w) {
    draft_layers_write(h, "dflash", w);
    if (h->d[HD_WINDOW]) layers_windows_write(h, "dflash", w);
}

static int dflash_read(struct hparams *h, const struct gguf *g, struct err *e) {
    h->d[HD_TARGET_EMBD] = h->d[HD_EMBD];
    TRY(draft_layers_read(h, "dflash", g, e));
    return h->d[HD_WINDOW] ? layers_windows_gguf(h, "dflash", g, -1, e) : 0;
}

extern const struct arch arch_eagle3, arch_dflash;
const struct arch arch_eagle3 = {
    .name = "eagle3",
    .hf_classes = eagle3_classes,
    .family = "EAGLE-3 drafts",
    .size_note = "draft of one layer for another model",
    .hp = eagle3_hp,
    .tensors = eagle3_tensors,
    .skip = skip,
    .derive = eagle3_derive,
    .from_hf = eagle3_from_hf,
    .write_keys = eagle3_write,
    .read_keys = eagle3_read,
    .draft = "eagle3",
    .draft_graph = block_eagle3,
};
const struct arch arch_dflash = {
    .name = "dflash",
    .hf_classes = dflash_classes,
    .family = "DFlash drafts",
    .size_note = "draft of blocks of tokens for another model",
    .hp = dflash_hp,
    .tensors = dflash_tensors,
    .skip = skip,
    .derive = draft_derive,
    .from_hf = dflash_from_hf,
    .write_keys = dflash_write,
    .read_keys = dflash_read,
    .draft = "dflash",
};
