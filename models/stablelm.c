// SPDX-License-Identifier: MIT
/* models/stablelm.c - StableLM 3B, StableLM 2 1.6B and 12B: LayerNorms, RoPE on a quarter of each
 * head, q, k and v biases in some. In the 12B model, LayerNorms with weights per head are applied
 * to queries and keys, and attention and feed-forward are parallel with one shared norm. */
#include "base/attr.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"StableLmForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES_NO_HEAD_DIM, HP_ROW_FF, HP_ROW_ROT, HP_ROW_LAYER_EPS, HP_ROW_VOCAB,
    {"rope.freq_base", "rope_parameters.rope_theta|rope_theta", HF_ROPE_BASE, HPF_REAL | HPF_UNUSUAL, 10000},
    {.slot = -1},
};
#define SERIAL (TR_FOUND | TR_IF(HD_SERIAL))
#define QK_NORM(x, heads) \
    {"blk.%d.attn_" x "_norm.weight", "model.layers.%d.self_attn." x "_layernorm.norms.%e.weight", {heads, HD_HEAD_DIM}, \
     XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32 | TR_FOUND | TR_IF(HD_QK_NORM)}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_LAYER_NORM("attn_norm", "input_layernorm"),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QKV_BIAS_IF,
    QK_NORM("q", HD_HEADS),
    QK_NORM("k", HD_KV_HEADS),
    ROW_VEC("ffn_norm.weight", "post_attention_layernorm.weight", HD_EMBD, XF_COPY, W_ALL, SERIAL),
    ROW_VEC("ffn_norm.bias", "post_attention_layernorm.bias", HD_EMBD, XF_COPY, W_ALL, SERIAL),
    ROWS_FFN,
    ROWS_OUTPUT_LAYER_NORM,
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    h->d[HD_SERIAL] = !json_bool(hfdir_hparam(dir, "use_parallel_residual"), false);
    TRY(hf_partial_rope(h, dir, 0.25, e));
    return hf_check_rope(dir, e);
}

/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    gguf_w_bool(w, "stablelm.use_parallel_residual", !h->d[HD_SERIAL]);
}

/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    UNUSED(i);
    if (h->d[HD_QK_NORM]) {
        s->attn.q_norm = (struct norm_spec){NORM_LAYER, "attn_q_norm"};
        s->attn.k_norm = (struct norm_spec){NORM_LAYER, "attn_k_norm"};
    }
    s->parallel = !h->d[HD_SERIAL];
    if (s->parallel) s->before_ffn.kind = NORM_NONE;
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .before_ffn = {NORM_LAYER, "ffn_norm"},
              .attn = {.rope = {.kind = ROPE_HALVES}}},
    .layer = layer,
    .norm = {NORM_LAYER, "output_norm"},
};

extern const struct arch arch_stablelm;
const struct arch arch_stablelm = {
    .name = "stablelm",
    .hf_classes = hf_classes,
    .family = "StableLM",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .decoder = &decoder,
};
