// SPDX-License-Identifier: MIT
/* convert/tower_qwen.c - vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL (also used by Qwen3.5),
 * and of GLM-4.xV, which has the same blocks. */
#include <math.h>
#include <string.h>

#include "convert/vision.h"

// clang-format off
#define VB(x) "visual.blocks.%d." x
static const struct vision_row qwen2_rows[] = {
    V_FRAMES("visual.patch_embed.proj"),
    V_NORM(VB("norm1"), "v.blk.%d.ln1", VD_C),
    V_NORM(VB("norm2"), "v.blk.%d.ln2", VD_C),
    V_SPLIT(VB("attn.qkv")),
    V_LINEAR(VB("attn.proj"), "v.blk.%d.attn_out", VD_C, VD_C),
    V_LINEAR(VB("mlp.fc1"), "v.blk.%d.ffn_up", VD_FF, VD_C),
    V_LINEAR(VB("mlp.fc2"), "v.blk.%d.ffn_down", VD_C, VD_FF),
    V_NORM("visual.merger.ln_q", "v.post_ln", VD_C),
    V_LINEAR("visual.merger.mlp.0", "mm.0", VD_MERGED, VD_MERGED),
    V_LINEAR("visual.merger.mlp.2", "mm.2", VD_TEXT, VD_MERGED),
    {.hf = NULL},
};
static const struct vision_row qwen25_rows[] = {
    V_FRAMES("visual.patch_embed.proj"),
    V_NORM(VB("norm1"), "v.blk.%d.ln1", VD_C),
    V_NORM(VB("norm2"), "v.blk.%d.ln2", VD_C),
    V_SPLIT(VB("attn.qkv")),
    V_LINEAR(VB("attn.proj"), "v.blk.%d.attn_out", VD_C, VD_C),
    V_LINEAR(VB("mlp.gate_proj"), "v.blk.%d.ffn_gate", VD_FF, VD_C),
    V_LINEAR(VB("mlp.up_proj"), "v.blk.%d.ffn_up", VD_FF, VD_C),
    V_LINEAR(VB("mlp.down_proj"), "v.blk.%d.ffn_down", VD_C, VD_FF),
    V_NORM("visual.merger.ln_q", "v.post_ln", VD_C),
    V_LINEAR("visual.merger.mlp.0", "mm.0", VD_MERGED, VD_MERGED),
    V_LINEAR("visual.merger.mlp.2", "mm.2", VD_TEXT, VD_MERGED),
    {.hf = NULL},
};
/* Deepstack mergers; Qwen3-Omni uses the second spelling. */
#define DEEP(hf, omni, what, gguf, flags, ...) \
    {"visual.deepstack_merger_list.%d." hf "." what "|visual.merger_list.%d." omni "." what, "v.deepstack.%d." gguf "." what, {__VA_ARGS__}, 0, flags | VR_DEEP}
