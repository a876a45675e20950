// SPDX-License-Identifier: MIT
/* models/gemma.c - Gemma 1, 2 and 3 (text). Norms are stored as w - 1, and conversion adds 1;
 * embeddings are tied and multiplied by sqrt(width); feed-forwards are gated by GELU. Gemma 2 has
 * norms before and after each half, soft caps for scores and logits, and a sliding window in every
 * other layer. Gemma 3 has norms of queries and keys instead of capped scores, and a window in five
 * of six layers, which have a separate RoPE base. The tokens of an image see each other.
 *
 * Files do not store the scale of attention scores: it is 1 / sqrt(head_dim), except in the 27B
 * models, recognised by their number of layers, where it is 1 / sqrt(width / heads). If a config
 * requires a different scale, Gemma 3's norm of queries absorbs the difference; Gemma 2 has no such
 * norm, so the config is refused. */
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const classes1[] = {"GemmaForCausalLM", NULL};
static const char *const classes2[] = {"Gemma2ForCausalLM", NULL};
static const char *const classes3[] = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", NULL};
static const char *const skip[] = {"vision_tower.", "multi_modal_projector.", "=lm_head.", NULL};

// clang-format off
#define HP_ROWS HP_ROWS_SIZES, HP_ROW_FF, HP_ROW_RMS_EPS, HP_ROW_VOCAB
#define HP_ROW_BASE_10000 {"rope.freq_base", "rope_parameters.rope_theta|rope_theta", HF_ROPE_BASE, HPF_REAL | HPF_UNUSUAL, 10000}
#define CAP_KEY "final_logit_softcapping"
#define ATTN_CAP_KEY "attn_logit_softcapping"
#define HP_ROW_SOFTCAP {CAP_KEY, "final_logit_softcapping", HF_SOFTCAP, HPF_REAL | HPF_ZERO_OK, 0}
static const struct hp_row hp1[] = {HP_ROWS, HP_ROW_BASE_10000, {.slot = -1}};
static const struct hp_row hp2[] = {
    HP_ROWS, HP_ROW_BASE_10000, HP_ROW_SOFTCAP, HP_ROW_WINDOW(HPF_REQUIRED),
    {ATTN_CAP_KEY, "attn_logit_softcapping", HF_ATTN_SOFTCAP, HPF_REAL | HPF_ZERO_OK, 0},
    {.slot = -1},
};
static const struct hp_row hp3[] = {
    HP_ROWS, HP_ROW_SOFTCAP, HP_ROW_WINDOW(HPF_REQUIRED),
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta|rope_theta", HF_ROPE_BASE, HPF_REAL, 1000000},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta|rope_local_base_freq", HF_ROPE_BASE, HPF_REAL | HPF_WINDOWED, 10000},
    {.slot = -1},
};
static const struct tensor_row tensors1[] = {
    ROW_TOKEN_EMBD, ROWS_PRE_NORMS(XF_ADD1), ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_FFN, ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT, {.gguf = NULL},
};
#define ROWS_NORMS                                                          \
    ROW_NORM("attn_norm", "input_layernorm", XF_ADD1),                      \
    ROW_NORM("post_attention_norm", "post_attention_layernorm", XF_ADD1),   \
    ROW_NORM("ffn_norm", "pre_feedforward_layernorm", XF_ADD1),             \
    ROW_NORM("post_ffw_norm", "post_feedforward_layernorm", XF_ADD1)
