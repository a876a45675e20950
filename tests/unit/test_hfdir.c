// SPDX-License-Identifier: MIT
/* tests/unit/test_hfdir.c - containers/hfdir.c on the test models and on folders with every kind of
 * defect. */
#include <sys/stat.h>

#include "base/buf.h"
#include "base/log.h"
#include "containers/hfdir.h"
#include "base/io.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct err e;

/* A folder d<n> with config.json {}, new for each test. */
static char dir[80];
static void fresh(void) {
    static int n;
    snprintf(dir, sizeof dir, "%s/d%d", tmp_dir, n++);
    mkdir(dir, 0755);
}
static void put(const char *name, const char *text) {
    char rel[160];
    snprintf(rel, sizeof rel, "%s/%s", strrchr(dir, '/') + 1, name);
    tmp_write(rel, text, strlen(text));
}
/* Writes a shard of one-byte tensors with these names; NULL: no tensor. */
static void shard(const char *file, const char *a, const char *c) {
    struct buf h = {0}, f = {0};
    char rel[160];
    snprintf(rel, sizeof rel, "%s/%s", strrchr(dir, '/') + 1, file);
    buf_fmt(&h, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", a);
    if (c) buf_fmt(&h, ",\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}", c);
    buf_str(&h, "}");
    uint64_t n = h.len;
    buf_add(&f, &n, 8);
    buf_add(&f, h.data, h.len);
    buf_add(&f, "\1\2", c ? 2 : 1);
    tmp_write(rel, f.data, f.len);
    buf_release(&h);
    buf_release(&f);
}
static int try_open(void) {
    struct hfdir *h;
    int rc = hfdir_open(&h, dir, &e);
    if (rc && h) return -1;
    hfdir_close(h);
    return rc;
}
#define INDEX(map) "{\"metadata\":{\"total_size\":9},\"weight_map\":{" map "}}"

static void test_bundled_models(void) {
    static const struct {
        const char *name;
        int n_files;
        double n_layers;
    } m[] = {
        {"qwen35moe", 2, 4}, {"qwen35", 1, 4},  {"qwen3", 1, 0},
        {"qwen3moe", 1, 0},  {"mistral", 1, 0}, {"gemma4moe", 1, 0},
    };
    for (size_t i = 0; i < COUNT_OF(m); i++) {
        char path[64];
        struct hfdir *h;
        snprintf(path, sizeof path, "tests/golden/models/%s", m[i].name);
        CHECK_OK(hfdir_open(&h, path, &e));
        if (!h) continue;
        CHECK_EQ_I64(hfdir_n_files(h), m[i].n_files);
        CHECK_EQ_STR(hfdir_base(h), m[i].name);
        CHECK(hfdir_n_tensors(h) > 10);
        CHECK(json_num(hfdir_hparam(h, "num_hidden_layers|n_layers"), 0) >= 1);
        const struct st_tensor *t = hfdir_tensor_at(h, hfdir_n_tensors(h) - 1);
        CHECK(hfdir_find(h, t->name) == t && t->file == m[i].n_files - 1);
        CHECK(hfdir_find(h, "no.such.tensor") == NULL);
        hfdir_drop(h, t);
        hfdir_close(h);
    }
}

static void test_minimal(void) {
    struct hfdir *h;
    const struct json *j;
    const char *text;
    fresh();
    put("config.json", "{\"a\":1,\"b\":2,\"n\":5,\"text_config\":{\"b\":3,\"c2\":4,\"n\":null}}");
    shard("model.safetensors", "x", "y");
    shard("consolidated.safetensors", "other", NULL); /* never read */
    put("README.md", "# hello");
    CHECK_OK(hfdir_open(&h, dir, &e));
    CHECK_EQ_I64(hfdir_n_tensors(h), 2);
    CHECK(json_num(hfdir_hparam(h, "a"), 0) == 1);
    CHECK(json_num(hfdir_hparam(h, "b"), 0) == 3);
    CHECK(json_num(hfdir_hparam(h, "c1|c2|b"), 0) == 4);
    CHECK(hfdir_hparam(h, "n") == NULL); /* null in text_config counts as a value */
    CHECK(hfdir_hparam(h, "none|nada") == NULL);
    CHECK_OK(hfdir_text(h, "README.md", &text, &e));
    CHECK_EQ_STR(text, "# hello");
    CHECK_OK(hfdir_text(h, "LICENSE", &text, &e));
    CHECK(text == NULL);
    CHECK_OK(hfdir_json(h, "generation_config.json", &j, &e));
    CHECK(j == NULL);
    CHECK_OK(hfdir_chat_template(h, &text, &e));
    CHECK(text == NULL);
    put("broken.json", "{");
    CHECK_ERR(hfdir_json(h, "broken.json", &j, &e), ERR_DATA, "broken.json");
    hfdir_close(h);
}

static void check_template(const char *want) {
    struct hfdir *h;
    const char *text = NULL;
    CHECK_OK(hfdir_open(&h, dir, &e));
    CHECK_OK(hfdir_chat_template(h, &text, &e));
    CHECK_EQ_STR(text, want);
    hfdir_close(h);
}
static void test_templates(void) {
    fresh();
    put("config.json", "{}");
    shard("model.safetensors", "x", NULL);
    put("chat_template.json", "{\"chat_template\":\"third\"}");
    check_template("third");
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"no\"},"
                                 "{\"name\":\"default\",\"template\":\"second\"}]}");
    check_template("second");
    put("tokenizer_config.json",
        "{\"chat_template\":{\"tool_use\":\"no\",\"default\":\"fourth\"}}");
    check_template("fourth");
    put("tokenizer_config.json", "{\"chat_template\":\"string\"}");
    check_template("string");
    put("chat_template.jinja", "first");
    check_template("first");
}

