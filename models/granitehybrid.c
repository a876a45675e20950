// SPDX-License-Identifier: MIT
/* models/granitehybrid.c - Granite 4 H: most layers are Mamba 2, the others attention, usually
 * without RoPE. Every block has routed experts and a shared one or, in small models, a dense
 * feed-forward, which the checkpoint stores as the shared expert. Scaling factors as in Granite.
 * Models of the same class in which all layers are attention are Granite's (granite.c).
 * Bamba is the same without the factors, but with RoPE and different tensor names. */
#include <math.h>
#include <string.h>

#include "containers/hfdir.h"
#include "base/json.h"
#include "models/rows.h"

static const char *const hf_classes[] = {"GraniteMoeHybridForCausalLM", "BambaForCausalLM", NULL};
// clang-format off
static const struct hp_row hp[] = {
    HP_ROWS_HYBRID, HP_ROW_RMS_EPS, HP_ROW_ROPE_BASE, HP_ROW_ROT, HP_ROW_FF, HP_ROWS_MAMBA2,
    {"vocab_size", "vocab_size", HD_VOCAB, HPF_REQUIRED, 0},
    {"attention.scale", "attention_multiplier", HF_ATTN_SCALE, HPF_REAL, 0},
    {"embedding_scale", "embedding_multiplier", HF_EMBD_SCALE, HPF_REAL, 1},
    {"residual_scale", "residual_multiplier", HF_RESIDUAL_SCALE, HPF_REAL, 1},
    {"logit_scale", "logits_scaling", HF_LOGIT_SCALE, HPF_REAL, 1},
    {"expert_count", "num_local_experts", HD_EXPERTS, HPF_ZERO_OK, 0},
    {"expert_used_count", "num_experts_per_tok", HD_EXPERTS_USED, HPF_ZERO_OK, 0},
    {"expert_shared_feed_forward_length", "shared_intermediate_size", HD_FF_SHEXP, HPF_ZERO_OK, 0},
    {.slot = -1},
};
#define LAYER(x) "model.layers.%d." x
#define MOE(x) LAYER("block_sparse_moe." x)
#define EXPERTS(gguf, hf, one, rows, cols, xf, role) \
    {"blk.%d." gguf ".weight", hf "|" MOE("experts.%e." one ".weight"), {HD_EXPERTS, rows, cols}, xf, 0, role, W_MOE, 0}
#define GATE_UP MOE("input_linear.weight") "|" MOE("experts.gate_up_proj")
#define MLP LAYER("shared_mlp.input_linear.weight")
static const struct tensor_row tensors[] = {
    ROW_TOKEN_EMBD, ROW_NORM("attn_norm", "input_layernorm", XF_COPY),
    {"blk.%d.ffn_norm.weight", LAYER("post_attention_layernorm.weight") "|" LAYER("pre_ff_layernorm.weight"), {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_ALL, TR_F32},
    ROWS_QKVO(HD_ATTN_OUT, XF_ROPE_PAIRS),
    ROWS_MAMBA2(LAYER("mamba."), XF_COPY, XF_COPY),
    {"blk.%d.ffn_gate_inp.weight", MOE("router.layer.weight") "|" MOE("router.weight"), {HD_EXPERTS, HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_MOE, TR_F32},
    EXPERTS("ffn_gate_exps", GATE_UP, "gate_proj", HD_FF_EXP, HD_EMBD, XF_SPLIT_FIRST, ROLE_EXP_GATE),
    EXPERTS("ffn_up_exps", GATE_UP, "up_proj", HD_FF_EXP, HD_EMBD, XF_SPLIT_SECOND, ROLE_EXP_UP),
    EXPERTS("ffn_down_exps", MOE("output_linear.weight") "|" MOE("experts.down_proj"), "down_proj", HD_EMBD, HD_FF_EXP, XF_COPY, ROLE_EXP_DOWN),
    {"blk.%d.ffn_gate_shexp.weight", MLP, {HD_FF_SHEXP, HD_EMBD}, XF_SPLIT_FIRST, 0, ROLE_SHEXP_GATE, W_MOE, TR_IF(HD_FF_SHEXP)},
    {"blk.%d.ffn_up_shexp.weight", MLP, {HD_FF_SHEXP, HD_EMBD}, XF_SPLIT_SECOND, 0, ROLE_SHEXP_UP, W_MOE, TR_IF(HD_FF_SHEXP)},
    ROW_MAT("ffn_down_shexp", "shared_mlp.output_linear", HD_EMBD, HD_FF_SHEXP, ROLE_SHEXP_DOWN, W_MOE, TR_IF(HD_FF_SHEXP)),
    {"blk.%d.ffn_gate.weight", MLP "|" LAYER("feed_forward.gate_proj.weight"), {HD_FF, HD_EMBD}, XF_SPLIT_FIRST, 0, ROLE_FFN_GATE, W_DENSE, 0},
    {"blk.%d.ffn_up.weight", MLP "|" LAYER("feed_forward.up_proj.weight"), {HD_FF, HD_EMBD}, XF_SPLIT_SECOND, 0, ROLE_FFN_UP, W_DENSE, 0},
    {"blk.%d.ffn_down.weight", LAYER("shared_mlp.output_linear.weight") "|" LAYER("feed_forward.down_proj.weight"), {HD_EMBD, HD_FF}, XF_COPY, 0,
     ROLE_FFN_DOWN, W_DENSE, 0},
    {"output_norm.weight", "model.norm.weight|model.final_layernorm.weight", {HD_EMBD}, XF_COPY, 0, ROLE_OTHER, W_GLOBAL, TR_F32},
    ROW_OUTPUT, {.gguf = NULL},
};
// clang-format on

/* Derives dimensions and layers from the hyperparameters. ERR_DATA: they are inconsistent. */
static int derive(struct hparams *h, struct err *e) {
    h->d[HD_FF_EXP] = h->d[HD_FF];
    TRY(derive_experts(h, e));
    TRY(derive_mamba2(h, e));
    return layers_fill_hybrid(h, MIX_MAMBA2, e);
}

/* Reads a Bamba config: RoPE on the first half of each head, and a list of the attention layers. */
static int bamba_from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    const struct json *list = hfdir_hparam(dir, "attn_layer_indices");
    if (!h->d[HD_KV_HEADS]) h->d[HD_KV_HEADS] = h->d[HD_HEADS];
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) *layers_own(h, HD_KV_HEADS, i) = 0;
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        int64_t i = -1;
        if (!json_i64(j, &i) || i < 0 || i >= h->d[HD_LAYERS])
            return err_set(e, ERR_DATA, "attn_layer_indices names a layer that is not there");
        *layers_own(h, HD_KV_HEADS, i) = h->d[HD_KV_HEADS];
    }
    const int64_t width = h->d[HD_HEAD_DIM] ? h->d[HD_HEAD_DIM] : h->d[HD_EMBD] / h->d[HD_HEADS];
    h->f[HF_ATTN_SCALE] = 1 / sqrt((double)width);
    return hf_partial_rope(h, dir, 0.5, e);
}