static const struct vision_row qwen3_rows[] = {
    V_FRAMES("visual.patch_embed.proj"),
    {"visual.pos_embed.weight", "v.position_embd.weight", {VD_POS, VD_C}, 0, VR_F32},
    V_NORM(VB("norm1"), "v.blk.%d.ln1", VD_C),
    V_NORM(VB("norm2"), "v.blk.%d.ln2", VD_C),
    V_LINEAR(VB("attn.qkv"), "v.blk.%d.attn_qkv", VD_QKV, VD_C),
    V_LINEAR(VB("attn.proj"), "v.blk.%d.attn_out", VD_C, VD_C),
    V_LINEAR(VB("mlp.linear_fc1"), "v.blk.%d.ffn_up", VD_FF, VD_C),
    V_LINEAR(VB("mlp.linear_fc2"), "v.blk.%d.ffn_down", VD_C, VD_FF),
    DEEP("norm", "ln_q", "weight", "norm", VR_F32, VD_MERGED),
    DEEP("norm", "ln_q", "bias", "norm", VR_F32, VD_MERGED),
    DEEP("linear_fc1", "mlp.0", "weight", "fc1", 0, VD_MERGED, VD_MERGED),
    DEEP("linear_fc1", "mlp.0", "bias", "fc1", VR_F32, VD_MERGED),
    DEEP("linear_fc2", "mlp.2", "weight", "fc2", 0, VD_TEXT, VD_MERGED),
    DEEP("linear_fc2", "mlp.2", "bias", "fc2", VR_F32, VD_TEXT),
    {"visual.merger.norm.weight|visual.merger.ln_q.weight", "v.post_ln.weight", {VD_C}, 0, VR_F32},
    {"visual.merger.norm.bias|visual.merger.ln_q.bias", "v.post_ln.bias", {VD_C}, 0, VR_F32},
    {"visual.merger.linear_fc1.weight|visual.merger.mlp.0.weight", "mm.0.weight", {VD_MERGED, VD_MERGED}, 0, 0},
    {"visual.merger.linear_fc1.bias|visual.merger.mlp.0.bias", "mm.0.bias", {VD_MERGED}, 0, VR_F32},
    {"visual.merger.linear_fc2.weight|visual.merger.mlp.2.weight", "mm.2.weight", {VD_TEXT, VD_MERGED}, 0, 0},
    {"visual.merger.linear_fc2.bias|visual.merger.mlp.2.bias", "mm.2.bias", {VD_TEXT}, 0, VR_F32},
    {.hf = NULL},
};
static const struct vision_row glm_rows[] = {
    V_FRAMES("visual.patch_embed.proj"),
    {"visual.embeddings.position_embedding.weight", "v.position_embd.weight", {VD_POS, VD_C}, 0, VR_F32 | VR_OPT},
    {"visual.post_conv_layernorm.weight", "v.norm_embd.weight", {VD_C}, 0, VR_F32 | VR_OPT},
    V_NORM(VB("norm1"), "v.blk.%d.ln1", VD_C),
    V_NORM(VB("norm2"), "v.blk.%d.ln2", VD_C),
    {VB("attn.q_norm.weight"), "v.blk.%d.attn_q_norm.weight", {VD_HEAD}, 0, VR_F32 | VR_OPT},
    {VB("attn.k_norm.weight"), "v.blk.%d.attn_k_norm.weight", {VD_HEAD}, 0, VR_F32 | VR_OPT},
    V_LINEAR(VB("attn.qkv"), "v.blk.%d.attn_qkv", VD_QKV, VD_C),
    V_LINEAR(VB("attn.proj"), "v.blk.%d.attn_out", VD_C, VD_C),
    V_LINEAR(VB("mlp.gate_proj"), "v.blk.%d.ffn_gate", VD_FF, VD_C),
    V_LINEAR(VB("mlp.up_proj"), "v.blk.%d.ffn_up", VD_FF, VD_C),
    V_LINEAR(VB("mlp.down_proj"), "v.blk.%d.ffn_down", VD_C, VD_FF),
    V_NORM("visual.post_layernorm", "v.post_ln", VD_C),
    {"visual.downsample.weight", "mm.patch_merger.weight", {VD_TEXT, VD_C, VD_MERGE, VD_MERGE}, 0, VR_CONV},
    {"visual.downsample.bias", "mm.patch_merger.bias", {VD_TEXT}, 0, VR_F32},
    V_LINEAR("visual.merger.proj", "mm.model.fc", VD_TEXT, VD_TEXT),
    V_NORM("visual.merger.post_projection_norm", "mm.post_norm", VD_TEXT),
    V_LINEAR("visual.merger.gate_proj", "mm.gate", VD_PROJ, VD_TEXT),
    V_LINEAR("visual.merger.up_proj", "mm.up", VD_PROJ, VD_TEXT),
    V_LINEAR("visual.merger.down_proj", "mm.down", VD_TEXT, VD_PROJ),
    {.hf = NULL},
};
#define QWEN_IMAGE V_BICUBIC, {VP_IMAGE, VD_PATCH, "patch_size", NULL}, {VP_IMAGE, VD_MERGE, "merge_size", NULL}, V_THETA("10000")
static const struct vision_fixed qwen2_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_QUICK},
    QWEN_IMAGE,
    {.field = NULL},
};
static const struct vision_fixed qwen25_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_SILU},
    {VP_TOWER, 0, "window_size", "112"},
    QWEN_IMAGE,
    {.field = NULL},
};
static const struct vision_fixed qwen3_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_TANH},
    QWEN_IMAGE,
    {.field = NULL},
};
static const struct vision_fixed glm_fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_SILU},
    QWEN_IMAGE,
    {.field = NULL},
};
// clang-format on

/* Reads the hyperparameters common to these towers: kernels over two frames, merged squares of
 * patches. */