static void test_no_folder(void) {
    fresh();
    CHECK_ERR(try_open(), ERR_DATA, "no config.json");
    CHECK_OK(io_make_dir(tmp_path("hub/snapshots/0f0f"), &e)); /* the Hub's cache */
    tmp_write("hub/snapshots/0f0f/config.json", "{}", 2);
    struct hfdir *h;
    CHECK_ERR(hfdir_open(&h, tmp_path("hub"), &e), ERR_DATA, "hub/snapshots/0f0f");
    CHECK_ERR(hfdir_open(&h, tmp_path("hub/snapshots/0f0f/config.json"), &e), ERR_USAGE,
              "not a folder: name the one");
    put("config.json", "[]");
    CHECK_ERR(try_open(), ERR_DATA, "not a JSON object");
    put("config.json", "{oops");
    CHECK_ERR(try_open(), ERR_DATA, "config.json");
    strcat(dir, "/config.json");
    CHECK_ERR(try_open(), ERR_USAGE, "not a folder");
    strcat(dir, "x");
    CHECK_ERR(try_open(), ERR_USAGE, "no such folder");
}

static void test_no_weights(void) {
    fresh();
    put("config.json", "{}");
    CHECK_ERR(try_open(), ERR_DATA, "there is no model*.safetensors");
    put("consolidated.safetensors", "");
    CHECK_ERR(try_open(), ERR_DATA, "consolidated");
    put("pytorch_model.bin", "");
    CHECK_ERR(try_open(), ERR_DATA, "pickled");
    shard("model-00001-of-00002.safetensors", "x", NULL);
    CHECK_ERR(try_open(), ERR_DATA, "1 of the 2 shards");
    shard("model-00002-of-00002.safetensors", "x", NULL);
    CHECK_ERR(try_open(), ERR_DATA,
              "\"x\" is in model-00001-of-00002.safetensors and in model-00002");
    shard("model-00002-of-00002.safetensors", "y", NULL);
    CHECK_OK(try_open());
}

