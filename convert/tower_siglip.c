// SPDX-License-Identifier: MIT
/* convert/tower_siglip.c - vision towers built from SigLIP's blocks: Gemma 3, SmolVLM and Idefics
 * 3, LFM2-VL, MiniCPM-V 4.6. */
#include <string.h>

#include "convert/vision.h"

// clang-format off
#define SL(at, x) at "encoder.layers.%d." x
#define BLOCKS(at) \
    V_NORM(SL(at, "layer_norm1"), "v.blk.%d.ln1", VD_C), \
    V_NORM(SL(at, "layer_norm2"), "v.blk.%d.ln2", VD_C), \
    V_LINEAR(SL(at, "self_attn.q_proj"), "v.blk.%d.attn_q", VD_C, VD_C), \
    V_LINEAR(SL(at, "self_attn.k_proj"), "v.blk.%d.attn_k", VD_C, VD_C), \
    V_LINEAR(SL(at, "self_attn.v_proj"), "v.blk.%d.attn_v", VD_C, VD_C), \
    V_LINEAR(SL(at, "self_attn.out_proj"), "v.blk.%d.attn_out", VD_C, VD_C), \
    V_LINEAR(SL(at, "mlp.fc1"), "v.blk.%d.ffn_up", VD_FF, VD_C), \
    V_LINEAR(SL(at, "mlp.fc2"), "v.blk.%d.ffn_down", VD_C, VD_FF), \
    V_NORM(at "post_layernorm", "v.post_ln", VD_C)
#define EMBEDDINGS(at) \
    V_PATCH(at "embeddings.patch_embedding"), \
    {at "embeddings.position_embedding.weight", "v.position_embd.weight", {VD_POS, VD_C}, 0, VR_F32}
