// SPDX-License-Identifier: MIT
/* convert/vision.c - vision towers of Qwen3.5 and Gemma 4. A new tower needs a table of rows, a
 * function that reads its hyperparameters and a line in `kinds`. */
#include "convert/vision.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/log.h"

// clang-format off
#define LINEAR(hf, gguf, out, in) {hf ".weight", gguf ".weight", {out, in}, 0, 0}, {hf ".bias", gguf ".bias", {out}, 0, VR_F32}
#define NORM(hf, gguf, n) {hf ".weight", gguf ".weight", {n}, 0, VR_F32}, {hf ".bias", gguf ".bias", {n}, 0, VR_F32}
static const struct vision_row qwen_rows[] = {
    {"visual.patch_embed.proj.weight", "v.patch_embd.weight", {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, VX_FRAME_0, VR_CONV},
    {"visual.patch_embed.proj.weight", "v.patch_embd.weight.1", {VD_C, VD_RGB, VD_PATCH, VD_PATCH}, VX_FRAME_1, VR_CONV},
    {"visual.patch_embed.proj.bias", "v.patch_embd.bias", {VD_C}, 0, VR_F32},
    {"visual.pos_embed.weight", "v.position_embd.weight", {VD_POS, VD_C}, 0, VR_F32},
    NORM("visual.blocks.%d.norm1", "v.blk.%d.ln1", VD_C),
    NORM("visual.blocks.%d.norm2", "v.blk.%d.ln2", VD_C),
    LINEAR("visual.blocks.%d.attn.qkv", "v.blk.%d.attn_qkv", VD_QKV, VD_C),
    LINEAR("visual.blocks.%d.attn.proj", "v.blk.%d.attn_out", VD_C, VD_C),
    LINEAR("visual.blocks.%d.mlp.linear_fc1", "v.blk.%d.ffn_up", VD_FF, VD_C),
    LINEAR("visual.blocks.%d.mlp.linear_fc2", "v.blk.%d.ffn_down", VD_C, VD_FF),
    {"visual.deepstack_merger_list.%d.norm.weight", "v.deepstack.%d.norm.weight", {VD_MERGED}, 0, VR_F32 | VR_DEEP},
    {"visual.deepstack_merger_list.%d.norm.bias", "v.deepstack.%d.norm.bias", {VD_MERGED}, 0, VR_F32 | VR_DEEP},
    {"visual.deepstack_merger_list.%d.linear_fc1.weight", "v.deepstack.%d.fc1.weight", {VD_MERGED, VD_MERGED}, 0, VR_DEEP},
    {"visual.deepstack_merger_list.%d.linear_fc1.bias", "v.deepstack.%d.fc1.bias", {VD_MERGED}, 0, VR_F32 | VR_DEEP},
    {"visual.deepstack_merger_list.%d.linear_fc2.weight", "v.deepstack.%d.fc2.weight", {VD_TEXT, VD_MERGED}, 0, VR_DEEP},
    {"visual.deepstack_merger_list.%d.linear_fc2.bias", "v.deepstack.%d.fc2.bias", {VD_TEXT}, 0, VR_F32 | VR_DEEP},
    NORM("visual.merger.norm", "v.post_ln", VD_C),
    LINEAR("visual.merger.linear_fc1", "mm.0", VD_MERGED, VD_MERGED),
    LINEAR("visual.merger.linear_fc2", "mm.2", VD_TEXT, VD_MERGED),
    {.hf = NULL},
};

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
// clang-format on

static int read_number(const struct json *cfg, const char *names, int64_t otherwise, int64_t *out,
                       struct err *e) {
    const struct json *j = NULL;
    char name[64];
    for (const char *s = names; !j && s; s = strchr(s, '|') ? strchr(s, '|') + 1 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(s, "|"), s);
        j = json_get(cfg, name);
    }
    *out = otherwise;
    if (!j && otherwise > 0) return 0;
    if (json_i64(j, out) && *out > 0 && *out <= 1 << 20) return 0;
    return err_set(e, ERR_DATA, "vision_config.%.*s is missing or not a valid number",
                   (int)strcspn(names, "|"), names);
}

static int qwen_read_deepstack(struct vision *v, const struct json *cfg, struct err *e) {
    const struct json *list = json_get(cfg, "deepstack_visual_indexes");
    for (const struct json *j = json_first(list); j; j = json_next(j))
        if (v->n_deep == VISION_MAX_DEEP || !json_i64(j, &v->deep[v->n_deep]) ||
            v->deep[v->n_deep] < 0 || v->deep[v->n_deep++] >= v->blocks)
            return err_set(e, ERR_DATA,
                           "vision_config.deepstack_visual_indexes is not a list of "
                           "blocks");
    return 0;
}

