// SPDX-License-Identifier: MIT
/* tests/unit/test_mmproj.c - projector files, compared with files made with the gguf package's
 * names, keys and quantizer for the same towers (tests/oracle/mmproj.py): every tensor's name,
 * shape, type and bytes and every key, in both directions, for every output type. Also folders
 * without a tower, or with a tower that contradicts the config. */
#include "convert/mmproj.h"
#include "tests/unit/golden.h"
#include "tests/unit/ref_compare.h"
#include "tests/unit/st_build.h"
#include "base/io.h"
#include "base/out.h"

static int to_file(const char *folder, const char *type, struct mmproj_report *r, struct err *e) {
    struct convert_opts o = {.src = folder, .type = type, .overwrite = true};
    return mmproj_run(&o, tmp_path("mm.gguf"), r, e);
}

static void compare(const char *folder, const char *expected) {
    static const char *const type[] = {"f32", "f16", "bf16", "q8_0"};
    struct err e;
    struct json *want = NULL;
    CHECK_OK(json_read(&want, expected, 1 << 24, &e));
    const struct json *meta = json_get(want, "metadata");
    for (size_t i = 0; i < COUNT_OF(type) && want; i++) {
        const struct json *w = json_get(json_get(want, "types"), type[i]);
        const struct json *tensors = json_get(w, "tensors");
        if (!w) continue; /* not every golden file has all types */
        struct mmproj_report r;
        struct gguf *g = NULL;
        CHECK_OK(to_file(folder, type[i], &r, &e));
        CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
        if (!g || !tensors) break;
        CHECK(json_len(tensors) >= 10);
        CHECK_EQ_I64(gguf_n_tensors(g), json_len(tensors));
        CHECK_EQ_I64(r.n_tensors, json_len(tensors));
        CHECK_EQ_I64(r.size_bytes, gguf_file_bytes(g));
        for (const struct json *t = json_first(tensors); t; t = json_next(t)) check_tensor(g, t);
        for (const struct json *k = json_first(meta); k; k = json_next(k))
            if (strcmp(json_name(k), "general.file_type") != 0) check_key(g, k);
        CHECK_EQ_I64(gguf_u64_or(g, "general.file_type", 99),
                     json_num(json_get(w, "file_type"), -1));
        for (int64_t k = 0; k < gguf_n_kv(g); k++)
            if (!json_get(meta, gguf_kv_at(g, k)->key))
                CHECK_FAIL("%s: key %s is not expected", folder, gguf_kv_at(g, k)->key);
        gguf_close(g);
    }
    json_free(want);
}

#define DIR "tests/golden/mmproj/"
#define MODELS "tests/golden/models/"
static void test_gemma4(void) {
    compare(DIR "gemma4", DIR "gemma4.json");
    compare(MODELS "gemma4moe", DIR "gemma4moe.json");
}
static void test_qwen(void) {
    compare(DIR "qwen3vl", DIR "qwen3vl.json");
    compare(MODELS "qwen35", DIR "qwen35.json");
}

static void add_bytes(void *ud, const char *name, enum qtype type, int n_dims, const int64_t ne[4],
                      uint64_t n_bytes) {
    (void)name, (void)type, (void)n_dims, (void)ne;
    *(uint64_t *)ud += n_bytes;
}

/* Compares the size that config.json alone gives with that of the BF16 file's tensors: in these
 * small towers, tensors that some folders lack are up to 8 % of all bytes. */
static void check_config_bytes(const char *folder) {
    char *path = io_join(folder, "config.json"), *text = NULL;
    size_t len = 0;
    uint64_t want = 0;
    struct hfdir *dir = NULL;
    struct mmproj_report r;
    struct err e;
    const struct convert_opts o = {
        .src = folder, .type = "bf16", .dry_run = true, .plan = add_bytes, .plan_ud = &want};
    CHECK_OK(mmproj_run(&o, "", &r, &e));
    CHECK_OK(io_read_file(&text, &len, path, 1 << 20, &e));
    CHECK_OK(hfdir_from_config(&dir, text, len, path, &e));
    const double have = dir ? (double)mmproj_config_bytes(NULL, dir) : 0;
    if (have < (double)want || have > 1.08 * (double)want)
        CHECK_FAIL("%s: %.0f bytes from config.json, expected %.0f", folder, have, (double)want);
    hfdir_close(dir);
    free(text);
    free(path);
}

