// SPDX-License-Identifier: MIT
/* convert/tower_internvl.c - vision towers of InternVL 2.5 to 3.5. The second alternative of each
 * name is for folders saved by transformers. */
#include "convert/vision.h"

// clang-format off
#define IL(a, b) "vision_model.encoder.layers.%d." a "|vision_tower.encoder.layer.%d." b
#define BOTH(a, b, gguf, ...) \
    {IL(a ".weight", b ".weight"), "v.blk.%d." gguf ".weight", {__VA_ARGS__}, 0, 0}
#define BIAS(a, b, gguf, n) {IL(a ".bias", b ".bias"), "v.blk.%d." gguf ".bias", {n}, 0, VR_F32 | VR_OPT}
#define NORM1(a, b, gguf, n, flags) {IL(a ".weight", b ".weight"), "v.blk.%d." gguf ".weight", {n}, 0, VR_F32 | flags}
/* q, k and v: fused in the original, separate in transformers. */
#define QKV(b, gguf, xf) \
    {IL("attn.qkv.weight", "attention." b ".weight"), "v.blk.%d." gguf ".weight", {VD_C, VD_C}, xf, VR_APART}, \
    {IL("attn.qkv.bias", "attention." b ".bias"), "v.blk.%d." gguf ".bias", {VD_C}, xf, VR_APART | VR_OPT | VR_F32}
#define PROJ(a, b, gguf, ...) {a "|multi_modal_projector." b, gguf, {__VA_ARGS__}, 0, 0}
#define PROJ1(a, b, gguf, n) {a "|multi_modal_projector." b, gguf, {n}, 0, VR_F32}
static const struct vision_row rows[] = {
    {"vision_model.embeddings.class_embedding|vision_tower.embeddings.cls_token", "v.class_embd", {VD_ONE, VD_ONE, VD_C}, 0, VR_F32},
    {"vision_model.embeddings.patch_embedding.weight|vision_tower.embeddings.patch_embeddings.projection.weight", "v.patch_embd.weight",
     {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, 0, VR_CONV},
    {"vision_model.embeddings.patch_embedding.bias|vision_tower.embeddings.patch_embeddings.projection.bias", "v.patch_embd.bias", {VD_C}, 0, VR_F32},
    {"vision_model.embeddings.position_embedding|vision_tower.embeddings.position_embeddings", "v.position_embd.weight", {VD_ONE, VD_POS, VD_C}, 0, VR_F32},
    NORM1("norm1", "layernorm_before", "ln1", VD_C, 0), BIAS("norm1", "layernorm_before", "ln1", VD_C),
    NORM1("norm2", "layernorm_after", "ln2", VD_C, 0), BIAS("norm2", "layernorm_after", "ln2", VD_C),
    QKV("q_proj", "attn_q", VX_Q), QKV("k_proj", "attn_k", VX_K), QKV("v_proj", "attn_v", VX_V),
    NORM1("attn.q_norm", "attention.q_norm", "attn_q_norm", VD_C, VR_OPT),
    NORM1("attn.k_norm", "attention.k_norm", "attn_k_norm", VD_C, VR_OPT),
    BOTH("attn.proj", "attention.projection_layer", "attn_out", VD_C, VD_C), BIAS("attn.proj", "attention.projection_layer", "attn_out", VD_C),
    BOTH("mlp.fc1", "mlp.fc1", "ffn_up", VD_FF, VD_C), BIAS("mlp.fc1", "mlp.fc1", "ffn_up", VD_FF),
    BOTH("mlp.fc2", "mlp.fc2", "ffn_down", VD_C, VD_FF), BIAS("mlp.fc2", "mlp.fc2", "ffn_down", VD_C),
    {IL("ls1", "lambda_1"), "v.blk.%d.ls1.weight", {VD_C}, 0, VR_F32},
    {IL("ls2", "lambda_2"), "v.blk.%d.ls2.weight", {VD_C}, 0, VR_F32},
    PROJ1("mlp1.0.weight", "layer_norm.weight", "mm.model.mlp.0.weight", VD_MERGED),
    PROJ1("mlp1.0.bias", "layer_norm.bias", "mm.model.mlp.0.bias", VD_MERGED),
    PROJ("mlp1.1.weight", "linear_1.weight", "mm.model.mlp.1.weight", VD_TEXT, VD_MERGED),
    PROJ1("mlp1.1.bias", "linear_1.bias", "mm.model.mlp.1.bias", VD_TEXT),
    PROJ("mlp1.3.weight", "linear_2.weight", "mm.model.mlp.3.weight", VD_TEXT, VD_TEXT),
    PROJ1("mlp1.3.bias", "linear_2.bias", "mm.model.mlp.3.bias", VD_TEXT),
    {.hf = NULL},
};
static const struct vision_fixed fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_GELU "|" VW_SILU},
    {VP_ROOT, 0, "projector_hidden_act", VW_GELU},
    {VP_ROOT, 0, "vision_feature_layer", "-1"},
    {VP_ROOT, 0, "select_layer", "-1"},
    {VP_ROOT, 0, "ps_version", "v2"},
    V_BICUBIC,
    {.field = NULL},
};
// clang-format on

/* Reads the limits of tiles: in config.json, or in the image processor of folders saved by
 * transformers. */
static int read_tiles(struct vision *v, struct hfdir *dir, struct err *e) {
    static const char *const key[][2] = {{"min_dynamic_patch", "min_patches"},
                                         {"max_dynamic_patch", "max_patches"}};
    for (int i = 0; i < 2; i++) {
        const struct json *j = json_get(hfdir_config(dir), key[i][0]);
        if (!j) TRY(vision_preprocessor(dir, key[i][1], &j, e));
        if (!j || json_type(j) == JSON_NULL) continue;
        if (!json_i64(j, &v->tiles[i]) || v->tiles[i] < 1 || v->tiles[i] > 1 << 16)
            return err_set(e, ERR_DATA, "%s: %s or %s is not a number of tiles", hfdir_path(dir),
                           key[i][0], key[i][1]);
    }
    return 0;
}

/* Reads the tower's sizes and options; ERR_DATA: not supported. */
static int read_config(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    const struct json *root = hfdir_config(dir);
    const char *act = json_str(json_get(cfg, "hidden_act"));
    const double ratio = json_num(json_get(root, "downsample_ratio"), .5);
    TRY(vision_transformer(v, cfg, e));
    v->scale = ratio > 0 && ratio <= 1 ? (int64_t)(1 / ratio) : 0;
    if (v->scale < 1 || v->scale > 64)
        return err_set(e, ERR_DATA, "downsample_ratio is not a number between 0 and 1");
    v->silu = vision_one_of(act, VW_SILU);
    v->gelu = !v->silu;
    const int64_t side = v->image_size / v->d[VD_PATCH];
    v->d[VD_POS] = side * side + 1;
    v->d[VD_MERGED] = v->scale * v->scale * v->d[VD_C];
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-6);
    return read_tiles(v, dir, e);
}

static const char *const classes[] = {"InternVLChatModel", "InternVLForConditionalGeneration",
                                      NULL};
const struct vision_kind vision_internvl = {.name = "InternVL",
                                            .classes = classes,
                                            .projector = "internvl",
                                            .rows = rows,
                                            .fixed = fixed,
                                            .mean = {.485f, .456f, .406f},
                                            .std = {.229f, .224f, .225f},
                                            .clip_colours = true,
                                            .usual = {1024, 4096, 24, 16, 448, 14},
                                            .read = read_config};
