// SPDX-License-Identifier: MIT
/* models/nemotron_h.c - Nemotron-H, Nemotron Nano 2 and 3: each block consists of a norm and either
 * Mamba 2, attention without RoPE, or a squared-ReLU feed-forward. In Nemotron 3 every feed-forward
 * is a mixture of ungated routed and shared experts; in Super and Ultra the routed experts work on
 * low-rank rows. Their MTP block has attention and experts, in two layers of the checkpoint. */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "containers/gguf.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "base/log.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"NemotronHForCausalLM", NULL};
// clang-format off
#define HP_ROWS                                                                                                                    \
    HP_ROWS_HYBRID, HP_ROWS_MAMBA2,                                                                                                \
    {"attention.key_length", "head_dim|attention_head_dim", HD_HEAD_DIM, 0, 0},                                                    \
    {"attention.value_length", NULL, HD_HEAD_DIM, 0, 0},                                                                           \
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon|rms_norm_eps", HF_RMS_EPS, HPF_REAL | HPF_REQUIRED, 0},               \
    {"attention.layer_norm_epsilon", "layer_norm_epsilon|rms_norm_eps", HF_RMS_EPS, HPF_REAL, 0},                                  \
    {"feed_forward_length", "intermediate_size", HD_FF, HPF_LAYERS | HPF_ZERO_OK, 0},                                              \
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0}
static const struct hp_row dense_hp[] = {HP_ROWS, {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS, HP_ROWS_EXPERTS, HP_ROW_SHEXPS, HP_ROW_EXPERT_SCALE, HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2), HP_ROWS_GROUPS, HP_ROW_MTP,
    {"moe_latent_size", "moe_latent_size", HD_MOE_LATENT, HPF_ZERO_OK, 0},
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {.slot = -1},
};
#define LAYER(x) "backbone.layers.%d." x
#define MTP_ATTN(x) "mtp.layers.0." x
#define MTP_MOE(x) "mtp.layers.1." x
#define MAT(gguf, hf, rows, cols, role, where) {"blk.%d." gguf ".weight", LAYER("mixer." hf ".weight"), {rows, cols}, XF_COPY, 0, role, where, 0}
#define ATTN(gguf, hf, rows, cols, role, where) \
    {"blk.%d." gguf ".weight", LAYER("mixer." hf ".weight") "|" MTP_ATTN("mixer." hf ".weight"), {rows, cols}, XF_COPY, 0, role, where, 0}
#define SHARED(gguf, hf, rows, cols, role) \
    {"blk.%d." gguf ".weight", LAYER("mixer.shared_experts." hf ".weight") "|" MTP_MOE("mixer.shared_experts." hf ".weight"), {rows, cols}, XF_COPY, 0, role, W_MOE, 0}
