// SPDX-License-Identifier: MIT
/* tests/unit/test_mmproj.c - projector files, compared with files made with the gguf package's
 * names, keys and quantizer for the same towers (tests/oracle/mmproj.py): every tensor's name,
 * shape, type and bytes and every key, in both directions, for every output type. Also folders
 * without a tower, or with a tower that contradicts the config. */
#include "convert/mmproj.h"
#include "tests/unit/golden.h"
#include "tests/unit/ref_compare.h"
#include "base/io.h"

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

int main(void) {
    tmp_make();
    RUN(test_gemma4);
    RUN(test_qwen);
    RUN(test_towers);
    RUN(test_auto_type_and_dry_run);
    RUN(test_refusals);
    tmp_remove();
    return check_done();
}