static int read_blocks(struct vision *v, const struct json *cfg, struct err *e) {
    int64_t frames;
    TRY(vision_number(cfg, "depth", v->kind->usual.blocks, &v->blocks, e));
    TRY(vision_number(cfg, "num_heads", v->kind->usual.heads, &v->heads, e));
    TRY(vision_number(cfg, "spatial_merge_size", 2, &v->merge, e));
    TRY(vision_number(cfg, "temporal_patch_size", 2, &frames, e));
    if (frames != 2)
        return err_set(e, ERR_DATA,
                       "vision_config.temporal_patch_size is %lld, but projector "
                       "files hold two frames",
                       (long long)frames);
    v->d[VD_MERGE] = v->merge;
    v->d[VD_MERGED] = v->merge * v->merge * v->d[VD_C];
    v->d[VD_HEAD] = v->d[VD_C] / v->heads;
    return 0;
}

/* Returns ERR_DATA unless the tower's output is as wide as the language model. */
static int check_out(const struct vision *v, const struct json *cfg, const char *name,
                     struct err *e) {
    int64_t text;
    TRY(vision_number(cfg, name, v->d[VD_TEXT], &text, e));
    if (text == v->d[VD_TEXT]) return 0;
    return err_set(e, ERR_DATA, "vision_config.%s is %lld, but the language model is %lld wide",
                   name, (long long)text, (long long)v->d[VD_TEXT]);
}

/* Reads Qwen2-VL's hyperparameters. Its "hidden_size" is the language model's width, which
 * llama.cpp's converter writes as feed_forward_length. */
static int qwen2_read(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    const double ratio = json_num(json_get(cfg, "mlp_ratio"), 4);
    TRY(vision_number(cfg, "embed_dim", 1280, &v->d[VD_C], e));
    if (!(ratio > 0 && ratio <= 64))
        return err_set(e, ERR_DATA, "vision_config.mlp_ratio is %g, which is out of range", ratio);
    v->d[VD_FF] = (int64_t)((double)v->d[VD_C] * ratio);
    TRY(read_blocks(v, cfg, e));
    TRY(check_out(v, cfg, "hidden_size", e));
    v->ff_key = v->d[VD_TEXT];
    v->image_size = 560;
    v->eps = json_num(json_get(hfdir_config(dir), "rms_norm_eps"), 1e-6);
    return 0;
}

/* Reads the tower of Qwen 2.5 VL. */
static int qwen25_read(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    int64_t at = -1, n = 0;
    TRY(read_blocks(v, cfg, e));
    TRY(check_out(v, cfg, "out_hidden_size", e));
    for (const struct json *j = json_first(json_get(cfg, "fullatt_block_indexes")); j;
         j = json_next(j), n++) {
        const int64_t before = at;
        if (!json_i64(j, &at) || at <= before || (v->full_every && at - before != v->full_every))
            return err_set(e, ERR_DATA,
                           "vision_config.fullatt_block_indexes are not equally spaced blocks, "
                           "as projector files describe them");
        v->full_every = at - before;
    }
    if (!n) return err_set(e, ERR_DATA, "vision_config.fullatt_block_indexes is missing");
    if (n != v->blocks / v->full_every)
        return err_set(e, ERR_DATA,
                       "%s/config.json: vision_config.fullatt_block_indexes names %lld of %lld "
                       "blocks: projector files need every block whose number is a multiple of "
                       "%lld, counted from 1",
                       hfdir_path(dir), (long long)n, (long long)v->blocks,
                       (long long)v->full_every);
    v->image_size = 560;
    v->silu = true;
    v->eps = json_num(json_get(hfdir_config(dir), "rms_norm_eps"), 1e-6);
    return 0;
}

/* Reads which blocks' outputs are also merged. ERR_DATA: there is no such block. */
static int qwen_read_deepstack(struct vision *v, struct hfdir *dir, const struct json *cfg,
                               struct err *e) {
    int64_t before = -1;
    const struct json *list = json_get(cfg, "deepstack_visual_indexes");
    for (const struct json *j = json_first(list); j; j = json_next(j))
        if (v->n_deep == VISION_MAX_DEEP || !json_i64(j, &v->deep[v->n_deep]) ||
            v->deep[v->n_deep] <= before || (before = v->deep[v->n_deep++]) >= v->blocks)
            return err_set(
                e, ERR_DATA,
                "%s/config.json: vision_config.deepstack_visual_indexes is not a list of "
                "the tower's %lld blocks in ascending order",
                hfdir_path(dir), (long long)v->blocks);
    return 0;
}

/* Reads the tower of Qwen 3 VL. */
static int qwen3_read(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    TRY(read_blocks(v, cfg, e));
    TRY(vision_number(cfg, "num_position_embeddings", 0, &v->d[VD_POS], e));
    TRY(check_out(v, cfg, "out_hidden_size", e));
    v->image_size = (int64_t)(sqrt((double)v->d[VD_POS]) * (double)v->d[VD_PATCH]);
    v->eps = json_num(hfdir_hparam(dir, "rms_norm_eps"), 1e-6);
    v->gelu = true;
    v->merge_key = v->merge;
    return qwen_read_deepstack(v, dir, cfg, e);
}

