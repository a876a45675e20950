// SPDX-License-Identifier: MIT
/* models/hunyuan.c - Hunyuan dense (0.5B to 7B) and A13B: norms of queries and keys after RoPE;
 * A13B has a shared expert in addition to the routed ones. The context extension ("dynamic" with
 * alpha) only enlarges the RoPE base, by alpha^(head_dim / (head_dim - 2)). */
#include <math.h>
#include <stdio.h>

#include "containers/hfdir.h"
#include "base/fp.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const dense_classes[] = {"HunYuanDenseV1ForCausalLM", NULL};
static const char *const moe_classes[] = {"HunYuanMoEV1ForCausalLM", NULL};
// clang-format off
static const struct hp_row dense_hp[] = {HP_ROWS_DECODER, HP_ROW_FF, {.slot = -1}};
static const struct hp_row moe_hp[] = {
    HP_ROWS_DECODER, HP_ROW_FF,
    {"expert_count", "num_experts", HD_EXPERTS, HPF_REQUIRED, 0},
    {"expert_used_count", NULL, HD_EXPERTS_USED, HPF_REQUIRED, 0},
    {"expert_shared_feed_forward_length", "intermediate_size", HD_FF_SHEXP, HPF_REQUIRED, 0},
    {"expert_feed_forward_length", NULL, HD_FF_EXP, HPF_REQUIRED, 0},
    {"expert_shared_count", NULL, HD_SHEXPS, 0, 1},
    {.slot = -1},
};
#define ROWS_MIX                                                                                        \
    ROWS_PRE_NORMS(XF_COPY), ROWS_QKVO(HD_ATTN_OUT, XF_COPY),                                           \
    ROW_VEC("attn_q_norm.weight", "self_attn.query_layernorm.weight", HD_HEAD_DIM, XF_COPY, W_ATTN, 0), \
    ROW_VEC("attn_k_norm.weight", "self_attn.key_layernorm.weight", HD_HEAD_DIM, XF_COPY, W_ATTN, 0)
#define ROW_SHARED(x, rows, cols, role) ROW_MAT("ffn_" x "_shexp", "mlp.shared_mlp." x "_proj", rows, cols, role, W_MOE, 0)
static const struct tensor_row dense_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX, ROWS_FFN, ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
static const struct tensor_row moe_tensors[] = {
    ROW_TOKEN_EMBD, ROWS_MIX,
    ROW_ROUTER("mlp.gate.wg"), ROWS_EXPERT_MATS("mlp.experts", "gate_proj", "up_proj", "down_proj"),
    ROW_SHARED("gate", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_GATE),
    ROW_SHARED("up", HD_FF_SHEXP, HD_EMBD, ROLE_SHEXP_UP),
    ROW_SHARED("down", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN),
    ROW_OUTPUT_NORM(XF_COPY), ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive_moe(struct hparams *h, struct err *e) {
    TRY(derive_experts(h, e));
    return layers_fill(h, e);
}

/* Reads the RoPE parameters. By convention a model with RoPE scaling has a context of 256 k tokens,
 * regardless of config.json. */
static int rope_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *r = hf_rope(dir, ROPE_FULL);
    const double alpha = json_num(json_get(r, "alpha"), 0), hd = (double)h->d[HD_HEAD_DIM];
    if (!hf_rope_is(dir, "dynamic")) return hf_check_rope(dir, e);
    if (!(alpha >= 1 && alpha <= 1e9) || hd < 4)
        return err_set(e, ERR_DATA,
                       "rope_type \"dynamic\" with alpha %g and heads of %g, which is not "
                       "computed",
                       alpha, hd);
    h->f[HF_ROPE_BASE] *= fp_pow(alpha, hd / (hd - 2));
    h->d[HD_CTX] = h->d[HD_YARN_CTX] = 256 * 1024;
    return 0;
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mlp_bias", NULL};
    if (!h->d[HD_HEAD_DIM]) h->d[HD_HEAD_DIM] = h->d[HD_EMBD] / h->d[HD_HEADS];
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    if (!json_bool(hfdir_hparam(dir, "use_qk_norm"), true))
        return err_set(e, ERR_DATA, "use_qk_norm is false, which is not supported");
    return rope_from_hf(h, dir, e);
}

/* Reads a number, or a list with one number per layer, which must all be equal. */
static int one_of(const struct hfdir *dir, const char *key, int64_t otherwise, int64_t *to,
                  struct err *e) {
    const struct json *j = hfdir_hparam(dir, key), *first = json_first(j);
    *to = otherwise;
    for (const struct json *x = first; x; x = json_next(x)) {
        int64_t v;
        if (!json_i64(x, &v) || (x != first && v != *to))
            return err_set(e, ERR_DATA, "%s differs between layers, which is not supported", key);
        *to = v;
    }
    if (!first) (void)json_i64(j, to);
    if (*to < 1 || *to > INT32_MAX) return err_set(e, ERR_DATA, "%s is out of range", key);
    return 0;
}
/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int moe_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    int64_t *d = h->d;
    TRY(one_of(dir, "moe_topk", 1, &d[HD_EXPERTS_USED], e));
    TRY(one_of(dir, "moe_intermediate_size", d[HD_FF_SHEXP], &d[HD_FF_EXP], e));
    TRY(one_of(dir, "num_shared_expert", 1, &d[HD_SHEXPS], e));
    if (d[HD_SHEXPS] != 1)
        return err_set(e, ERR_DATA, "num_shared_expert is %lld: only 1 is supported",
                       (long long)d[HD_SHEXPS]);
    return from_hf(h, dir, e);
}

/* Writes keys that prevent other engines from scaling RoPE a second time. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    const char *name = h->d[HD_EXPERTS] ? "hunyuan-moe" : "hunyuan-dense";
    char key[64];
    if (!h->d[HD_YARN_CTX] || h->f[HF_YARN_FACTOR] > 0) return;
    snprintf(key, sizeof key, "%s.rope.scaling.type", name);
    gguf_w_str(w, key, "none");
    snprintf(key, sizeof key, "%s.rope.scaling.factor", name);
    gguf_w_f32(w, key, 1);
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", name);
    gguf_w_u32(w, key, (uint32_t)h->d[HD_YARN_CTX]);
}

static const struct decoder_spec decoder = {
    .block = {PRE_NORMS,
              .attn = {.rope = {.kind = ROPE_HALVES}, .norm_after_rope = true, QK_NORMS}},
};

extern const struct arch arch_hunyuan, arch_hunyuan_moe;
const struct arch arch_hunyuan = {
    .name = "hunyuan-dense",
    .hf_classes = dense_classes,
    .family = "Hunyuan dense",
    .size_note = "dense transformer",
    .hp = dense_hp,
    .tensors = dense_tensors,
    .derive = layers_fill,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .decoder = &decoder,
};
const struct arch arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .hf_classes = moe_classes,
    .family = "Hunyuan A13B",
    .size_note = "mixture-of-experts transformer",
    .hp = moe_hp,
    .tensors = moe_tensors,
    .derive = derive_moe,
    .from_hf = moe_from_hf,
    .write_keys = write_keys,
    .decoder = &decoder,
};