/* Compares each tower with the published converter's output (tests/oracle/towers.py). */
static void test_towers(void) {
    static const char *const name[] = {"qwen2vl",    "qwen25vl",      "qwen3vlmoe", "gemma3",
                                       "gemma4u",    "mistral3",      "pixtral",    "smolvlm",
                                       "internvl",   "lfm2vl",        "glm4v",      "internvl-hf",
                                       "internvl6b", "internvl6b-hf", "kimivl",     "minicpmv"};
    for (size_t i = 0; i < COUNT_OF(name); i++) {
        char folder[64], expected[80];
        snprintf(folder, sizeof folder, "tests/golden/towers/%s", name[i]);
        snprintf(expected, sizeof expected, "%s.json", folder);
        compare(folder, expected);
        check_config_bytes(folder);
    }
}

static void test_auto_type_and_dry_run(void) {
    struct err e;
    struct mmproj_report r, dry;
    CHECK_OK(to_file(DIR "gemma4", NULL, &r, &e));
    CHECK_EQ_STR(r.type, "BF16");
    CHECK_EQ_STR(r.projector, "gemma4v");
    struct convert_opts o = {.src = DIR "gemma4", .dry_run = true};
    CHECK_OK(mmproj_run(&o, tmp_path("none.gguf"), &dry, &e));
    CHECK_EQ_I64(dry.size_bytes, r.size_bytes);
    CHECK(!io_exists(tmp_path("none.gguf")));
    o.dry_run = false;
    CHECK_ERR(mmproj_run(&o, tmp_path("mm.gguf"), &dry, &e), ERR_USAGE, "exists already");
}

static void test_refusals(void) {
    static const struct {
        const char *edit[3], *text;
    } bad[] = {
        {{"\"vision_config\"", "\"no_vision\"", NULL}, "no vision_config"},
        {{"\"depth\": 2", "\"depth\": 3", NULL}, "visual.blocks.2.norm1.weight (for v.blk.2.ln1"},
        {{"\"depth\": 2", "\"depth\": 1", NULL}, "is not part of a qwen3vl_merger vision tower"},
        {{"\"depth\": 2", "\"depth\": 9999", NULL}, "more than 512 blocks"},
        {{"\"depth\": 2", "\"depth\": -2", NULL}, "vision_config.depth"},
        {{"\"num_position_embeddings\": 16", "\"num_position_embeddings\": 25", NULL},
         "shape of tensor model.visual.pos_embed.weight"},
        {{"\"temporal_patch_size\": 2", "\"temporal_patch_size\": 3", NULL}, "two frames"},
        {{"\"out_hidden_size\": 128", "\"out_hidden_size\": 96", NULL}, "out_hidden_size is 96"},
    };
    struct err e;
    struct mmproj_report r;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *folder = golden_edited(MODELS "qwen35", MODELS "qwen35", bad[i].edit);
        CHECK_ERR(to_file(folder, NULL, &r, &e), ERR_DATA, bad[i].text);
    }
    CHECK_ERR(to_file(MODELS "qwen3", NULL, &r, &e), ERR_DATA, "only those of Qwen2-VL");
    CHECK_ERR(to_file(DIR "gemma4", "q4", &r, &e), ERR_USAGE, "--type q4");
}

/* Writes a copy of a tower's folder with one edit of each config; an edit of nothing: NULL; image
 * NULL: without the image processor's config. Returns its path. */
