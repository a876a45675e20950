// SPDX-License-Identifier: MIT
/* models/minicpm.c - MiniCPM 1 to 4 and MiniCPM 3: Llama-like decoders that scale embeddings, the
 * contribution of each half of a block, and logits. MiniCPM 3 has latent attention. Its files have
 * no keys for the scales, which are those of MiniCPM3-4B, and store kv_b_proj as one tensor. */
#include <math.h>

#include "base/attr.h"
#include "base/json.h"
#include "containers/hfdir.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"MiniCPMForCausalLM", NULL};
static const char *const latent_classes[] = {"MiniCPM3ForCausalLM", NULL};
/* The scales of MiniCPM 3: of embeddings, of halves (over the root of the number of layers), and
 * the width that logits are divided to. */
static const double EMBD = 12, DEPTH = 1.4, BASE = 256;
// clang-format off
#define HP_ROW_LONG {"rope.scaling.original_context_length", "rope_parameters.original_max_position_embeddings", HD_YARN_CTX, 0, 0}
static const struct hp_row hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF, HP_ROW_LONG,
    {"embedding_scale", "scale_emb", HF_EMBD_SCALE, HPF_REAL, 12},
    {"residual_scale", NULL, HF_RESIDUAL_SCALE, HPF_REAL, 0},
    {"logit_scale", NULL, HF_LOGIT_SCALE, HPF_REAL, 0},
    {.slot = -1},
};
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROWS_LONGROPE, ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS), ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,
    {.gguf = NULL},
};
static const struct hp_row latent_hp[] = {
    {"block_count", "num_hidden_layers", HD_LAYERS, HPF_REQUIRED, 0},
    {"context_length", "max_position_embeddings", HD_CTX, HPF_REQUIRED, 0},
    {"embedding_length", "hidden_size", HD_EMBD, HPF_REQUIRED, 0},
    {"attention.head_count", "num_attention_heads", HD_HEADS, HPF_REQUIRED, 0},
    {"attention.q_lora_rank", "q_lora_rank", HD_Q_RANK, HPF_REQUIRED, 0},
    {"attention.kv_lora_rank", "kv_lora_rank", HD_KV_RANK, HPF_REQUIRED, 0},
    {"rope.dimension_count", "qk_rope_head_dim", HD_ROT, HPF_REQUIRED, 0},
    {NULL, "qk_nope_head_dim", HD_NOPE, HPF_NO_KEY | HPF_REQUIRED, 0},
    {"attention.key_length", NULL, HD_KEY_MLA, 0, 0},
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_FF, HP_ROW_LONG,
    {.slot = -1},
};
#define LOW(gguf, hf, rows, cols) ROW_MAT(gguf, "self_attn." hf, rows, cols, ROLE_ATTN_LATENT, W_ATTN, 0)
#define PART(gguf, rows, cols) /* of attn_kv_b, made when a file is opened */ \
    {"blk.%d." gguf ".weight", NULL, {HD_HEADS, rows, cols}, XF_COPY, 0, ROLE_ATTN_LATENT, W_ATTN, TR_OPTIONAL}
static const struct tensor_row latent_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_LONGROPE, ROWS_PRE_NORMS(XF_COPY),
    LOW("attn_q_a", "q_a_proj", HD_Q_RANK, HD_EMBD),
    ROW_VEC("attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight", HD_Q_RANK, XF_COPY, W_ATTN, 0),
    LOW("attn_q_b", "q_b_proj", HD_Q_MLA, HD_Q_RANK),
    LOW("attn_kv_a_mqa", "kv_a_proj_with_mqa", HD_HEAD_DIM, HD_EMBD),
    ROW_VEC("attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight", HD_KV_RANK, XF_COPY, W_ATTN, 0),
    ROW_MAT("attn_kv_b", "self_attn.kv_b_proj", HD_KV_B, HD_KV_RANK, ROLE_ATTN_V, W_ATTN, 0),
    PART("attn_k_b", HD_KV_RANK, HD_NOPE), PART("attn_v_b", HD_VALUE_MLA, HD_KV_RANK),
    ROW_MAT("attn_output", "self_attn.o_proj", HD_EMBD, HD_V_MLA, ROLE_ATTN_OUTPUT, W_ATTN, 0),
    ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Reads the scales of halves and logits: scale_depth and dim_model_base, whose defaults mean no
 * scaling. */
static int read_scales(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const double layers = (double)h->d[HD_LAYERS], embd = (double)h->d[HD_EMBD];
    const double depth = json_num(hfdir_hparam(dir, "scale_depth"), sqrt(layers));
    const double base = json_num(hfdir_hparam(dir, "dim_model_base"), embd);
    if (!(depth > 0 && depth < 1e6 && base > 0 && base < 1e9))
        return err_set(e, ERR_DATA, "scale_depth %g or dim_model_base %g is out of range", depth,
                       base);
    h->f[HF_RESIDUAL_SCALE] = depth / sqrt(layers);
    h->f[HF_LOGIT_SCALE] = embd / base;
    return 0;
}

static int check_config(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(read_scales(h, dir, e));
    return hf_rope_long(h, dir, e);
}