/* SigLIP's pooling head, which only embedding models use. */
#define HEAD(x) {"vision_tower.vision_model.head." x, NULL, {VD_NONE}, 0, VR_OPT}
static const struct vision_row gemma3_rows[] = {
    EMBEDDINGS("vision_tower.vision_model."),
    BLOCKS("vision_tower.vision_model."),
    HEAD("probe"), HEAD("attention.in_proj_weight"), HEAD("attention.in_proj_bias"), HEAD("attention.out_proj.weight"),
    HEAD("attention.out_proj.bias"), HEAD("layernorm.weight"), HEAD("layernorm.bias"), HEAD("mlp.fc1.weight"),
    HEAD("mlp.fc1.bias"), HEAD("mlp.fc2.weight"), HEAD("mlp.fc2.bias"),
    {"multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight", {VD_C, VD_TEXT}, 0, VR_F16},
    {"multi_modal_projector.mm_soft_emb_norm.weight", "mm.soft_emb_norm.weight", {VD_C}, VX_ADD1, VR_F32},
    {.hf = NULL},
};
static const struct vision_row idefics3_rows[] = {
    EMBEDDINGS("vision_model."),
    BLOCKS("vision_model."),
    {"connector.modality_projection.proj.weight", "mm.model.fc.weight", {VD_TEXT, VD_MERGED}, 0, 0},
    {.hf = NULL},
};
static const struct vision_row lfm2_rows[] = {
    {"vision_tower.vision_model.embeddings.patch_embedding.weight", "v.patch_embd.weight", {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, VX_RGB_LAST, VR_CONV},
    {"vision_tower.vision_model.embeddings.patch_embedding.bias", "v.patch_embd.bias", {VD_C}, 0, VR_F32},
    {"vision_tower.vision_model.embeddings.position_embedding.weight", "v.position_embd.weight", {VD_POS, VD_C}, 0, VR_F32},
    BLOCKS("vision_tower.vision_model."),
    {"multi_modal_projector.layer_norm.weight", "mm.input_norm.weight", {VD_MERGED}, 0, VR_F32 | VR_OPT},
    {"multi_modal_projector.layer_norm.bias", "mm.input_norm.bias", {VD_MERGED}, 0, VR_F32 | VR_OPT},
    V_LINEAR("multi_modal_projector.linear_1", "mm.1", VD_PROJ, VD_MERGED),
    V_LINEAR("multi_modal_projector.linear_2", "mm.2", VD_TEXT, VD_PROJ),
    {.hf = NULL},
};
/* A second merger between two blocks. Absent if each token covers only a square of 4 patches. */
#define VM(x) "vision_tower.vit_merger." x
static const struct vision_row minicpm_rows[] = {
    EMBEDDINGS("vision_tower.vision_model."),
    BLOCKS("vision_tower.vision_model."),
    V_NORM(VM("layer_norm1"), "v.vit_merger.ln1", VD_C),
    V_LINEAR(VM("self_attn.q_proj"), "v.vit_merger.attn_q", VD_C, VD_C),
    V_LINEAR(VM("self_attn.k_proj"), "v.vit_merger.attn_k", VD_C, VD_C),
    V_LINEAR(VM("self_attn.v_proj"), "v.vit_merger.attn_v", VD_C, VD_C),
    V_LINEAR(VM("self_attn.out_proj"), "v.vit_merger.attn_out", VD_C, VD_C),
    V_NORM(VM("pre_norm"), "v.vit_merger.ds_ln", VD_MERGED),
    V_LINEAR(VM("linear_1"), "v.vit_merger.ds_ffn_up", VD_PROJ, VD_MERGED),
    V_LINEAR(VM("linear_2"), "v.vit_merger.ds_ffn_down", VD_C, VD_PROJ),
    V_NORM("merger.mlp.0.pre_norm", "mm.input_norm", VD_MERGED),
    V_LINEAR("merger.mlp.0.linear_1", "mm.up", VD_MERGED, VD_MERGED),
    V_LINEAR("merger.mlp.0.linear_2", "mm.down", VD_TEXT, VD_MERGED),
    {.hf = NULL},
};
static const struct vision_fixed gemma3_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_TANH},
    V_BILINEAR,
    {VP_IMAGE, 0, "do_pan_and_scan", "false"},
    {.field = NULL},
};
static const struct vision_fixed idefics3_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_TANH},
    V_LANCZOS,
    {VP_IMAGE, 0, "do_image_splitting", "true"},
    {.field = NULL},
};
static const struct vision_fixed lfm2_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_TANH},
    {VP_ROOT, 0, "projector_hidden_act", VW_GELU},
    V_BILINEAR,
    {VP_IMAGE, VD_PATCH, "encoder_patch_size", NULL},
    {VP_IMAGE, 0, "do_image_splitting", "true"},
    {VP_IMAGE, 0, "use_thumbnail", "true"},
    {VP_IMAGE, 0, "tile_size", "512"},
    {VP_IMAGE, 0, "min_tiles", "2"},
    {VP_IMAGE, 0, "max_tiles", "10"},
    {VP_IMAGE, 0, "max_pixels_tolerance", "2"},
    {.field = NULL},
};
static const struct vision_fixed minicpm_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_TANH},
    V_BICUBIC,
    {VP_IMAGE, VD_PATCH, "patch_size", NULL},
    {VP_IMAGE, 0, "slice_mode", "true"},
    {VP_IMAGE, 0, "max_slice_nums", "9"},
    {VP_IMAGE, 0, "use_image_id", "true"},
    {.field = NULL},
};
// clang-format on

/* Sets the number of positions of a square image. */
static void grid(struct vision *v) {
    const int64_t side = v->image_size / v->d[VD_PATCH];
    v->d[VD_POS] = side * side;
}

/* Sets the side of the squares of patches that are averaged, giving mm_tokens_per_image tokens;
 * other programs assume squares of 4 x 4. */
