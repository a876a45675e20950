// SPDX-License-Identifier: MIT
/* models/cohere2.c - Command R and R+, Command R7B, Command A, Aya: one LayerNorm per block, shared
 * by parallel attention and feed-forward; RoPE over adjacent pairs; scaled logits. R7B and A have
 * RoPE only in sliding-window layers, three of four. R+ has LayerNorms of queries and keys, with
 * weights per head. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"Cohere2ForCausalLM", NULL};
static const char *const r_classes[] = {"CohereForCausalLM", NULL};
static const char *const skip[] = {"=lm_head.", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_FF, HP_ROW_ROPE_BASE, HP_ROW_LAYER_EPS, HP_ROW_ROT, HP_ROW_WINDOW(HPF_REQUIRED),
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {"logit_scale", "logit_scale", HF_LOGIT_SCALE, HPF_REAL | HPF_REQUIRED, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROW_NORM("attn_norm", "input_layernorm", XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_FFN,
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
static const struct hp_row r_hp[] = {
    {"context_length", "model_max_length|max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", "num_key_value_heads", HD_KV_HEADS, 0, 0},
    HP_ROW_FF, HP_ROW_ROPE_BASE, HP_ROW_LAYER_EPS, HP_ROW_VOCAB,
    {"logit_scale", "logit_scale", HF_LOGIT_SCALE, HPF_REAL | HPF_REQUIRED, 0},
    {.slot = -1},
};
#define QK_NORM(x, heads) \
    {"blk.%d.attn_" x "_norm.weight", "model.layers.%d.self_attn." x "_norm.weight", {heads, HD_HEAD_DIM}, XF_COPY, 0, ROLE_OTHER, W_ALL, \
     TR_F32 | TR_FOUND | TR_IF(HD_QK_NORM)}
static const struct tensor_row r_tensors[] = {
    ROW_TOKEN_EMBD, ROW_NORM("attn_norm", "input_layernorm", XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), QK_NORM("q", HD_HEADS),
    QK_NORM("k", HD_KV_HEADS), ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(layers_fill(h, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) h->layer[i].no_rope = !h->layer[i].window;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int command_r_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", NULL};
    h->tied = json_bool(hfdir_hparam(dir, "tie_word_embeddings"), true);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if (json_num(hfdir_hparam(dir, "rotary_pct"), 1) < 1)
        return err_set(e, ERR_DATA, "rotary_pct is less than 1, which is not supported");
    return hf_check_rope(dir, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"use_qk_norm", NULL};
    TRY(hf_check_off(dir, no, e));
    return command_r_from_hf(h, dir, e);
}

/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    yarn_write_none(h, "cohere2", w);
}
/* Writes the keys that only this architecture has. */
static void command_r_write_keys(const struct hparams *h, struct gguf_w *w) {
    yarn_write_none(h, "command-r", w);
}

/* Changes the block plan *s where layer i of this model differs. */
static void command_r_layer(const struct hparams *h, int i, struct block_spec *s) {
    (void)i;
    if (!h->d[HD_QK_NORM]) return;
    s->attn.q_norm = (struct norm_spec){NORM_LAYER, "attn_q_norm"};
    s->attn.k_norm = (struct norm_spec){NORM_LAYER, "attn_k_norm"};
}

#define BLOCK                                                                                      \
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},                                             \
              .attn = {.rope = {.kind = ROPE_PAIRS}},                                              \
              .parallel = true},                                                                   \
    .norm = {NORM_LAYER, "output_norm"}
static const struct decoder_spec decoder = {BLOCK};
static const struct decoder_spec r_decoder = {BLOCK, .layer = command_r_layer};

extern const struct arch arch_cohere2, arch_command_r;
const struct arch arch_cohere2 = {
    .name = "cohere2",
    .hf_classes = hf_classes,
    .family = "Command R7B, Command A",
    .size_note = "sliding-window and full attention, dense",
    .tools = "command-r-list",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .window_period = 4,
    .decoder = &decoder,
};
const struct arch arch_command_r = {
    .name = "command-r",
    .hf_classes = r_classes,
    .family = "Command R and R+",
    .size_note = "dense transformer",
    .hp = r_hp,
    .tensors = r_tensors,
    .skip = skip,
    .derive = layers_fill,
    .from_hf = command_r_from_hf,
    .write_keys = command_r_write_keys,
    .decoder = &r_decoder,
    .tools = "command-r-action",
};
