// SPDX-License-Identifier: MIT
/* convert/tower_gemma4.c - the vision tower of Gemma 4, and the patch embedder of Gemma 4 Unified,
 * which has no blocks. */
#include "convert/vision.h"

// clang-format off
#define GL(x) "vision_tower.encoder.layers.%d." x
#define GB(x) "v.blk.%d." x
#define RMS(hf, gguf, n) {GL(hf ".weight"), GB(gguf ".weight"), {n}, 0, VR_F32}
#define BOUND(hf, gguf, which) {GL(hf "." which), GB(gguf "." which), {VD_ONE}, 0, VR_F32 | VR_CLIP}
#define CLIPPED(hf, gguf, out, in)                                                                 \
    {GL(hf ".linear.weight"), GB(gguf ".weight"), {out, in}, 0, 0},                                \
    BOUND(hf, gguf, "input_min"), BOUND(hf, gguf, "input_max"), BOUND(hf, gguf, "output_min"), BOUND(hf, gguf, "output_max")
static const struct vision_row gemma_rows[] = {
    {"vision_tower.patch_embedder.input_proj.weight", "v.patch_embd.weight", {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, VX_RGB_LAST, VR_CONV},
    {"vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight", {VD_TWO, VD_POS, VD_C}, 0, VR_F32},
    RMS("input_layernorm", "ln1", VD_C),
    RMS("post_attention_layernorm", "attn_post_norm", VD_C),
    RMS("pre_feedforward_layernorm", "ln2", VD_C),
    RMS("post_feedforward_layernorm", "ffn_post_norm", VD_C),
    CLIPPED("self_attn.q_proj", "attn_q", VD_Q, VD_C),
    CLIPPED("self_attn.k_proj", "attn_k", VD_KV, VD_C),
    CLIPPED("self_attn.v_proj", "attn_v", VD_KV, VD_C),
    CLIPPED("self_attn.o_proj", "attn_out", VD_C, VD_Q),
    RMS("self_attn.q_norm", "attn_q_norm", VD_HEAD),
    RMS("self_attn.k_norm", "attn_k_norm", VD_HEAD),
    CLIPPED("mlp.gate_proj", "ffn_gate", VD_FF, VD_C),
    CLIPPED("mlp.up_proj", "ffn_up", VD_FF, VD_C),
    CLIPPED("mlp.down_proj", "ffn_down", VD_C, VD_FF),
    {"vision_tower.std_bias", "v.std_bias", {VD_C}, 0, VR_F32 | VR_STD},
    {"vision_tower.std_scale", "v.std_scale", {VD_C}, 0, VR_F32 | VR_STD},
    {"embed_vision.embedding_projection.weight", "mm.input_projection.weight", {VD_TEXT, VD_C}, 0, 0},
    {.hf = NULL},
};
#define UNIFIED_NORM(hf, n, dim, xf) \
    {"vision_embedder." hf ".weight", "v.patch_norm." n ".weight", {dim}, xf, VR_F32}, {"vision_embedder." hf ".bias", "v.patch_norm." n ".bias", {dim}, xf, VR_F32}
static const struct vision_row unified_rows[] = {
    UNIFIED_NORM("patch_ln1", "1", VD_PIXELS, VX_RGB_LAST),
    {"vision_embedder.patch_dense.weight", "v.patch_embd.weight", {VD_C, VD_PIXELS}, VX_RGB_LAST, VR_CONV},
    {"vision_embedder.patch_dense.bias", "v.patch_embd.bias", {VD_C}, 0, VR_F32},
    UNIFIED_NORM("patch_ln2", "2", VD_C, 0),
    {"vision_embedder.pos_embedding", "v.position_embd.weight", {VD_TWO, VD_POS, VD_C}, VX_SWAP, VR_F32},
    UNIFIED_NORM("pos_norm", "3", VD_C, 0),
    {"embed_vision.embedding_projection.weight", "mm.input_projection.weight", {VD_TEXT, VD_C}, 0, 0},
    {.hf = NULL},
};
static const struct vision_fixed gemma_fixed[] = {
    {VP_TOWER, 0, "hidden_activation", VW_TANH},
    {VP_TOWER, 0, "pooling_kernel_size", "3"},
    V_THETA("100"),
    V_BICUBIC,
    {VP_IMAGE, VD_PATCH, "patch_size", NULL},
    {.field = NULL},
};
static const struct vision_fixed unified_fixed[] = {
    V_BICUBIC,
    {.field = NULL},
};
// clang-format on

/* Reads the hyperparameters of a Gemma 4 tower. Images of any size are scaled, so image_size is a
 * constant that other programs expect. */
static int gemma_read(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    int64_t *d = v->d;
    (void)dir;
    TRY(vision_number(cfg, "num_hidden_layers", 0, &v->blocks, e));
    TRY(vision_number(cfg, "num_attention_heads", 0, &v->heads, e));
    TRY(vision_number(cfg, "num_key_value_heads", v->heads, &v->kv_heads, e));
    TRY(vision_number(cfg, "head_dim", d[VD_C] / v->heads, &d[VD_HEAD], e));
    TRY(vision_number(cfg, "position_embedding_size", 0, &d[VD_POS], e));
    d[VD_Q] = v->heads * d[VD_HEAD];
    d[VD_KV] = v->kv_heads * d[VD_HEAD];
    v->clip = json_bool(json_get(cfg, "use_clipped_linears"), false);
    v->standardize = json_bool(json_get(cfg, "standardize"), false);
    v->image_size = 224;
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-6);
    return 0;
}

