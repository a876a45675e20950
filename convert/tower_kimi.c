// SPDX-License-Identifier: MIT
/* convert/tower_kimi.c - the vision tower of Kimi-VL (MoonViT). */
#include "convert/vision.h"

// clang-format off
#define KL(x) "vision_tower.encoder.blocks.%d." x
static const struct vision_row rows[] = {
    V_PATCH("vision_tower.patch_embed.proj"),
    {"vision_tower.patch_embed.pos_emb.weight", "v.position_embd.weight", {VD_POS, VD_C}, 0, VR_F32 | VR_FLAT},
    V_NORM(KL("norm0"), "v.blk.%d.ln1", VD_C),
    V_NORM(KL("norm1"), "v.blk.%d.ln2", VD_C),
    V_SPLIT(KL("wqkv")),
    V_LINEAR(KL("wo"), "v.blk.%d.attn_out", VD_C, VD_C),
    V_LINEAR(KL("mlp.fc0"), "v.blk.%d.ffn_up", VD_FF, VD_C),
    V_LINEAR(KL("mlp.fc1"), "v.blk.%d.ffn_down", VD_C, VD_FF),
    V_NORM("vision_tower.encoder.final_layernorm", "v.post_ln", VD_C),
    V_NORM("multi_modal_projector.pre_norm", "mm.input_norm", VD_C),
    V_LINEAR("multi_modal_projector.linear_1", "mm.1", VD_MERGED, VD_MERGED),
    V_LINEAR("multi_modal_projector.linear_2", "mm.2", VD_TEXT, VD_MERGED),
    {.hf = NULL},
};
static const struct vision_fixed fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_TANH},
    {VP_ROOT, 0, "projector_hidden_act", VW_GELU},
    V_BICUBIC,
    {VP_IMAGE, VD_PATCH, "patch_size", NULL},
    {.field = NULL},
};
// clang-format on

/* Reads the tower's sizes and options. */
static int read_config(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    int64_t high, wide;
    (void)dir;
    v->image_size = 64 * v->d[VD_PATCH];
    TRY(vision_transformer(v, cfg, e));
    TRY(vision_number(cfg, "init_pos_emb_height", 64, &high, e));
    TRY(vision_number(cfg, "init_pos_emb_width", 64, &wide, e));
    TRY(vision_number(cfg, "merge_kernel_size", 2, &v->merge, e));
    if (v->merge != 2) return err_set(e, ERR_DATA, "vision_config.merge_kernel_size is not 2 by 2");
    v->d[VD_POS] = high * wide;
    v->d[VD_MERGED] = v->merge * v->merge * v->d[VD_C];
    v->scale = v->merge;
    v->gelu = true;
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-5);
    return 0;
}

static const char *const classes[] = {"KimiVLForConditionalGeneration", NULL};
const struct vision_kind vision_kimi = {.name = "Kimi-VL",
                                        .classes = classes,
                                        .projector = "kimivl",
                                        .rows = rows,
                                        .fixed = fixed,
                                        .mean = {.5f, .5f, .5f},
                                        .std = {.5f, .5f, .5f},
                                        .clip_colours = true,
                                        .usual = {1152, 4304, 27, 16, 0, 14},
                                        .limits = VL_PATCHES,
                                        .read = read_config};