static const char *edited(const char *name, const char *from, const char *to, const char *image) {
    char folder[64], *path = xasprintf("%s/hf/preprocessor_config.json", tmp_dir);
    snprintf(folder, sizeof folder, "tests/golden/towers/%s", name);
    const char *edit[] = {from, to, NULL};
    const char *none[] = {NULL};
    const char *out = golden_edited(folder, folder, from ? edit : none);
    FILE *f = image ? fopen(path, "w") : NULL;
    CHECK((f != NULL) == (image != NULL));
    if (!image) (void)os_unlink(path);
    if (f) {
        fprintf(f, "{\"image_mean\": [0.5, 0.25, 0.125], \"image_std\": [0.5, 0.75, 0.25]%s}",
                image);
        fclose(f);
    }
    free(path);
    return out;
}

/* Values of configs that projector files cannot express, or that hone does not compute. */
static void test_unsupported_values(void) {
    static const struct {
        const char *name, *from, *to, *image, *text;
    } bad[] = {
        {"qwen3vlmoe", "gelu_pytorch_tanh", "relu", "", "vision_config.hidden_act is relu"},
        {"gemma3", "\"hidden_act\": \"gelu_pytorch_tanh", "\"hidden_act\": \"silu",
         ", \"image_seq_length\": 4", "hidden_act is silu"},
        {"smolvlm", "gelu_pytorch_tanh", "gelu", "", "only gelu_pytorch_tanh, gelu_new"},
        {"qwen25vl", "3\n  ],\n  \"hidden_act\": \"silu\"", "3\n  ],\n  \"hidden_act\": \"gelu\"",
         "", "only silu, swish"},
        {"qwen2vl", "quick_gelu", "gelu", "", "only quick_gelu"},
        {"glm4v", "\"depth\": 3,\n  \"hidden_act\": \"silu\"",
         "\"depth\": 3,\n  \"hidden_act\": \"gelu\"", "", "hidden_act is gelu"},
        {"pixtral", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "",
         "hidden_act is relu"},
        {"mistral3", "\"projector_hidden_act\": \"gelu\"", "\"projector_hidden_act\": \"relu\"", "",
         "config.json: projector_hidden_act is relu"},
        {"lfm2vl", "\"projector_hidden_act\": \"gelu\"", "\"projector_hidden_act\": \"relu\"", "",
         "projector_hidden_act is relu"},
        {"internvl-hf", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "",
         "hidden_act is relu"},
        {"minicpmv", "gelu_pytorch_tanh", "relu", ", \"scale_resolution\": 12",
         "hidden_act is relu"},
        {"minicpmv", "\"insert_layer_id\": 1", "\"insert_layer_id\": 1e300",
         ", \"scale_resolution\": 12", "insert_layer_id is not a valid integer"},
        {"minicpmv", "\"insert_layer_id\": 1", "\"insert_layer_id\": -1",
         ", \"scale_resolution\": 12", "insert_layer_id is -1"},
        {"lfm2vl", "\"model_type\"", "\"vision_feature_layer\": 1e300, \"model_type\"", "",
         "vision_feature_layer is not a valid integer"},
        {"qwen2vl", "\"mlp_ratio\": 2", "\"mlp_ratio\": 1e300", "", "mlp_ratio is 1e+300"},
        {"kimivl", "\"model_type\": \"moonvit\"", "\"hidden_act\": \"silu\"", "",
         "hidden_act is silu"},
        {"gemma3", "\"mm_tokens_per_image\": 4", "\"mm_tokens_per_image\": 16",
         ", \"image_seq_length\": 4", "image_seq_length is not 16"},
        {"gemma3", "\"mm_tokens_per_image\": 4", "\"mm_tokens_per_image\": 9", "", "is 9: only"},
        {"gemma3", NULL, NULL, ", \"size\": {\"height\": 32, \"width\": 16}", "json: size is {"},
        {"gemma3", NULL, NULL, ", \"size\": 64", "size is 64: only 16"},
        {"gemma3", NULL, NULL, ", \"size\": {\"shortest_edge\": 16}", "json: size is {"},
        {"mistral3", NULL, NULL, ", \"size\": {\"height\": 8, \"width\": 12}", "json: size is {"},
        {"smolvlm", NULL, NULL, ", \"size\": 64", "json: size is 64"},
        {"smolvlm", NULL, NULL, ", \"size\": {\"height\": 64, \"width\": 64}",
         "only {\"longest_edge\": N} is supported"},
        {"smolvlm", NULL, NULL, ", \"do_image_splitting\": null", "do_image_splitting is null"},
        {"minicpmv", NULL, NULL, ", \"scale_resolution\": 12, \"use_image_id\": false",
         "use_image_id is false"},
        {"qwen25vl", "\"window_size\": 112", "\"window_size\": 56", "", "window_size is 56"},
        {"qwen25vl", "1,\n   3\n", "1\n", "", "names 1 of 4 blocks"},
        {"mistral3", "\"vision_feature_layer\": -1", "\"vision_feature_layer\": -2", "",
         "vision_feature_layer is -2"},
        {"mistral3", "\"patch_size\": 4,\n  \"rope_parameters\": {\n   \"rope_theta\": 10000.0",
         "\"patch_size\": 4,\n  \"rope_parameters\": {\n   \"rope_theta\": 5000.0", "",
         "vision_config.rope_parameters.rope_theta is 5000.0"},
        {"pixtral", "\"vision_feature_layer\": -1", "\"unused\": -1", "",
         "no vision_feature_layer, whose default is -2"},
        {"pixtral", "\"vision_feature_select_strategy\": \"full\"", "\"unused\": 1", "",
         "no vision_feature_select_strategy, whose default is default"},
        {"qwen3vlmoe", "0,\n   2\n", "2,\n   0\n", "", "ascending order"},
        {"qwen3vlmoe", "\"num_heads\": 2", "\"num_heads\": 3", "", "3 heads do not divide"},
        {"qwen3vlmoe", NULL, NULL, ", \"resample\": 2", "preprocessor_config.json: resample is 2"},
        {"qwen3vlmoe", NULL, NULL, ", \"patch_size\": 14", "patch_size is 14"},
        {"mistral3", NULL, NULL, ", \"patch_size\": {\"height\": 14, \"width\": 14}",
         "only 4, as in config.json"},
        {"qwen2vl", NULL, NULL, ", \"do_resize\": false", "do_resize is false"},
        {"gemma3", NULL, NULL, ", \"do_pan_and_scan\": true", "do_pan_and_scan is true"},
        {"lfm2vl", NULL, NULL, ", \"do_image_splitting\": false", "do_image_splitting is false"},
        {"lfm2vl", NULL, NULL, ", \"use_thumbnail\": false", "use_thumbnail is false"},
        {"lfm2vl", NULL, NULL, ", \"tile_size\": 128", "tile_size is 128"},
        {"lfm2vl", NULL, NULL, ", \"max_tiles\": 4", "max_tiles is 4"},
        {"smolvlm", NULL, NULL, ", \"do_image_splitting\": false", "do_image_splitting is false"},
        {"smolvlm", NULL, NULL, ", \"max_image_size\": {\"longest_edge\": 8}",
         "max_image_size.longest_edge is 8"},
        {"pixtral", NULL, NULL, ", \"size\": {\"longest_edge\": 4096}", "size is 4096"},
        {"minicpmv", NULL, NULL, ", \"scale_resolution\": 12, \"max_slice_nums\": 4",
         "max_slice_nums is 4"},
        {"internvl-hf", NULL, NULL, ", \"max_patches\": 0", "not a number of tiles"},
        {"qwen3vlmoe", NULL, NULL, ", \"rescale_factor\": 0", "rescale_factor is 0"},
        {"qwen3vlmoe", NULL, NULL,
         ", \"image_processor\": {\"image_std\": [0, 1, 1], \"image_mean\": [0, 0, 0]}",
         "image_std is 0"},
    };
    struct err e;
    struct mmproj_report r;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *folder = edited(bad[i].name, bad[i].from, bad[i].to, bad[i].image);
        CHECK_ERR(to_file(folder, NULL, &r, &e), ERR_DATA, bad[i].text);
    }
}