static void test_index(void) {
    fresh();
    put("config.json", "{}");
    shard("model-1.safetensors", "a", "b");
    shard("model-2.safetensors", "c", NULL);
    put("model.safetensors.index.json", INDEX("\"a\":\"model-1.safetensors\",\"b\":\"model-1."
                                              "safetensors\",\"c\":\"model-2.safetensors\""));
    CHECK_OK(try_open());
    put("model.safetensors.index.json",
        INDEX("\"a\":\"model-1.safetensors\",\"c\":\"model-2.safetensors\""));
    CHECK_OK(try_open()); /* "b" is used if the model needs it */
    put("model.safetensors.index.json",
        INDEX("\"a\":\"model-1.safetensors\",\"b\":\"model-1.safetensors\",\"c\":\"model-2."
              "safetensors\","
              "\"p\":\"model-2.safetensors\",\"q\":\"model-2.safetensors\",\"r\":\"model-2."
              "safetensors\",\"s\":\"model-2.safetensors\""));
    CHECK_ERR(try_open(), ERR_DATA, "no shard has (4: \"p\", \"q\", \"r\", ...)");
    put("model.safetensors.index.json",
        INDEX("\"a\":\"model-1.safetensors\",\"z\":\"model-9.safetensors\""));
    CHECK_ERR(try_open(), ERR_DATA, "shard model-9.safetensors, named by");
    static const char *const names[] = {
        "../model-1.safetensors", "/etc/passwd", "sub/model.safetensors", "..", "", "model.bin",
        ".hidden.safetensors"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char text[256];
        snprintf(text, sizeof text, INDEX("\"a\":\"%s\""), names[i]);
        put("model.safetensors.index.json", text);
        CHECK_ERR(try_open(), ERR_DATA, "only plain names");
    }
    put("model.safetensors.index.json", INDEX("\"a\":3"));
    CHECK_ERR(try_open(), ERR_DATA, "no file name for \"a\"");
    put("model.safetensors.index.json", INDEX(""));
    CHECK_ERR(try_open(), ERR_DATA, "weight_map");
    put("model.safetensors.index.json", "{");
    CHECK_ERR(try_open(), ERR_DATA, "index.json");
}

/* Returns the first byte of a tensor in the folder, or -1 if it is missing. The bytes of shard()
 * are 1, 2. */
static int byte_of(const char *name) {
    struct hfdir *h;
    CHECK_OK(hfdir_open(&h, dir, &e));
    const struct st_tensor *t = h ? hfdir_find(h, name) : NULL;
    const int v = t ? t->data[0] : -1;
    hfdir_close(h);
    return v;
}

/* Checks that of two copies of a tensor the one named by the index is used, whichever file comes
 * first. */
static void test_copies(void) {
    fresh();
    put("config.json", "{}");
    shard("model-1.safetensors", "x", "a");
    shard("model-2.safetensors", "a", "x");
    put("model.safetensors.index.json",
        INDEX("\"x\":\"model-1.safetensors\",\"a\":\"model-1.safetensors\""));
    CHECK_EQ_I64(byte_of("a"), 2);
    CHECK_EQ_I64(byte_of("x"), 1);
    put("model.safetensors.index.json",
        INDEX("\"x\":\"model-2.safetensors\",\"a\":\"model-2.safetensors\""));
    CHECK_EQ_I64(byte_of("a"), 1);
    CHECK_EQ_I64(byte_of("x"), 2);
    shard("model.safetensors", "stray", "x"); /* The index does not name this file. */
    CHECK_EQ_I64(byte_of("x"), 2);
    CHECK_EQ_I64(byte_of("stray"), -1);
    shard("model.safetensors", "x", "stray"); /* transformers would read another x from it */
    CHECK_ERR(try_open(), ERR_DATA, "two models, which differ in x: remove model.safetensors");
    put("model.safetensors.index.json",
        INDEX("\"x\":\"model-2.safetensors\",\"b\":\"model-1.safetensors\""));
    CHECK_ERR(try_open(), ERR_DATA, "tensor \"a\" is in");
    put("model.safetensors.index.json", INDEX("\"a\":\"model-3.safetensors\""));
    CHECK_ERR(try_open(), ERR_DATA, "remove the index if model.safetensors is the whole model");
}

