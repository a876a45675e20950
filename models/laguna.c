// SPDX-License-Identifier: MIT
/* models/laguna.c - Laguna: per-head norms of queries and keys; attention output times the softplus
 * of a gate, per head or per value. Layers with and without a sliding window differ in heads, RoPE
 * base and rotated fraction; only those without one extend their context. Leading dense layers,
 * then experts selected by sigmoid scores with a bias, plus a shared one. */
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"LagunaForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_SIZES, HP_ROW_RMS_EPS, HP_ROW_VOCAB, HP_ROW_FF, HP_ROW_ROT, HP_ROWS_EXPERTS, HP_ROW_LEAD_DENSE, HP_ROW_WINDOW(0),
    HP_ROW_EXPERT_NORM(1), HP_ROW_GATING(2),
    {"expert_weights_scale", "moe_routed_scaling_factor", HF_EXPERT_SCALE, HPF_REAL, 1},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {"rope.freq_base", "rope_parameters.full_attention.rope_theta|rope_theta", HF_ROPE_BASE, HPF_REAL, 500000},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", HF_ROPE_BASE, HPF_REAL | HPF_WINDOWED, 10000},
    {"rope.dimension_count_swa", NULL, HD_ROT, HPF_WINDOWED, 0},
    {.slot = -1},
};
#define SHARED(gguf, hf, rows, cols, role) \
    {"blk.%d." gguf ".weight", "model.layers.%d.mlp.shared_expert." hf ".weight|model.layers.%d.mlp.shared_experts." hf ".weight", {rows, cols}, \
     XF_COPY, 0, role, W_MOE, 0}
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD,
    ROWS_PRE_NORMS(XF_COPY),
    ROWS_QKVO(HD_ATTN_OUT, XF_COPY),
    ROWS_QK_NORM(XF_COPY),
    ROW_MAT("attn_gate", "self_attn.g_proj", HD_GATE_OUT, HD_EMBD, ROLE_ATTN_GATE, W_ATTN, 0),
    ROWS_FFN,
    ROWS_EXPERTS,
    {"blk.%d.exp_probs_b.bias", "model.layers.%d.mlp.experts.e_score_correction_bias|model.layers.%d.mlp.gate.e_score_correction_bias", {HD_EXPERTS},
     XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32},
    SHARED("ffn_gate_shexp", "gate_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE),
    SHARED("ffn_up_shexp", "up_proj", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP),
    SHARED("ffn_down_shexp", "down_proj", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    ROW_OUTPUT_NORM(XF_COPY),
    ROW_OUTPUT,
    {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Reads the rotated fraction of a head for one kind of layers. */
static int read_rotated(const struct hparams *h, const struct hfdir *dir, const char *kind,
                        double usual, int64_t *to, struct err *e) {
    const struct json *r = hf_rope(dir, kind);
    const double part = json_num(json_get(r, "partial_rotary_factor"), usual);
    *to = part > 0 && part <= 1 ? (int64_t)((double)h->d[HD_HEAD_DIM] * part) : 0;
    return *to >= 2 ? 0
                    : err_set(e, ERR_DATA, "partial_rotary_factor %g of %s is not in (0, 1]", part,
                              kind);
}

/* Reads the number of attention heads of each layer and stores the largest as the model's. */
static int read_heads(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *t = json_first(hfdir_hparam(dir, "num_attention_heads_per_layer"));
    int64_t most = 0;
    for (int64_t i = 0; t && i < h->d[HD_LAYERS]; t = json_next(t), i++) {
        int64_t *n = layers_own(h, HD_HEADS, i);
        if (!json_i64(t, n) || *n < 1 || *n > 1 << 20)
            return err_set(e, ERR_DATA, "num_attention_heads_per_layer[%lld] is out of range",
                           (long long)i);
        if (*n > most) most = *n;
    }
    if (most) h->d[HD_HEADS] = most;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "moe_apply_router_weight_on_input", NULL};
    const struct json *gating = hfdir_hparam(dir, "gating");
    const char *kind = json_str(gating);
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if (json_num(hfdir_hparam(dir, "moe_router_logit_softcapping"), 0) > 0)
        return err_set(e, ERR_DATA,
                       "moe_router_logit_softcapping is set, which the format cannot hold");
    if (kind ? strcmp(kind, "per-head") != 0 && strcmp(kind, "per-element") != 0
             : !json_bool(gating, true))
        return err_set(e, ERR_DATA, "gating is neither true, \"per-head\" nor \"per-element\"");
    h->d[HD_GATE_WIDE] = kind && strcmp(kind, "per-element") == 0;
    TRY(read_rotated(h, dir, "full_attention", 1, &h->d[HD_ROT], e));
    if (h->d[HD_WINDOW])
        TRY(read_rotated(h, dir, "sliding_attention", 1, &h->d_windowed[HD_ROT], e));
    TRY(read_heads(h, dir, e));
    if (!hfdir_hparam(dir, "mlp_layer_types")) h->d[HD_LEAD_DENSE] = 1;
    TRY(hf_lead_dense(h, dir, e));
    return hf_check_rope(dir, e);
}

/* Determines from the number of rows of attn_gate whether gates are per head or per value. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    const struct gguf_tensor *gate = gguf_find_tensor(g, "blk.0.attn_gate.weight");
    (void)e;
    const int64_t heads = h->own[HD_HEADS] ? h->layer[0].heads : h->d[HD_HEADS];
    h->d[HD_GATE_WIDE] = gate && gate->ne[1] != heads;
    return 0;
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES, .scaling = SCALING_FULL},
                       .gate = GATE_SOFTPLUS,
                       QK_NORMS},
              .ffn = {.router = {.score = SCORE_SIGMOID, .norm_key = true}}},
};

extern const struct arch arch_laguna;
const struct arch arch_laguna = {
    .name = "laguna",
    .hf_classes = hf_classes,
    .family = "Laguna",
    .size_note = "sliding-window and full attention, mixture of experts",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .read_keys = read_keys,
    .tools = "glm-argkv",
    .window_period = -1,
    .window_keys = true,
    .decoder = &decoder,
};