#define NEXTN(gguf, hf) {"blk.%d." gguf ".weight", hf ".weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MTP, TR_F32}
#define ROWS                                                                                                                                        \
    {"token_embd.weight", "backbone.embeddings.weight|backbone.embedding.weight", {HD_VOCAB, HD_EMBD}, XF_COPY, 0, ROLE_TOKEN_EMBD, W_GLOBAL, 0},   \
    {"blk.%d.attn_norm.weight", LAYER("norm.weight") "|" MTP_ATTN("norm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},                        \
    ROWS_MAMBA2(LAYER("mixer."), XF_COPY, XF_COPY),                                                                                                 \
    ATTN("attn_q", "q_proj", HD_ATTN_OUT, HD_EMBD, ROLE_ATTN_Q, W_ATTN),                                                                             \
    ATTN("attn_k", "k_proj", HD_KV_OUT, HD_EMBD, ROLE_ATTN_K, W_ATTN),                                                                               \
    ATTN("attn_v", "v_proj", HD_KV_OUT, HD_EMBD, ROLE_ATTN_V, W_VALUES),                                                                             \
    ATTN("attn_output", "o_proj", HD_EMBD, HD_ATTN_OUT, ROLE_ATTN_OUTPUT, W_ATTN)
#define ROWS_END \
    {"output_norm.weight", "backbone.norm_f.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32}, ROW_OUTPUT, {.gguf = NULL}
#define EXPERTS(gguf, hf, rows, cols, role) \
    {"blk.%d." gguf ".weight", LAYER("mixer.experts.%e." hf ".weight") "|" LAYER("mixer.experts." hf) "|" MTP_MOE("mixer.experts.%e." hf ".weight") "|" MTP_MOE("mixer.experts." hf), {HD_EXPERTS, rows, cols}, XF_COPY, 0, role, W_MOE, 0}
#define LATENT(gguf, hf, rows, cols) \
    {"blk.%d." gguf ".weight", LAYER("mixer." hf ".weight") "|" MTP_MOE("mixer." hf ".weight"), {rows, cols}, XF_COPY, 0, ROLE_ATTN_LATENT, W_MOE, TR_IF(HD_MOE_LATENT)}
static const struct tensor_row dense_tensors[] = {
    ROWS, MAT("ffn_up", "up_proj", HD_FF, HD_EMBD, ROLE_FFN_UP, W_DENSE), MAT("ffn_down", "down_proj", HD_EMBD, HD_FF, ROLE_FFN_DOWN, W_DENSE),
    ROWS_END,
};
static const struct tensor_row moe_tensors[] = {
    ROWS,
    {"blk.%d.ffn_gate_inp.weight", LAYER("mixer.gate.weight") "|" MTP_MOE("mixer.gate.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32},
    {"blk.%d.exp_probs_b.bias", LAYER("mixer.gate.e_score_correction_bias") "|" MTP_MOE("mixer.gate.e_score_correction_bias"), {HD_EXPERTS}, XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32},
    EXPERTS("ffn_up_exps", "up_proj", HD_FF_EXP, HD_EXP_IN, ROLE_EXP_UP), EXPERTS("ffn_down_exps", "down_proj", HD_EXP_IN, HD_FF_EXP, ROLE_EXP_DOWN),
    LATENT("ffn_latent_down", "fc1_latent_proj", HD_MOE_LATENT, HD_EMBD), LATENT("ffn_latent_up", "fc2_latent_proj", HD_EMBD, HD_MOE_LATENT),
    SHARED("ffn_up_shexp", "up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP), SHARED("ffn_down_shexp", "down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    {"blk.%d.nextn.eh_proj.weight", MTP_ATTN("eh_proj.weight"), {HD_EMBD, HD_EMBD2}, XF_COPY, 0, ROLE_MTP_PROJ, W_MTP, 0},
    NEXTN("nextn.enorm", MTP_ATTN("enorm")), NEXTN("nextn.hnorm", MTP_ATTN("hnorm")), NEXTN("post_attention_norm", MTP_MOE("norm")),
    NEXTN("nextn.shared_head_norm", MTP_MOE("final_layernorm")),
    ROWS_END,
};
// clang-format on

/* Derives the kinds of layers; a layer with a feed-forward has no mixer. */
static int derive(struct hparams *h, struct err *e) {
    if (h->d[HD_EXPERTS]) TRY(derive_experts(h, e));
    h->d[HD_EXP_IN] = h->d[h->d[HD_MOE_LATENT] ? HD_MOE_LATENT : HD_EMBD];
    TRY(derive_mamba2(h, e));
    TRY(layers_fill_hybrid(h, MIX_MAMBA2, e));
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) {
        struct layer_hp *l = &h->layer[i];
        l->ffn = !l->ff ? FFN_NONE : h->d[HD_EXPERTS] ? FFN_MOE : FFN_DENSE;
        if (!l->ff) continue;
        if (l->mixer == MIX_ATTN)
            return err_set(e, ERR_DATA, "layer %lld has both attention and a feed-forward",
                           (long long)i);
        l->mixer = MIX_NONE;
    }
    for (int64_t i = h->d[HD_LAYERS]; i < h->d[HD_LAYERS] + h->d[HD_MTP]; i++)
        h->layer[i].ffn = FFN_MOE;
    return 0;
}

/* Writes one letter per layer to `to`, from the list layers_block_type if present, otherwise from
 * hybrid_override_pattern. `to` is empty if config.json has neither, or an unknown name. */
static void read_pattern(const struct hfdir *dir, char to[HP_MAX_LAYERS + 1]) {
    static const struct {
        const char *name;
        char letter;
    } kinds[] = {{"mamba", 'M'},     {"linear_attention", 'M'},
                 {"attention", '*'}, {"full_attention", '*'},
                 {"mlp", '-'},       {"moe", 'E'}};
    const struct json *list = hfdir_hparam(dir, "layers_block_type");
    const char *text = json_str(hfdir_hparam(dir, "hybrid_override_pattern"));
    size_t n = 0;
    if (json_type(list) != JSON_ARR) {
        snprintf(to, HP_MAX_LAYERS + 1, "%s", text ? text : "");
        return;
    }
    for (const struct json *t = json_first(list); t && n < HP_MAX_LAYERS; t = json_next(t)) {
        size_t k = 0;
        while (k < COUNT_OF(kinds) && strcmp(json_str(t) ? json_str(t) : "", kinds[k].name) != 0)
            k++;
        to[n++] = k < COUNT_OF(kinds) ? kinds[k].letter : '?';
    }
    to[n] = 0;
}

/* Sets the widths of the MTP block, or omits it: the format holds a single block of attention and
 * experts. ff: width of the experts. */
static void read_mtp(struct hparams *h, const struct hfdir *dir, int64_t ff) {
    const char *pattern = json_str(hfdir_hparam(dir, "mtp_hybrid_override_pattern"));
    const int64_t n = h->d[HD_LAYERS];
    if (h->d[HD_MTP] > 1 || (pattern && strcmp(pattern, "*E") != 0)) {
        h->d[HD_NO_MTP] = 1;
        log_warn("only one MTP block of attention and experts (mtp_hybrid_override_pattern \"*E\") "
                 "has names in GGUF files");
        return;
    }
    *layers_own(h, HD_KV_HEADS, n) = h->d[HD_KV_HEADS];
    *layers_own(h, HD_FF, n) = ff;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mamba_proj_bias", "mlp_bias", "use_bias",
                                     NULL};
    char pattern[HP_MAX_LAYERS + 1];
    read_pattern(dir, pattern);
    const int64_t n = h->d[HD_LAYERS];
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "mlp_hidden_act", "relu2", e));
    TRY(hf_check_is(dir, "mamba_hidden_act", "silu", e));
    const char *kinds = h->d[HD_EXPERTS] ? "M*E" : "M*-";
    if (strspn(pattern, kinds) != strlen(pattern) || strlen(pattern) != (size_t)n)
        return err_set(e, ERR_DATA, "%s does not give one of the kinds %s to each of %lld layers",
                       hfdir_said(dir, "layers_block_type") ? "layers_block_type"
                                                            : "hybrid_override_pattern",
                       kinds, (long long)n);
    if (!h->d[HD_KV_HEADS]) h->d[HD_KV_HEADS] = h->d[HD_HEADS];
    h->d[HD_CTX] = 1 << 20; /* no position encoding, hence no limit */
    const int64_t ff = h->d[h->d[HD_EXPERTS] ? HD_FF_EXP : HD_FF];
    for (int64_t i = 0; i < n; i++) {
        *layers_own(h, HD_KV_HEADS, i) = pattern[i] == '*' ? h->d[HD_KV_HEADS] : 0;
        *layers_own(h, HD_FF, i) = pattern[i] == kinds[2] ? ff : 0;
    }
    if (h->d[HD_EXPERTS] && n < HP_MAX_LAYERS) read_mtp(h, dir, ff);
    return 0;
}

/* Writes RoPE's dimension count as llama.cpp's converter does, although no layer uses it. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    const int64_t rot = h->d[HD_EMBD] / h->d[HD_HEADS];
    gguf_w_u32(w,
               h->d[HD_EXPERTS] ? "nemotron_h_moe.rope.dimension_count"
                                : "nemotron_h.rope.dimension_count",
               (uint32_t)rot);
}

static const struct decoder_spec decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "attn_norm"},
              .ffn = {.act = ACT_RELU2}},
};

static const struct decoder_spec moe_decoder = {
    .block = {.before_mix = {NORM_RMS, "attn_norm"},
              .before_ffn = {NORM_RMS, "attn_norm"},
              .ffn = {.act = ACT_RELU2, .router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_nemotron_h, arch_nemotron_h_moe;
/* Returns the architecture with experts if the layer pattern has any, otherwise the one without. */
static const struct arch *arch_of_pattern(const struct hfdir *dir) {
    char pattern[HP_MAX_LAYERS + 1];
    read_pattern(dir, pattern);
    return strchr(pattern, 'E') ? &arch_nemotron_h_moe : &arch_nemotron_h;
}
static const char *const skip[] = {"=mtp.", NULL};

const struct arch arch_nemotron_h = {
    .name = "nemotron_h",
    .hf_classes = hf_classes,
    .which = arch_of_pattern,
    .family = "Nemotron-H, Nemotron Nano 2",
    .size_note = "hybrid Mamba 2, dense",
    .hp = dense_hp,
    .tensors = dense_tensors,
    .skip = skip,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .decoder = &decoder,
    .tools = "nemotron-list",
};
const struct arch arch_nemotron_h_moe = {
    .name = "nemotron_h_moe",
    .hf_classes = hf_classes, /* distinguished by arch_of_pattern() */
    .family = "Nemotron 3 Nano, Super and Ultra",
    .size_note = "hybrid Mamba 2, mixture of experts",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .keeps_mtp = true,
    .mtp_parts = 2,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .decoder = &moe_decoder,
    .tools = "qwen-xml",
};