static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    h->d[HD_ROT] = h->d[HD_HEAD_DIM] ? h->d[HD_HEAD_DIM] : h->d[HD_EMBD] / h->d[HD_HEADS];
    if (json_num(hfdir_hparam(dir, "num_experts"), 0) > 0)
        return err_set(e, ERR_DATA, "MiniCPM with experts is not supported");
    return check_config(h, dir, e);
}

static int derive(struct hparams *h, struct err *e) {
    const double layers = (double)h->d[HD_LAYERS];
    /* defaults of files without these keys */
    if (!(h->f[HF_RESIDUAL_SCALE] > 0)) h->f[HF_RESIDUAL_SCALE] = DEPTH / sqrt(layers);
    if (!(h->f[HF_LOGIT_SCALE] > 0)) h->f[HF_LOGIT_SCALE] = (double)h->d[HD_EMBD] / BASE;
    return layers_fill(h, e);
}

/* Writes the divisors and their type, without which llama.cpp ignores them. */
static void write_long(const struct hparams *h, const char *arch, const char *type,
                       struct gguf_w *w) {
    longrope_write(h, arch, w);
    if (h->d[HD_LONG]) gguf_w_str(w, type, "longrope");
}
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    return longrope_read(h, "minicpm", g, e);
}
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    write_long(h, "minicpm", "minicpm.rope.scaling.type", w);
}

/* ---- MiniCPM 3 ---- */

static int latent_derive(struct hparams *h, struct err *e) {
    int64_t *d = h->d;
    if (!d[HD_KEY_MLA]) d[HD_KEY_MLA] = d[HD_NOPE] + d[HD_ROT];
    if (!d[HD_NOPE]) d[HD_NOPE] = d[HD_KEY_MLA] - d[HD_ROT];
    d[HD_KV_HEADS] = 1;
    d[HD_HEAD_DIM] = d[HD_KV_RANK] + d[HD_ROT];
    d[HD_VALUE_MLA] = d[HD_EMBD] / d[HD_HEADS];
    if (d[HD_NOPE] < 1 || d[HD_EMBD] % d[HD_HEADS])
        return err_set(e, ERR_DATA,
                       "keys of %lld values, of which rope turns %lld, do not fit %lld heads in "
                       "%lld values",
                       (long long)d[HD_KEY_MLA], (long long)d[HD_ROT], (long long)d[HD_HEADS],
                       (long long)d[HD_EMBD]);
    h->f[HF_ATTN_SCALE] = 1 / sqrt((double)d[HD_KEY_MLA]);
    h->f[HF_EMBD_SCALE] = EMBD;
    h->f[HF_RESIDUAL_SCALE] = DEPTH / sqrt((double)d[HD_LAYERS]);
    h->f[HF_LOGIT_SCALE] = (double)d[HD_EMBD] / BASE;
    TRY(hparams_mul(h, HD_Q_MLA, d[HD_HEADS], d[HD_KEY_MLA], e));
    TRY(hparams_mul(h, HD_V_MLA, d[HD_HEADS], d[HD_VALUE_MLA], e));
    TRY(hparams_mul(h, HD_KV_B, d[HD_HEADS], d[HD_NOPE] + d[HD_VALUE_MLA], e));
    return layers_fill(h, e);
}

static int latent_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct {
        const char *key;
        double want;
    } same[] = {{"scale_emb", EMBD}, {"scale_depth", DEPTH}, {"dim_model_base", BASE}};
    const double usual = (double)h->d[HD_EMBD] / (double)h->d[HD_HEADS];
    const double value = json_num(hfdir_hparam(dir, "v_head_dim"), usual);
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        const double is = json_num(hfdir_hparam(dir, same[i].key), same[i].want);
        if (fabs(is - same[i].want) > 1e-6)
            return err_set(e, ERR_DATA, "%s is %g, but the format implies %g", same[i].key, is,
                           same[i].want);
    }
    if (value < usual || value > usual)
        return err_set(e, ERR_DATA, "v_head_dim is %g, but the format implies %g", value, usual);
    return check_config(h, dir, e);
}

static int latent_read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    return longrope_read(h, "minicpm3", g, e);
}
static void latent_write_keys(const struct hparams *h, struct gguf_w *w) {
    gguf_w_u32(w, "minicpm3.attention.head_count_kv", (uint32_t)h->d[HD_HEADS]);
    write_long(h, "minicpm3", "minicpm3.rope.scaling.type", w);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
    .logits_divided = true,
};
static const struct decoder_spec latent_decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}, .latent = true}},
    .logits_divided = true,
};

extern const struct arch arch_minicpm, arch_minicpm3;
const struct arch arch_minicpm = {
    .name = "minicpm",
    .hf_classes = hf_classes,
    .family = "MiniCPM 1, 2 and 4",
    .size_note = "dense transformer",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .write_keys = write_keys,
    .decoder = &decoder,
};
const struct arch arch_minicpm3 = {
    .name = "minicpm3",
    .hf_classes = latent_classes,
    .family = "MiniCPM 3",
    .size_note = "latent attention, dense",
    .hp = latent_hp,
    .tensors = latent_tensors,
    .derive = latent_derive,
    .from_hf = latent_from_hf,
    .read_keys = latent_read_keys,
    .write_keys = latent_write_keys,
    .decoder = &latent_decoder,
};