/* Writes which blocks' outputs are merged too (deepstack). */
static void qwen3_keys(const struct vision *v, struct gguf_w *w) {
    uint8_t deep[VISION_MAX_BLOCKS] = {0};
    for (int i = 0; i < v->n_deep; i++) deep[v->deep[i]] = 1;
    gguf_w_arr(w, "clip.vision.is_deepstack_layers", GV_BOOL, deep, (uint64_t)v->blocks);
}

/* Reads GLM's hyperparameters. The blocks' feed-forward networks are as wide as the language model;
 * intermediate_size belongs to the projector. */
static int glm_read(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    (void)dir;
    TRY(read_blocks(v, cfg, e));
    TRY(check_out(v, cfg, "out_hidden_size", e));
    TRY(vision_number(cfg, "image_size", v->kind->usual.image, &v->image_size, e));
    v->d[VD_PROJ] = v->ff_key = v->d[VD_FF];
    v->d[VD_FF] = v->d[VD_TEXT];
    v->d[VD_POS] = (v->image_size / v->d[VD_PATCH]) * (v->image_size / v->d[VD_PATCH]);
    v->eps = json_num(json_get(cfg, "rms_norm_eps"), 1e-5);
    v->silu = true;
    return 0;
}

static const char *const qwen2_classes[] = {"Qwen2VLForConditionalGeneration", NULL};
static const char *const qwen25_classes[] = {"Qwen2_5_VLForConditionalGeneration", NULL};
static const char *const qwen3_classes[] = {"Qwen3VLForConditionalGeneration",
                                            "Qwen3VLMoeForConditionalGeneration",
                                            "Qwen3_5ForConditionalGeneration",
                                            "Qwen3_5MoeForConditionalGeneration",
                                            "Qwen3_5ForCausalLM",
                                            "Qwen3_5MoeForCausalLM",
                                            "Qwen3OmniMoeForConditionalGeneration",
                                            "Qwen3OmniMoeThinkerForConditionalGeneration",
                                            NULL};
static const char *const glm_classes[] = {"Glm4vForConditionalGeneration",
                                          "Glm4vMoeForConditionalGeneration", NULL};
#define CLIP_MEAN                                                                                  \
    { .48145466f, .4578275f, .40821073f }
#define CLIP_STD                                                                                   \
    { .26862954f, .26130258f, .27577711f }
const struct vision_kind vision_qwen2 = {.name = "Qwen2-VL",
                                         .classes = qwen2_classes,
                                         .projector = "qwen2vl_merger",
                                         .rows = qwen2_rows,
                                         .fixed = qwen2_fixed,
                                         .mean = CLIP_MEAN,
                                         .std = CLIP_STD,
                                         .usual = {0, 5120, 32, 16, 0, 14},
                                         .limits = VL_PIXELS,
                                         .read = qwen2_read};
const struct vision_kind vision_qwen25 = {.name = "Qwen2.5-VL",
                                          .classes = qwen25_classes,
                                          .projector = "qwen2.5vl_merger",
                                          .rows = qwen25_rows,
                                          .fixed = qwen25_fixed,
                                          .mean = CLIP_MEAN,
                                          .std = CLIP_STD,
                                          .usual = {0, 3420, 32, 16, 0, 14},
                                          .limits = VL_PIXELS,
                                          .read = qwen25_read};
const struct vision_kind vision_qwen3 = {.name = "Qwen3-VL and Qwen3.5",
                                         .classes = qwen3_classes,
                                         .projector = "qwen3vl_merger",
                                         .rows = qwen3_rows,
                                         .fixed = qwen3_fixed,
                                         .mean = {.5f, .5f, .5f},
                                         .std = {.5f, .5f, .5f},
                                         .clip_colours = true,
                                         .usual = {1152, 4304, 27, 16, 0, 16},
                                         .limits = VL_PIXELS,
                                         .read = qwen3_read,
                                         .keys = qwen3_keys};
const struct vision_kind vision_glm4v = {.name = "GLM-4.xV",
                                         .classes = glm_classes,
                                         .projector = "glm4v",
                                         .rows = glm_rows,
                                         .fixed = glm_fixed,
                                         .mean = CLIP_MEAN,
                                         .std = CLIP_STD,
                                         .usual = {1536, 13696, 24, 12, 336, 14},
                                         .limits = VL_SIZE,
                                         .read = glm_read};