static int gemma3_pool(struct vision *v, struct hfdir *dir, struct err *e) {
    const struct json *j = json_get(hfdir_config(dir), "mm_tokens_per_image"), *processor;
    const int64_t side = v->image_size / v->d[VD_PATCH];
    int64_t tokens = 256, expected;
    TRY(vision_preprocessor(dir, "image_seq_length", &processor, e));
    if (!j) j = processor;
    if (j && (!json_i64(j, &tokens) || tokens < 1))
        return err_set(e, ERR_DATA, "%s: mm_tokens_per_image or image_seq_length is not a number",
                       hfdir_path(dir));
    if (processor && (!json_i64(processor, &expected) || expected != tokens))
        return err_set(e, ERR_DATA,
                       "%s: the image processor's image_seq_length is not %lld, which config.json "
                       "gives as mm_tokens_per_image",
                       hfdir_path(dir), (long long)tokens);
    v->scale = 1;
    while (v->scale < side && tokens < (side / v->scale) * (side / v->scale)) v->scale++;
    if (side % v->scale || tokens != (side / v->scale) * (side / v->scale))
        return err_set(e, ERR_DATA,
                       "%s/config.json: mm_tokens_per_image is %lld: only the number of equal "
                       "squares that %lld by %lld patches can be divided into is supported",
                       hfdir_path(dir), (long long)tokens, (long long)side, (long long)side);
    if (v->scale == 4) v->scale = 0;
    return 0;
}

/* Reads Gemma 3's hyperparameters. */
static int gemma3_read(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    TRY(vision_transformer(v, cfg, e));
    grid(v);
    v->gelu = true;
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-6);
    TRY(gemma3_pool(v, dir, e));
    int64_t side = v->image_size;
    TRY(vision_size(v, dir, VS_SQUARE, v->image_size, &side, e));
    if (side == v->image_size) return 0;
    return err_set(e, ERR_DATA,
                   "%s: the image processor's size is %lld: only %lld, the tower's image_size, is "
                   "supported",
                   hfdir_path(dir), (long long)side, (long long)v->image_size);
}

/* Reads the tower of Idefics 3. */
static int idefics3_read(struct vision *v, struct hfdir *dir, const struct json *cfg,
                         struct err *e) {
    const struct json *size;
    int64_t tile;
    TRY(vision_transformer(v, cfg, e));
    TRY(vision_number(hfdir_config(dir), "scale_factor", 2, &v->scale, e));
    TRY(vision_preprocessor(dir, "max_image_size", &size, e));
    TRY(vision_number(size, "longest_edge", v->image_size, &tile, e));
    if (tile != v->image_size)
        return err_set(e, ERR_DATA,
                       "%s: the image processor's max_image_size.longest_edge is %lld: only %lld, "
                       "the tower's image_size, is supported",
                       hfdir_path(dir), (long long)tile, (long long)v->image_size);
    TRY(vision_size(v, dir, VS_EDGE, 1456, &v->longest, e));
    grid(v);
    v->d[VD_MERGED] = v->scale * v->scale * v->d[VD_C];
    v->gelu = true;
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-6);
    return 0;
}

/* Reads LFM2-VL's hyperparameters. Images have any size; the position table has num_patches
 * entries. */
static int lfm2_read(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    const struct json *root = hfdir_config(dir);
    v->image_size = 256;
    TRY(vision_transformer(v, cfg, e));
    TRY(vision_number(cfg, "num_patches", 256, &v->d[VD_POS], e));
    TRY(vision_number(root, "downsample_factor", 2, &v->scale, e));
    TRY(vision_number(root, "projector_hidden_size", 2560, &v->d[VD_PROJ], e));
    v->d[VD_MERGED] = v->scale * v->scale * v->d[VD_C];
    v->gelu = true;
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-6);
    /* vision_feature_layer counts from the end: -1 is the last block. */
    TRY(hfdir_whole(json_get(root, "vision_feature_layer"), "vision_feature_layer", -1,
                    &v->block_key, e));
    v->block_key += v->blocks + 1;
    if (v->block_key < 1 || v->block_key > v->blocks)
        return err_set(e, ERR_DATA, "vision_feature_layer is not one of the last blocks");
    return 0;
}

/* Reads MiniCPM-V's hyperparameters. Images are cut into slices of scale_resolution pixels;
 * vision_config's image_size is only the size of the position table. */
