// SPDX-License-Identifier: MIT
/* convert/tower_pixtral.c - vision towers of Pixtral and Mistral 3. An image becomes rows of
 * patches, each followed by the token [IMG_BREAK]. The token's embedding is stored in the projector
 * file. */
#include <string.h>

#include "convert/vision.h"

// clang-format off
#define PL(x) "vision_tower.transformer.layers.%d." x
static const struct vision_row rows[] = {
    V_PATCH("vision_tower.patch_conv"),
    V_NORM("vision_tower.ln_pre", "v.pre_ln", VD_C),
    V_NORM(PL("attention_norm"), "v.blk.%d.ln1", VD_C),
    V_NORM(PL("ffn_norm"), "v.blk.%d.ln2", VD_C),
    {PL("attention.q_proj.weight"), "v.blk.%d.attn_q.weight", {VD_C, VD_C}, VX_ROPE, 0},
    {PL("attention.k_proj.weight"), "v.blk.%d.attn_k.weight", {VD_C, VD_C}, VX_ROPE, 0},
    {PL("attention.v_proj.weight"), "v.blk.%d.attn_v.weight", {VD_C, VD_C}, 0, 0},
    {PL("attention.o_proj.weight"), "v.blk.%d.attn_out.weight", {VD_C, VD_C}, 0, 0},
    {PL("feed_forward.gate_proj.weight"), "v.blk.%d.ffn_gate.weight", {VD_FF, VD_C}, 0, 0},
    {PL("feed_forward.up_proj.weight"), "v.blk.%d.ffn_up.weight", {VD_FF, VD_C}, 0, 0},
    {PL("feed_forward.down_proj.weight"), "v.blk.%d.ffn_down.weight", {VD_C, VD_FF}, 0, 0},
    {"multi_modal_projector.norm.weight", "mm.input_norm.weight", {VD_C}, 0, VR_F32 | VR_OPT},
    {"multi_modal_projector.patch_merger.merging_layer.weight", "mm.patch_merger.weight", {VD_C, VD_MERGED}, 0, VR_CONV | VR_OPT},
    V_LINEAR("multi_modal_projector.linear_1", "mm.1", VD_TEXT, VD_C),
    V_LINEAR("multi_modal_projector.linear_2", "mm.2", VD_TEXT, VD_TEXT),
    {"embed_tokens.weight", "v.token_embd.img_break", {VD_TEXT}, VX_BREAK, VR_F32},
    {.hf = NULL},
};
static const struct vision_fixed fixed[] = {
    {VP_TOWER, 0, "hidden_act", VW_GELU "|" VW_SILU "|" VW_QUICK},
    {VP_ROOT, 0, "projector_hidden_act", VW_GELU},
    {VP_ROOT, 0, "vision_feature_layer", "-1"},
    {VP_ROOT, 0, "vision_feature_select_strategy", "full"},
    V_THETA("10000"),
    V_BICUBIC,
    {VP_IMAGE, VD_PATCH, "patch_size", NULL},
    {.field = NULL},
};
// clang-format on

/* Finds [IMG_BREAK] in a list of tokens whose texts are their members `text`, and sets *out to the
 * member `number`. False: not found. */
static bool among(const struct json *list, const char *text, const char *number, int64_t *out) {
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        const char *s = json_str(json_get(j, text));
        if (s && strcmp(s, "[IMG_BREAK]") == 0) return json_i64(json_get(j, number), out);
    }
    return false;
}

/* Finds the id of the token [IMG_BREAK]. ERR_DATA: the tokenizer has none. config.json alone has no
 * tokenizer, and suffices for sizes. */
static int find_break(struct vision *v, struct hfdir *dir, struct err *e) {
    const struct json *j;
    if (hfdir_n_tensors(dir) == 0) return 0;
    TRY(hfdir_json(dir, "tokenizer.json", &j, e));
    if (j && among(json_get(j, "added_tokens"), "content", "id", &v->line_break)) return 0;
    TRY(hfdir_json(dir, "tekken.json", &j, e));
    if (j && among(json_get(j, "special_tokens"), "token_str", "rank", &v->line_break)) return 0;
    return err_set(e, ERR_DATA,
                   "%s: the tokenizer has no token [IMG_BREAK], which the vision tower needs",
                   hfdir_path(dir));
}

/* Refuses a config of Llava that leaves out a value whose default in transformers is not
 * supported. */
static int check_defaults(struct hfdir *dir, struct err *e) {
    static const char *const field[][3] = {{"vision_feature_layer", "-2", "-1"},
                                           {"vision_feature_select_strategy", "default", "full"}};
    const struct json *root = hfdir_config(dir);
    const char *cls = json_str(json_first(json_get(root, "architectures")));
    if (!cls || strcmp(cls, "LlavaForConditionalGeneration") != 0) return 0;
    for (size_t i = 0; i < COUNT_OF(field); i++)
        if (!json_get(root, field[i][0]))
            return err_set(e, ERR_DATA,
                           "%s/config.json has no %s, whose default is %s: for a tower of Pixtral "
                           "only %s is supported",
                           hfdir_path(dir), field[i][0], field[i][1], field[i][2]);
    return 0;
}

/* Reads the side that larger images are shrunk to, which is image_size in projector files. */
static int read_side(struct vision *v, struct hfdir *dir, struct err *e) {
    const int64_t most = v->image_size;
    TRY(vision_size(v, dir, VS_EDGE | VS_SQUARE, most < 1024 ? most : 1024, &v->image_size, e));
    if (v->image_size <= most) return 0;
    return err_set(e, ERR_DATA,
                   "%s: the image processor's size is %lld, but the tower has "
                   "positions for images of %lld pixels",
                   hfdir_path(dir), (long long)v->image_size, (long long)most);
}

/* Reads the tower's sizes and options and finds the token that ends a row. */
static int read_config(struct vision *v, struct hfdir *dir, const struct json *cfg, struct err *e) {
    const char *act = json_str(json_get(cfg, "hidden_act"));
    const struct json *merge = json_get(hfdir_config(dir), "spatial_merge_size");
    const char *type = json_str(json_get(cfg, "model_type"));
    if (type && strcmp(type, "pixtral") != 0)
        return err_set(e, ERR_DATA, "vision_config.model_type is %s, not pixtral", type);
    TRY(check_defaults(dir, e));
    TRY(vision_transformer(v, cfg, e));
    TRY(read_side(v, dir, e));
    TRY(vision_number(hfdir_config(dir), "spatial_merge_size", 1, &v->merge, e));
    v->merge_key = merge ? v->merge : 0;
    v->d[VD_MERGED] = v->merge * v->merge * v->d[VD_C];
    v->d[VD_HEAD] = v->d[VD_C] / v->heads;
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-5);
    v->gelu = !act || vision_one_of(act, VW_GELU);
    v->silu = vision_one_of(act, VW_SILU);
    return find_break(v, dir, e);
}

static const char *const classes[] = {"Mistral3ForConditionalGeneration",
                                      "LlavaForConditionalGeneration", NULL};
const struct vision_kind vision_pixtral = {.name = "Pixtral and Mistral 3",
                                           .classes = classes,
                                           .projector = "pixtral",
                                           .rows = rows,
                                           .fixed = fixed,
                                           .mean = {.48145466f, .4578275f, .40821073f},
                                           .std = {.26862954f, .26130258f, .27577711f},
                                           .usual = {1024, 4096, 24, 16, 1024, 16},
                                           .read = read_config};