static int qwen_read(struct vision *v, const struct hfdir *dir, const struct json *cfg,
                     struct err *e) {
    int64_t frames, text;
    TRY(read_number(cfg, "depth", 0, &v->blocks, e));
    TRY(read_number(cfg, "num_heads", 0, &v->heads, e));
    TRY(read_number(cfg, "num_position_embeddings", 0, &v->d[VD_POS], e));
    TRY(read_number(cfg, "spatial_merge_size", 2, &v->merge, e));
    TRY(read_number(cfg, "temporal_patch_size", 2, &frames, e));
    TRY(read_number(cfg, "out_hidden_size", v->d[VD_TEXT], &text, e));
    if (frames != 2)
        return err_set(e, ERR_DATA,
                       "vision_config.temporal_patch_size is %lld, but projector "
                       "files hold two frames",
                       (long long)frames);
    if (text != v->d[VD_TEXT])
        return err_set(e, ERR_DATA,
                       "vision_config.out_hidden_size is %lld, but the language model is %lld wide",
                       (long long)text, (long long)v->d[VD_TEXT]);
    v->d[VD_MERGED] = v->merge * v->merge * v->d[VD_C];
    v->image_size = (int64_t)(sqrt((double)v->d[VD_POS]) * (double)v->d[VD_PATCH]);
    v->eps = json_num(hfdir_hparam(dir, "rms_norm_eps"), 1e-6);
    return qwen_read_deepstack(v, cfg, e);
}

static void qwen_keys(const struct vision *v, struct gguf_w *w) {
    uint8_t deep[VISION_MAX_BLOCKS] = {0};
    for (int i = 0; i < v->n_deep; i++) deep[v->deep[i]] = 1;
    gguf_w_bool(w, "clip.use_gelu", true);
    gguf_w_u32(w, "clip.vision.spatial_merge_size", (uint32_t)v->merge);
    gguf_w_arr(w, "clip.vision.is_deepstack_layers", GV_BOOL, deep, (uint64_t)v->blocks);
}

/* Reads the hyperparameters of a Gemma tower. It scales images of any size, so image_size is a
 * constant that other programs expect. */
static int gemma_read(struct vision *v, const struct hfdir *dir, const struct json *cfg,
                      struct err *e) {
    int64_t *d = v->d;
    (void)dir;
    TRY(read_number(cfg, "num_hidden_layers", 0, &v->blocks, e));
    TRY(read_number(cfg, "num_attention_heads", 0, &v->heads, e));
    TRY(read_number(cfg, "num_key_value_heads", v->heads, &v->kv_heads, e));
    TRY(read_number(cfg, "head_dim", d[VD_C] / v->heads, &d[VD_HEAD], e));
    TRY(read_number(cfg, "position_embedding_size", 0, &d[VD_POS], e));
    d[VD_Q] = v->heads * d[VD_HEAD];
    d[VD_KV] = v->kv_heads * d[VD_HEAD];
    v->clip = json_bool(json_get(cfg, "use_clipped_linears"), false);
    v->standardize = json_bool(json_get(cfg, "standardize"), false);
    v->image_size = 224;
    v->eps = json_num(json_get(cfg, "layer_norm_eps"), 1e-6);
    return 0;
}

static const char *const qwen_archs[] = {"qwen35", "qwen35moe", NULL};
static const char *const gemma_archs[] = {"gemma4", NULL};
static const struct vision_kind kinds[] = {
    {qwen_archs,
     "qwen3vl_merger",
     "clip.projector_type",
     qwen_rows,
     {.5f, .5f, .5f},
     {.5f, .5f, .5f},
     qwen_read,
     qwen_keys},
    {gemma_archs,
     "gemma4v",
     "clip.vision.projector_type",
     gemma_rows,
     {0, 0, 0},
     {1, 1, 1},
     gemma_read,
     NULL},
};

const struct vision_kind *vision_find(const char *arch) {
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (const char *const *a = kinds[i].archs; *a; a++)
            if (strcmp(*a, arch) == 0) return &kinds[i];
    return NULL;
}

void vision_list(struct buf *out) {
    const char *between = "";
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (const char *const *a = kinds[i].archs; *a; a++) {
            buf_fmt(out, "%s%s", between, *a);
            between = ", ";
        }
}