/* Checks that, without an index, file names show which files belong together. */
static void test_sets(void) {
    fresh();
    put("config.json", "{}");
    shard("model.safetensors", "a", "b");
    shard("model (1).safetensors", "b", "a"); /* downloaded twice */
    shard("model.fp16.safetensors", "b", "c");
    CHECK_EQ_I64(byte_of("a"), 1);
    CHECK_EQ_I64(byte_of("b"), 2);
    CHECK_EQ_I64(byte_of("c"), 2);
    fresh();
    put("config.json", "\xef\xbb\xbf{}"); /* as saved by Windows programs */
    shard("model-a.safetensors", "a", "b");
    CHECK_EQ_I64(byte_of("b"), 2);
    shard("model-b.safetensors", "b", NULL);
    CHECK_ERR(try_open(), ERR_DATA,
              "\"b\" is in model-a.safetensors and in model-b.safetensors: "
              "remove one");
    put("config.json", "\xff\xfe{");
    CHECK_ERR(try_open(), ERR_DATA, "config.json is UTF-16 text: save it as UTF-8");
    fresh();
    put("config.json", "{}");
    shard("model.safetensors", "a", "b");
    shard("model-00001-of-00002.safetensors", "a", NULL);
    CHECK_ERR(try_open(), ERR_DATA, "1 of the 2 shards");
    shard("model-00002-of-00002.safetensors", "b", NULL);
    CHECK_ERR(try_open(), ERR_DATA, "model.safetensors and 2 shards");
    fresh();
    put("config.json", "{}");
    shard("model-00001-of-000002.safetensors", "a", NULL);
    CHECK_ERR(try_open(), ERR_DATA, "1 of the 2 shards");
    shard("model-00001-of-00003.safetensors", "b", NULL);
    CHECK_ERR(try_open(), ERR_DATA, "shards of two copies");
    fresh();
    put("config.json", "{}");
    shard("model.safetensors-00001-of-00002.safetensors", "a", NULL);
    CHECK_ERR(try_open(), ERR_DATA, "1 of the 2 shards");
    shard("model.safetensors-00002-of-00002.safetensors", "b", NULL);
    shard("model_mtp.safetensors", "c", NULL);
    CHECK_EQ_I64(byte_of("c"), 1);
}

/* Checks that the layouts of publishers' own tools are refused with an error that names them. */
static void test_own_layouts(void) {
    fresh();
    put("params.json", "{}");
    put("consolidated.safetensors", "");
    CHECK_ERR(try_open(), ERR_DATA, "only Mistral's own layout");
    put("config.json", "{}");
    CHECK_ERR(try_open(), ERR_DATA, "convert_mistral_weights_to_hf.py");
    shard("model.safetensors", "a", NULL);
    CHECK_OK(try_open());
    fresh();
    put("params.json", "{}");
    put("consolidated.00.pth", "");
    CHECK_ERR(try_open(), ERR_DATA, "only Meta's own layout");
}

static void test_truncated_shard(void) {
    char path[160];
    fresh();
    put("config.json", "{}");
    shard("model.safetensors", "a", "b");
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    struct stat st;
    CHECK(stat(path, &st) == 0 && truncate(path, st.st_size - 1) == 0);
    CHECK_ERR(try_open(), ERR_DATA, "model.safetensors: truncated: ");
    CHECK(strstr(e.msg, "download it again") != NULL);
}

int main(void) {
    log_set_level(LOG_ERROR);
    tmp_make();
    RUN(test_bundled_models);
    RUN(test_minimal);
    RUN(test_templates);
    RUN(test_no_folder);
    RUN(test_no_weights);
    RUN(test_index);
    RUN(test_copies);
    RUN(test_sets);
    RUN(test_own_layouts);
    RUN(test_truncated_shard);
    tmp_remove();
    return check_done();
}