/* Reads Gemma 4 Unified's hyperparameters. A token's patch is a square of pooling_kernel_size
 * patches; the file's patch_size is that of the small ones. */
static int unified_read(struct vision *v, struct hfdir *dir, const struct json *cfg,
                        struct err *e) {
    int64_t *d = v->d, pool;
    (void)dir;
    TRY(vision_number(cfg, "pooling_kernel_size", 3, &pool, e));
    TRY(vision_number(cfg, "mm_embed_dim", 3840, &d[VD_C], e));
    TRY(vision_number(cfg, "mm_posemb_size", 1120, &d[VD_POS], e));
    if (pool > 64) return err_set(e, ERR_DATA, "vision_config.pooling_kernel_size is too large");
    v->patch_key = d[VD_PATCH];
    v->scale = pool == 3 ? 0 : pool;
    d[VD_PATCH] *= pool;
    d[VD_FF] = 0;
    v->image_size = 224;
    v->eps = json_num(json_get(cfg, "rms_norm_eps"), 1e-6);
    return 0;
}

/* Writes the keys of blocks, which other programs expect. */
static void unified_keys(const struct vision *v, struct gguf_w *w) {
    (void)v;
    gguf_w_u32(w, "clip.vision.feed_forward_length", 0);
    gguf_w_u32(w, "clip.vision.block_count", 0);
    gguf_w_u32(w, "clip.vision.attention.head_count", 0);
}

static const char *const unified_classes[] = {"Gemma4UnifiedForConditionalGeneration",
                                              "Gemma4UnifiedForCausalLM", NULL};
static const char *const classes[] = {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", NULL};
const struct vision_kind vision_gemma4 = {.name = "Gemma 4",
                                          .classes = classes,
                                          .projector = "gemma4v",
                                          .projector_key = "clip.vision.projector_type",
                                          .rows = gemma_rows,
                                          .fixed = gemma_fixed,
                                          .mean = {0, 0, 0},
                                          .std = {1, 1, 1},
                                          .limits = VL_SOFT_TOKENS,
                                          .read = gemma_read};
const struct vision_kind vision_gemma4u = {.name = "Gemma 4 Unified",
                                           .classes = unified_classes,
                                           .projector = "gemma4uv",
                                           .projector_key = "clip.vision.projector_type",
                                           .rows = unified_rows,
                                           .fixed = unified_fixed,
                                           .mean = {0, 0, 0},
                                           .std = {1, 1, 1},
                                           .usual = {3840, 1, 0, 0, 224, 16},
                                           .limits = VL_SOFT_TOKENS,
                                           .read = unified_read,
                                           .keys = unified_keys};