static bool read_three(const struct json *list, float out[3]) {
    int n = 0;
    for (const struct json *j = json_first(list); j && n < 4; j = json_next(j), n++) {
        if (n == 3 || json_type(j) != JSON_NUM) return false;
        out[n] = (float)json_num(j, 0);
    }
    return n == 3;
}

/* Reads mean and standard deviation of the colours from preprocessor_config.json, which
 * processor_config.json overrides. */
static int preprocessor(struct vision *v, struct hfdir *dir, struct err *e) {
    static const char *const name[] = {"processor_config.json", "preprocessor_config.json"};
    for (size_t i = 0; i < COUNT_OF(name); i++) {
        const struct json *j;
        TRY(hfdir_json(dir, name[i], &j, e));
        if (json_get(j, "image_processor")) j = json_get(j, "image_processor");
        const struct json *mean = json_get(j, "image_mean"), *std = json_get(j, "image_std");
        if (!mean && !std) continue;
        if (read_three(mean, v->mean) && read_three(std, v->std)) return 0;
        return err_set(e, ERR_DATA, "%s/%s: image_mean and image_std are not three numbers each",
                       hfdir_path(dir), name[i]);
    }
    memcpy(v->mean, v->kind->mean, sizeof v->mean);
    memcpy(v->std, v->kind->std, sizeof v->std);
    log_warn("%s has no preprocessor_config.json: writing mean %g and deviation %g for colours, "
             "as in the published models",
             hfdir_path(dir), (double)v->mean[0], (double)v->std[0]);
    return 0;
}

int vision_read(struct vision *v, const struct vision_kind *k, struct hfdir *dir, struct err *e) {
    const struct json *cfg = json_get(hfdir_config(dir), "vision_config");
    memset(v, 0, sizeof *v);
    v->kind = k;
    if (json_type(cfg) != JSON_OBJ)
        return err_set(e, ERR_DATA,
                       "%s/config.json has no vision_config: the model has no vision tower, so "
                       "there is nothing for --mmproj to write",
                       hfdir_path(dir));
    int64_t *d = v->d;
    d[VD_ONE] = 1;
    d[VD_TWO] = 2;
    d[VD_RGB] = 3;
    if (!json_i64(hfdir_hparam(dir, "hidden_size"), &d[VD_TEXT]) || d[VD_TEXT] < 1)
        return err_set(e, ERR_DATA, "%s/config.json: hidden_size is missing", hfdir_path(dir));
    TRY(read_number(cfg, "hidden_size", 0, &d[VD_C], e));
    TRY(read_number(cfg, "intermediate_size", 0, &d[VD_FF], e));
    TRY(read_number(cfg, "patch_size", 0, &d[VD_PATCH], e));
    if (d[VD_PATCH] > 1024) return err_set(e, ERR_DATA, "vision_config.patch_size is too large");
    d[VD_QKV] = 3 * d[VD_C];
    d[VD_PIXELS] = 3 * d[VD_PATCH] * d[VD_PATCH];
    TRY(k->read(v, dir, cfg, e));
    if (v->blocks > VISION_MAX_BLOCKS)
        return err_set(e, ERR_DATA, "the vision tower has more than %d blocks", VISION_MAX_BLOCKS);
    return preprocessor(v, dir, e);
}

void vision_keys(const struct vision *v, struct gguf_w *w) {
    static const char p[] = "clip.vision.";
    const struct {
        const char *key;
        int64_t n;
    } row[] = {{"projection_dim", v->d[VD_TEXT]},    {"image_size", v->image_size},
               {"patch_size", v->d[VD_PATCH]},       {"embedding_length", v->d[VD_C]},
               {"feed_forward_length", v->d[VD_FF]}, {"block_count", v->blocks},
               {"attention.head_count", v->heads}};
    gguf_w_bool(w, "clip.has_vision_encoder", true);
    gguf_w_bool(w, "clip.has_audio_encoder", false);
    gguf_w_str(w, v->kind->projector_key, v->kind->projector);
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", p, row[i].key);
        gguf_w_u32(w, key, (uint32_t)row[i].n);
    }
    gguf_w_arr(w, "clip.vision.image_mean", GV_F32, v->mean, 3);
    gguf_w_arr(w, "clip.vision.image_std", GV_F32, v->std, 3);
    gguf_w_f32(w, "clip.vision.attention.layer_norm_epsilon", (float)v->eps);
    if (v->kind->keys) v->kind->keys(v, w);
}