static const char *damage_less, *damage_more;
/* Drops the tensor damage_less or, if damage_more is set, adds its copy under that name. */
static int damage(struct st_build *b, const struct st_tensor *t) {
    if (strcmp(t->name, damage_less) != 0) return 0;
    if (damage_more) st_copy(b, damage_more, t);
    return !damage_more;
}

/* Writes a tower's folder with its weights less one tensor, or with a tensor's copy under another
 * name. Returns its path. */
static const char *damaged(const char *name, const char *less, const char *more) {
    const char *folder = edited(name, NULL, NULL, "");
    char *path = xasprintf("%s/model.safetensors", folder);
    damage_less = less;
    damage_more = more;
    st_rewrite(path, damage);
    free(path);
    return folder;
}

/* Tensors of one block that are missing, or there in two spellings. */
static void test_damaged_blocks(void) {
    static const struct {
        const char *name, *less, *more, *text;
    } bad[] = {
        {"internvl", "vision_model.encoder.layers.0.attn.qkv.weight", NULL,
         "vision_model.encoder.layers.0.attn.qkv.weight (for v.blk.0.attn_q.weight) is missing"},
        {"internvl", "vision_model.encoder.layers.0.attn.qkv.bias", NULL,
         "(for v.blk.0.attn_q.bias) is missing"},
        {"internvl", "vision_model.encoder.layers.0.attn.proj.weight",
         "vision_tower.encoder.layer.0.attention.v_proj.weight", "it would be lost"},
        {"internvl-hf", "vision_tower.encoder.layer.0.attention.k_proj.weight", NULL,
         "(for v.blk.0.attn_k.weight) is missing"},
        {"qwen25vl", "visual.blocks.0.attn.qkv.bias", NULL, "(for v.blk.0.attn_q.bias) is missing"},
        {"gemma3", "vision_tower.encoder.layers.0.self_attn.q_proj.bias", NULL,
         "(for v.blk.0.attn_q.bias) is missing"},
    };
    struct err e;
    struct mmproj_report r;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_ERR(to_file(damaged(bad[i].name, bad[i].less, bad[i].more), NULL, &r, &e), ERR_DATA,
                  bad[i].text);
}