/* Reads settings that only config.json has. ERR_DATA: unsupported option. */
static int from_hf(struct hparams *h, const struct hfdir *dir, struct err *e) {
    static const char *const no[] = {"attention_bias", "mamba_proj_bias", "mlp_bias", NULL};
    const char *pos = json_str(hfdir_hparam(dir, "position_embedding_type"));
    TRY(hf_check_off(dir, no, e));
    TRY(hf_check_is(dir, "hidden_act", "silu", e));
    TRY(hf_check_rope(dir, e));
    TRY(hf_mamba_inner(h, dir, e));
    if (hfdir_hparam(dir, "attn_layer_indices")) return bamba_from_hf(h, dir, e);
    h->d[HD_NO_ROPE] = !pos || strcmp(pos, "rope") != 0;
    if (h->d[HD_NO_ROPE]) h->d[HD_CTX] = 1 << 20; /* no position encoding, hence no limit */
    if (!h->d[HD_EXPERTS]) {
        h->d[HD_FF] = h->d[HD_FF_SHEXP];
        h->d[HD_FF_SHEXP] = h->d[HD_EXPERTS_USED] = 0;
    }
    const struct json *types = hfdir_hparam(dir, "layer_types");
    if (types) return layers_mixers_hf(h, types, "mamba", e);
    for (int64_t i = 0; i < h->d[HD_LAYERS]; i++) *layers_own(h, HD_KV_HEADS, i) = 0;
    return 0;
}

extern const struct arch arch_granite, arch_granitemoe, arch_granitehybrid;
/* Returns the architecture without Mamba layers if layer_types lists only attention, otherwise the
 * hybrid one. */
static const struct arch *which(const struct hfdir *dir) {
    const struct json *types = hfdir_hparam(dir, "layer_types");
    if (json_len(types) < 1) return &arch_granitehybrid;
    for (const struct json *t = json_first(types); t; t = json_next(t)) {
        const char *s = json_str(t);
        if (!s || (strcmp(s, "attention") != 0 && strcmp(s, ROPE_FULL) != 0))
            return &arch_granitehybrid;
    }
    return json_num(hfdir_hparam(dir, "num_local_experts"), 0) > 0 ? &arch_granitemoe
                                                                   : &arch_granite;
}

static const char finetuned[] = "granitehybrid.rope.scaling.finetuned";
/* Writes the keys that only this architecture has. */
static void write_keys(const struct hparams *h, struct gguf_w *w) {
    if (h->d[HD_NO_ROPE]) gguf_w_bool(w, finetuned, false);
}
/* Reads the keys that only this architecture has; ERR_DATA: out of range. */
static int read_keys(struct hparams *h, const struct gguf *g, struct err *e) {
    bool rope = true;
    TRY(gguf_opt_bool(g, finetuned, &rope, e));
    h->d[HD_NO_ROPE] = !rope;
    return 0;
}

/* Changes the block plan *s where layer i of this model differs. */
static void layer(const struct hparams *h, int i, struct block_spec *s) {
    (void)i;
    if (h->d[HD_NO_ROPE]) s->attn.rope.kind = ROPE_NONE;
}
static const struct decoder_spec decoder = {
    .block = {PRE_NORMS, .attn = {.rope = {.kind = ROPE_PAIRS}}},
    .layer = layer,
    .logits_divided = true,
};

const struct arch arch_granitehybrid = {
    .name = "granitehybrid",
    .hf_classes = hf_classes,
    .which = which,
    .family = "Granite 4 H and Bamba",
    .size_note = "hybrid Mamba 2, dense or mixture of experts",
    .tools = "hermes-json",
    .hp = hp,
    .tensors = tensors,
    .derive = derive,
    .from_hf = from_hf,
    .write_keys = write_keys,
    .read_keys = read_keys,
    .decoder = &decoder,
};
