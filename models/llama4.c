// SPDX-License-Identifier: MIT
/* models/llama4.c - Llama 4 Scout and Maverick: three of four layers have RoPE over adjacent pairs
 * and chunked attention; the fourth has no RoPE, full attention, and queries scaled by position.
 * Each token uses one routed expert, whose input the router scales, plus a shared one; Maverick
 * interleaves dense layers. Scout normalises queries and keys in layers with RoPE, without weights.
 * GGUF has no standard keys for the chunk size and the query scaling. They default to constants;
 * different values are stored under hone's own keys (CHUNK_KEY ...). */
#include <stdio.h>

#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

enum { PERIOD = 4, CHUNK = 8192, MAVERICK_EXPERTS = 128 };
static const double usual_temper = 0.1;

static const char *const hf_classes[] = {"Llama4ForConditionalGeneration", "Llama4ForCausalLM",
                                         NULL};
static const char *const skip[] = {"vision_model.", "multi_modal_projector.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_ROT,
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {"feed_forward_length", "intermediate_size_mlp", HD_FF, HPF_REQUIRED, 0},
    {"expert_feed_forward_length", "intermediate_size", HD_FF_EXP, HPF_REQUIRED, 0},
    HP_ROW_EXPERT_COUNTS,
    {"interleave_moe_layer_step", "interleave_moe_layer_step", HD_MOE_STEP, 0, 1},
    {NULL, "attention_chunk_size", HD_WINDOW, HPF_NO_KEY, CHUNK},
    {NULL, "floor_scale", HD_TEMPER_STEP, HPF_NO_KEY, CHUNK},
    {.slot = -1},
};
#define DENSE(x, rows, cols, role) ROW_MAT("ffn_" x, "feed_forward." x "_proj", rows, cols, role, W_DENSE, 0)
#define SHARED(x, rows, cols, role) ROW_MAT("ffn_" x "_shexp", "feed_forward.shared_expert." x "_proj", rows, cols, role, W_MOE, 0)
#define EXPERTS(gguf, hf, one, rows, cols, xf, role) \
    {"blk.%d." gguf ".weight", "model.layers.%d.feed_forward.experts." hf "|model.layers.%d.feed_forward.experts.%e." one ".weight", {HD_EXPERTS, rows, cols}, xf, 0, role, W_MOE, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROW_LLAMA3_FREQS, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    DENSE("gate", HD_FF, HD_EMBD, ROLE_FFN_GATE), DENSE("up", HD_FF, HD_EMBD, ROLE_FFN_UP), DENSE("down", HD_EMBD, HD_FF, ROLE_FFN_DOWN),
    ROW_ROUTER("feed_forward.router"),
    EXPERTS("ffn_gate_exps", "gate_up_proj", "gate_proj", HD_FF_EXP, HD_EMBD, XF_TURN_FIRST, ROLE_EXP_GATE),
    EXPERTS("ffn_up_exps", "gate_up_proj", "up_proj", HD_FF_EXP, HD_EMBD, XF_TURN_SECOND, ROLE_EXP_UP),
    EXPERTS("ffn_down_exps", "down_proj", "down_proj", HD_EMBD, HD_FF_EXP, XF_TURN, ROLE_EXP_DOWN),
    SHARED("gate", HD_FF_EXP, HD_EMBD, ROLE_SHEXP_GATE), SHARED("up", HD_FF_EXP, HD_EMBD, ROLE_SHEXP_UP),
    SHARED("down", HD_EMBD, HD_FF_EXP, ROLE_SHEXP_DOWN),
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++)
        *layers_own(h, HD_WINDOW, i) = (i + 1) % PERIOD ? h->d[HD_WINDOW] : 0;
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) h->layer[i].no_rope = (i + 1) % PERIOD == 0;
    return 0;
}

/* Checks no_rope_layers, which has a 0 for each layer without RoPE; an empty list means every
 * fourth layer. */