/* Returns an element of an array of the file written last. */
static double element(const char *key, uint64_t i) {
    struct gguf *g = NULL;
    struct err e;
    double x = -1;
    CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
    if (g && gguf_find(g, key)) x = gguf_kv_f64(gguf_find(g, key), i);
    gguf_close(g);
    return x;
}

/* Returns a number of the projector file of an edited tower. */
static int64_t number_of(const char *folder, const char *key) {
    struct gguf *g = NULL;
    struct mmproj_report r;
    struct err e;
    int64_t n = -1;
    CHECK_OK(to_file(folder, NULL, &r, &e));
    CHECK_OK(gguf_open(&g, tmp_path("mm.gguf"), 0, &e));
    if (g) n = (int64_t)gguf_u64_or(g, key, 0);
    gguf_close(g);
    return n;
}
static int64_t number(const char *name, const char *image, const char *key) {
    return number_of(edited(name, NULL, NULL, image), key);
}

/* Checks every form of a size, with the sides that transformers gives them. */
static void test_sizes(void) {
    static const char side[] = "clip.vision.image_size",
                      longest[] = "clip.vision.preproc_image_size";
    CHECK_EQ_I64(number("mistral3", ", \"size\": 8", side), 8);
    CHECK_EQ_I64(number("mistral3", ", \"size\": {\"height\": 8, \"width\": 8}", side), 8);
    CHECK_EQ_I64(number("pixtral", ", \"size\": {\"longest_edge\": 8, \"height\": null}", side), 8);
    CHECK_EQ_I64(number("pixtral", "", side), 16);
    CHECK_EQ_I64(number("gemma3", ", \"size\": 16", side), 16);
    CHECK_EQ_I64(number("smolvlm", "", longest), 1456);
    /* Published Mistral 3 folders without the processor's config: the tower's own size. */
    static const char is[] = "\"image_size\": 16", large[] = "\"image_size\": 1540";
    CHECK_EQ_I64(number_of(edited("mistral3", is, large, ""), side), 1024);
    CHECK_EQ_I64(number_of(edited("mistral3", is, large, NULL), side), 1540);
}