static int minicpm_read(struct vision *v, struct hfdir *dir, const struct json *cfg,
                        struct err *e) {
    const struct json *j;
    TRY(vision_transformer(v, cfg, e));
    grid(v);
    TRY(vision_preprocessor(dir, "scale_resolution", &j, e));
    if (j && (!json_i64(j, &v->image_size) || v->image_size < 1 || v->image_size > 1 << 20))
        return err_set(e, ERR_DATA, "scale_resolution is not a valid number");
    TRY(vision_preprocessor(dir, "downsample_mode", &j, e));
    if (j && (!json_str(j) || strcmp(json_str(j), "16x") != 0))
        return err_set(e, ERR_DATA, "downsample_mode is not 16x");
    v->scale = 4;
    v->gelu = true;
    v->d[VD_MERGED] = 4 * v->d[VD_C];
    v->d[VD_PROJ] = 4 * v->d[VD_FF];
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-6);
    j = json_get(hfdir_config(dir), "insert_layer_id");
    TRY(hfdir_whole(j ? j : json_get(cfg, "insert_layer_id"), "insert_layer_id", 6, &v->merge_after,
                    e));
    return v->merge_after >= 0 && v->merge_after < v->blocks
               ? 0
               : err_set(e, ERR_DATA, "insert_layer_id is %lld, but the tower has %lld blocks",
                         (long long)v->merge_after, (long long)v->blocks);
}

/* Writes the number of the block after which patches are merged. */
static void minicpm_keys(const struct vision *v, struct gguf_w *w) {
    const int32_t at = (int32_t)v->merge_after;
    gguf_w_arr(w, "clip.vision.wa_layer_indexes", GV_I32, &at, 1);
}

static const char *const minicpm_classes[] = {"MiniCPMV4_6ForConditionalGeneration", NULL};
static const char *const gemma3_classes[] = {"Gemma3ForConditionalGeneration", NULL};
static const char *const idefics3_classes[] = {"Idefics3ForConditionalGeneration",
                                               "SmolVLMForConditionalGeneration", NULL};
static const char *const lfm2_classes[] = {"Lfm2VlForConditionalGeneration", NULL};
#define HALF                                                                                       \
    { .5f, .5f, .5f }
const struct vision_kind vision_gemma3 = {.name = "Gemma 3",
                                          .classes = gemma3_classes,
                                          .projector = "gemma3",
                                          .rows = gemma3_rows,
                                          .fixed = gemma3_fixed,
                                          .mean = HALF,
                                          .std = HALF,
                                          .usual = {768, 3072, 12, 12, 224, 16},
                                          .read = gemma3_read};
const struct vision_kind vision_idefics3 = {.name = "SmolVLM and Idefics 3",
                                            .classes = idefics3_classes,
                                            .projector = "idefics3",
                                            .rows = idefics3_rows,
                                            .fixed = idefics3_fixed,
                                            .mean = HALF,
                                            .std = HALF,
                                            .usual = {1152, 3072, 12, 16, 224, 32},
                                            .read = idefics3_read};
const struct vision_kind vision_lfm2 = {.name = "LFM2-VL",
                                        .classes = lfm2_classes,
                                        .projector = "lfm2",
                                        .rows = lfm2_rows,
                                        .fixed = lfm2_fixed,
                                        .mean = HALF,
                                        .std = HALF,
                                        .usual = {768, 3072, 12, 12, 0, 16},
                                        .limits = VL_IMAGE_TOKENS,
                                        .read = lfm2_read};
const struct vision_kind vision_minicpm = {.name = "MiniCPM-V 4.6",
                                           .classes = minicpm_classes,
                                           .projector = "minicpmv4_6",
                                           .rows = minicpm_rows,
                                           .fixed = minicpm_fixed,
                                           .mean = HALF,
                                           .std = HALF,
                                           .usual = {1152, 4304, 27, 16, 980, 14},
                                           .read = minicpm_read,
                                           .keys = minicpm_keys};