static int check_layers(const struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *list = hfdir_hparam(dir, "no_rope_layers");
    int64_t i = 0, v;
    if (json_len(list) > 0 && json_len(list) != h->d[HD_LAYERS])
        return err_set(e, ERR_DATA, "no_rope_layers has %lld entries for %lld layers",
                       (long long)json_len(list), (long long)h->d[HD_LAYERS]);
    for (const struct json *j = json_first(list); j; j = json_next(j), i++)
        if (!json_i64(j, &v) || (v != 0) != ((i + 1) % PERIOD != 0))
            return err_set(e, ERR_DATA,
                           "no_rope_layers: layer %lld is not as the format assumes (every "
                           "fourth has no rope)",
                           (long long)i);
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    const struct json *tuned = hfdir_hparam(dir, "attn_temperature_tuning");
    const bool normed = json_bool(hfdir_hparam(dir, "use_qk_norm"), true);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(check_layers(h, dir, e));
    if (normed != (h->d[HD_EXPERTS] != MAVERICK_EXPERTS))
        return err_set(e, ERR_DATA, "use_qk_norm is %s with %lld experts, which no key can express",
                       normed ? "true" : "false", (long long)h->d[HD_EXPERTS]);
    h->f[HF_TEMPER] = json_num(hfdir_hparam(dir, "attn_scale"), usual_temper);
    if (!json_bool(tuned, true) || (json_type(tuned) == JSON_NUM && !(json_num(tuned, 0) > 0)))
        return err_set(e, ERR_DATA, "attn_temperature_tuning is off, which no key can express");
    return hf_rope_llama3(h, dir, e);
}

#define CHUNK_KEY "llama4.attention.chunk_length"
#define STEP_KEY "llama4.attention.temperature_length"
#define TEMPER_KEY "llama4.attention.temperature_scale"
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    uint64_t chunk = CHUNK, step = CHUNK;
    h->f[HF_TEMPER] = usual_temper;
    TRY(gguf_opt_u64(g, CHUNK_KEY, &chunk, e));
    TRY(gguf_opt_u64(g, STEP_KEY, &step, e));
    TRY(gguf_opt_f64(g, TEMPER_KEY, &h->f[HF_TEMPER], e));
    if (chunk < 1 || chunk > INT32_MAX || step < 1 || step > INT32_MAX ||
        !(h->f[HF_TEMPER] >= 0 && h->f[HF_TEMPER] < 1e3))
        return err_set(e, ERR_DATA, "%s, %s or %s is out of range", CHUNK_KEY, STEP_KEY,
                       TEMPER_KEY);
    h->d[HD_WINDOW] = (int64_t)chunk;
    h->d[HD_TEMPER_STEP] = (int64_t)step;
    return 0;
}
/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    if (h->d[HD_WINDOW] != CHUNK) gguf_w_u32(w, CHUNK_KEY, (uint32_t)h->d[HD_WINDOW]);
    if (h->d[HD_TEMPER_STEP] != CHUNK) gguf_w_u32(w, STEP_KEY, (uint32_t)h->d[HD_TEMPER_STEP]);
    if (h->f[HF_TEMPER] < usual_temper || h->f[HF_TEMPER] > usual_temper)
        gguf_w_f32(w, TEMPER_KEY, (float)h->f[HF_TEMPER]);
}

/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    if (!h->layer[i].no_rope) {
        s->attn.temper.scale = 0;
        if (h->d[HD_EXPERTS] == MAVERICK_EXPERTS) return;
        s->attn.q_norm = s->attn.k_norm = (struct norm_spec){.kind = NORM_RMS};
    } else
        s->attn.temper.offset = 1;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS,
              .attn = {.rope = {.kind = ROPE_PAIRS}, .norm_after_rope = true, .chunked = true},
              .ffn = {.router = {.score = SCORE_SIGMOID, .keep = true, .input_scaled = true}}},
    .layer = layer,
};

extern const struct arch arch_llama4;
const struct arch arch_llama4 = {
    .name = "llama4",
    .hf_classes = hf_classes,
    .family = "Llama 4",
    .size_note = "chunked and full attention, mixture of experts",
    .tools = "llama-json",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
};