static void put(const char *path, const char *text) {
    struct err e;
    CHECK_OK(out_write_file(path, text, strlen(text), true, &e));
}

/* Checks which file the colours come from, and the default of a config without them. */
static void test_colours(void) {
    static const char mean[] = "clip.vision.image_mean";
    struct err e;
    struct mmproj_report r;
    char *path = xasprintf("%s/hf/processor_config.json", tmp_dir);
    CHECK_OK(to_file(
        edited("qwen3vlmoe", NULL, NULL, ", \"image_processor\": {\"image_std\": [1, 1, 1]}"), NULL,
        &r, &e));
    CHECK_CLOSE(element(mean, 0), .48145466, 1e-6);
    const char *folder = edited("qwen3vlmoe", NULL, NULL, "");
    put(path, "{\"image_processor\": {}}");
    CHECK_OK(to_file(folder, NULL, &r, &e));
    CHECK_CLOSE(element(mean, 0), .48145466, 1e-6);
    put(path, "{\"image_processor\": {\"image_mean\": 0.5}}");
    CHECK_ERR(to_file(folder, NULL, &r, &e), ERR_DATA, "hf/processor_config.json: image_mean");
    unlink(path);
    free(path);
}

/* Values that projector files express in another way. */
static void test_expressed_values(void) {
    static const char mean[] = "clip.vision.image_mean", std[] = "clip.vision.image_std";
    struct err e;
    struct mmproj_report r;
    /* (x / 255 - mean) / std of the file is (x f - .25) / .75 of the folder */
    CHECK_OK(to_file(edited("qwen3vlmoe", NULL, NULL, ", \"rescale_factor\": 0.0078431372549"),
                     NULL, &r, &e));
    CHECK_CLOSE(element(mean, 1), .125, 1e-6);
    CHECK_CLOSE(element(std, 1), .375, 1e-6);
    CHECK_OK(to_file(edited("qwen3vlmoe", NULL, NULL, ", \"do_rescale\": false"), NULL, &r, &e));
    CHECK_CLOSE(element(std, 1), .75 / 255, 1e-7);
    CHECK_OK(to_file(edited("qwen3vlmoe", NULL, NULL, ", \"do_normalize\": false"), NULL, &r, &e));
    CHECK(element(mean, 1) == 0 && element(std, 1) == 1);
    /* exactly the published spelling of 1/255, and equal activations */
    CHECK_OK(to_file(edited("qwen3vlmoe", "gelu_pytorch_tanh", "gelu_new",
                            ", \"resample\": 3, \"rescale_factor\": 0.00392156862745098"),
                     NULL, &r, &e));
    CHECK(element(mean, 1) == .25 && element(std, 1) == .75);
    CHECK_OK(
        to_file(edited("pixtral", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"quick_gelu\"", ""),
                NULL, &r, &e));
    CHECK_OK(
        to_file(edited("gemma3", "\"mm_tokens_per_image\": 4", "\"mm_tokens_per_image\": 16", ""),
                NULL, &r, &e));
}

int main(void) {
    tmp_make();
    RUN(test_gemma4);
    RUN(test_qwen);
    RUN(test_towers);
    RUN(test_auto_type_and_dry_run);
    RUN(test_refusals);
    RUN(test_unsupported_values);
    RUN(test_damaged_blocks);
    RUN(test_expressed_values);
    RUN(test_sizes);
    RUN(test_colours);
    tmp_remove();
    return check_done();
}
