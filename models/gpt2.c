// SPDX-License-Identifier: MIT
/* models/gpt2.c - GPT-2: learned position embeddings instead of RoPE, so their table limits the
 * context; LayerNorms; biases everywhere; fused q, k and v; matrices stored transposed. */
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/block.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"GPT2LMHeadModel", NULL};
static const char *const skip[] = {"=attn.bias", "=attn.masked_bias", NULL};
// clang-format off
static const struct hp_row hp[] = {
    {"block_count", "n_layer", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "n_positions|n_ctx", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "n_embd", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "n_head", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.head_count_kv", NULL, HD_KV_HEADS, 0, 0},
    {"feed_forward_length", "n_inner", HD_FF, 0, 0},
    HP_ROW_LAYER_EPS, HP_ROW_VOCAB,
    {.slot = -1},
};
#define H(hf) "transformer.h.%d." hf "|h.%d." hf
#define VEC(gguf, hf, width) {"blk.%d." gguf, H(hf), {width}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32}
#define BIASED(gguf, hf, rows, cols, role) \
    {"blk.%d." gguf ".weight", H(hf ".weight"), {rows, cols}, XF_TURN, 0, role, W_ALL, 0}, VEC(gguf ".bias", hf ".bias", rows)
#define NORM(gguf, hf) VEC(gguf ".weight", hf ".weight", HD_EMBD), VEC(gguf ".bias", hf ".bias", HD_EMBD)
#define OUTSIDE(gguf, hf, role, flags, ...) {gguf, "transformer." hf "|" hf, {__VA_ARGS__}, XF_COPY, 0, role, W_GLOBAL, flags}
static const struct tensor_row tensors[] = {
    OUTSIDE("token_embd.weight", "wte.weight", ROLE_TOKEN_EMBD, 0, HD_VOCAB, HD_EMBD),
    OUTSIDE("position_embd.weight", "wpe.weight", ROLE_OTHER, TR_F32, HD_CTX, HD_EMBD),
    NORM("attn_norm", "ln_1"),
    BIASED("attn_qkv", "attn.c_attn", HD_QKV_OUT, HD_EMBD, ROLE_ATTN_QKV),
    BIASED("attn_output", "attn.c_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT),
    NORM("ffn_norm", "ln_2"),
    BIASED("ffn_up", "mlp.c_fc", HD_FF, HD_EMBD, ROLE_FFN_UP),
    BIASED("ffn_down", "mlp.c_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN),
    OUTSIDE("output_norm.weight", "ln_f.weight", ROLE_OTHER, TR_F32, HD_EMBD),
    OUTSIDE("output_norm.bias", "ln_f.bias", ROLE_OTHER, TR_F32, HD_EMBD),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    if (!h->d[HD_FF]) TRY(hparams_mul(h, HD_FF, 4, h->d[HD_EMBD], e));
    h->d[HD_MOST_CTX] = h->d[HD_CTX]; /* the table has no rows for later positions */
    return layers_fill(h, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"scale_attn_by_inverse_layer_idx", "add_cross_attention",
                                     NULL};
    h->tied = json_bool(hfdir_hparam(dir, "tie_word_embeddings"), true);
    TRY(hf_check_off(dir, no, e));
    if (!json_bool(hfdir_hparam(dir, "scale_attn_weights"), true))
        return err_set(e, ERR_DATA,
                       "scale_attn_weights is false, which this architecture cannot hold");
    return hf_check_is(dir, "activation_function", "gelu_new", e);
}

/* Adds learned position embeddings to the residual. */
static void add_positions(struct build *b) {
    const gr_reg r = block_take(b, b->h->d[HD_EMBD]);
    block_embed(b, block_weight(b, "position_embd.weight"), r, 1);
    b->g->node[b->g->n_nodes - 1].embed.position = true;
    block_add(b, b->g->residual, r);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_LAYER, "attn_norm"},
              .before_ffn = {NORM_LAYER, "ffn_norm"},
              .attn = {.rope = {.kind = ROPE_NONE}},
              .ffn = {.act = ACT_GELU}},
    .norm = {NORM_LAYER, "output_norm"},
    .start = add_positions,
};

extern const struct arch arch_gpt2;
const struct arch arch_gpt2 = {
    .name = "gpt2",
    .hf_classes = hf_classes,
    .family = "GPT-2",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .decoder = &decoder,
};