static const struct tensor_row tensors2[] = {
    ROW_TOKEN_EMBD, ROWS_NORMS, ROWS_QKVO(HD_ATTN_OUT, XF_COPY), ROWS_FFN, ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row tensors3[] = {
    ROW_TOKEN_EMBD, ROWS_NORMS, ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    {"blk.%d.attn_q_norm.weight", HF_LAYER("self_attn.q_norm.weight"), {HD_HEAD_DIM}, XF_ADD1, MUL_Q, ROLE_OTHER, W_ATTN, TR_F32},
    {"blk.%d.attn_k_norm.weight", HF_LAYER("self_attn.k_norm.weight"), {HD_HEAD_DIM}, XF_ADD1, 0, ROLE_OTHER, W_ATTN, TR_F32},
    ROWS_FFN, ROW_OUTPUT_NORM(XF_ADD1), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Returns the square of the divisor of attention scores. The 27B model is recognised by its `large`
 * layers. */
static double divisor(const struct hparams *h, int64_t large) {
    return h->d[HD_LAYERS] == large ? (double)h->d[HD_EMBD] / (double)h->d[HD_HEADS]
                                    : (double)h->d[HD_HEAD_DIM];
}

/* Returns ERR_DATA if the model uses an unsupported option. */
static int check_config(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "use_bidirectional_attention", NULL};
    h->tied = json_bool(hfdir_hparam(dir, "tie_word_embeddings"), true);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_activation", "gelu_pytorch_tanh", e));
    return 0;
}
/* Sets *is to the square of the divisor of attention scores according to config.json, and *want to
 * the value that the format implies. */
static int read_scale(const struct hparams *h, const struct hfdir *dir, int64_t large, double *want,
                      double *is, struct err *e) {
    *want = h->d[HD_HEAD_DIM] ? divisor(h, large) : (double)h->d[HD_EMBD] / (double)h->d[HD_HEADS];
    *is = json_num(hfdir_hparam(dir, "query_pre_attn_scalar"), *want);
    return *is > 0 && *is < 1e9
               ? 0
               : err_set(e, ERR_DATA, "query_pre_attn_scalar is %g, which is out of range", *is);
}
/* Returns ERR_DATA if the model uses an unsupported option or rope. */
static int check_base(struct hparams *h, const struct hfdir *dir, struct err *e) {
    TRY(hf_check_rope(dir, e));
    return check_config(h, dir, e);
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf1(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const char *act = json_str(hfdir_hparam(dir, "hidden_act"));
    if (act && strncmp(act, "gelu", 4) != 0) /* transformers takes "gelu" as the approximation */
        return err_set(e, ERR_DATA, "hidden_act is \"%.40s\", not gelu", act);
    return check_base(h, dir, e);
}
/* Replaces a soft cap that config.json turns off (null) by one so large that it changes nothing:
 * other programs always cap Gemma 2, take the default if the key is missing, and divide by it. */
static void no_softcap(double *cap) {
    if (!(*cap > 0)) *cap = 1e4;
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf2(struct hparams *h, const struct hfdir *dir, struct err *e) {
    double want, is;
    no_softcap(&h->f[HF_SOFTCAP]);
    no_softcap(&h->f[HF_ATTN_SOFTCAP]);
    TRY(check_base(h, dir, e));
    TRY(read_scale(h, dir, 46, &want, &is, e));
    if (fabs(is - want) > 1e-6)
        return err_set(e, ERR_DATA, "query_pre_attn_scalar is %g, but the format implies %g", is,
                       want);
    return 0;
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf3(struct hparams *h, const struct hfdir *dir, struct err *e) {
    double want, is;
    TRY(hf_check_rope(dir, e));
    TRY(check_config(h, dir, e));
    TRY(read_scale(h, dir, 62, &want, &is, e));
    h->mul[MUL_Q] = (float)sqrt(want / is);
    return 0;
}

/* Sets soft caps whose key is missing to the values that other programs assume. */
static int read_keys2(struct hparams *h, const struct gguf *g, struct err *e) {
    UNUSED(e);
    if (!gguf_find(g, "gemma2." CAP_KEY)) h->f[HF_SOFTCAP] = 30;
    if (!gguf_find(g, "gemma2." ATTN_CAP_KEY)) h->f[HF_ATTN_SOFTCAP] = 50;
    return 0;
}

/* Changes the block plan *s where this layer of this model differs. */
static void gemma2_layer(const struct hparams *h, int layer, struct block_spec *s) {
    (void)layer;
    s->attn.scale = 1 / sqrt(divisor(h, 46));
}
/* Changes the block plan *s where this layer of this model differs. */
static void gemma3_layer(const struct hparams *h, int layer, struct block_spec *s) {
    (void)layer;
    s->attn.scale = 1 / sqrt(divisor(h, 62));
}

static const struct decoder_spec decoder1 = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}}, .ffn = {.act = ACT_GEGLU}},
    .embd_sqrt = true,
};
static const struct decoder_spec decoder2 = {
    .block = {PRE_NORMS, POST_NORMS, .attn = {.rope = {.kind = ROPE_HALVES}},
              .ffn = {.act = ACT_GEGLU}},
    .layer = gemma2_layer,
    .embd_sqrt = true,
};
static const struct decoder_spec decoder3 = {
    .block = {PRE_NORMS, POST_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES, .scaling = SCALING_FULL},
                       .whole = true,
                       QK_NORMS},
              .ffn = {.act = ACT_GEGLU}},
    .layer = gemma3_layer,
    .embd_sqrt = true,
};

extern const struct arch arch_gemma, arch_gemma2, arch_gemma3;
const struct arch arch_gemma = {
    .name = "gemma",
    .hf_classes = classes1,
    .family = "Gemma",
    .size_note = "dense transformer",
    .hp = hp1,
    .tensors = tensors1,
    .skip = skip,
    .derive = layers_fill,
    .from_hf = from_hf1,
    .decoder = &decoder1,
};
const struct arch arch_gemma2 = {
    .name = "gemma2",
    .hf_classes = classes2,
    .family = "Gemma 2",
    .size_note = "sliding-window and full attention, dense",
    .hp = hp2,
    .tensors = tensors2,
    .skip = skip,
    .derive = layers_fill,
    .from_hf = from_hf2,
    .read_keys = read_keys2,
    .window_period = 2,
    .decoder = &decoder2,
};
const struct arch arch_gemma3 = {
    .name = "gemma3",
    .hf_classes = classes3,
    .family = "Gemma 3",
    .size_note = "sliding-window and full attention, dense",
    .hp = hp3,
    .tensors = tensors3,
    .skip = skip,
    .derive = layers_fill,
    .from_hf = from_hf3,
    .window_period = 6,
    .decoder = &decoder3,
    .tools = "functiongemma",
};
