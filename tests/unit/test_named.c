// SPDX-License-Identifier: MIT
/* Architectures that are only converted and quantized: the conversion of micro checkpoints in the
 * published layout has exactly the tensors, shapes, bytes and keys that tests/oracle/named.py
 * computes with NumPy; running them is an error. */
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "convert/convert.h"
#include "models/arch.h"
#include "runtime/engine/model.h"
#include "tests/unit/micro.h"

static const char *const names[] = {"kimi-k3", "glm5-next", "deepseek4", "qwen4exp"};

static const char *out(void) {
    return tmp_path("named.gguf");
}

/* Converts a micro checkpoint with edits to config.json. */
static int convert(const char *name, const char *const *edit, struct err *e) {
    char *dir = xasprintf("tests/golden/named/%s", name);
    struct convert_opts o = {
        .src = micro_folder(dir, edit), .out = out(), .type = "f32", .overwrite = true};
    struct convert_report r;
    free(dir);
    return convert_run(&o, &r, e);
}

static void check_tensor(const struct gguf *g, const char *name, const char *type,
                         const char *shape, const char *sum) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    if (!t) {
        CHECK_FAIL("%s is missing", name);
        return;
    }
    char dims[96] = "";
    for (int i = 0; i < t->n_dims; i++)
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", i ? "x" : "",
                 (long long)t->ne[i]);
    CHECK_EQ_STR(dims, shape);
    CHECK_EQ_STR(qtype_name(t->type), type);
    struct sha256 h;
    char hex[65];
    sha256_init(&h);
    sha256_add(&h, t->data, t->n_bytes);
    sha256_hex(&h, hex);
    if (strcmp(hex, sum) != 0) CHECK_FAIL("%s has other values", name);
}

static void check_key(const struct gguf *g, const char *name, const char *type, const char *value) {
    static const struct {
        const char *name;
        enum gguf_vtype type;
    } types[] = {{"UINT32", GV_U32},  {"INT32", GV_I32}, {"UINT64", GV_U64},
                 {"FLOAT32", GV_F32}, {"BOOL", GV_BOOL}, {"STRING", GV_STR}};
    const struct gguf_kv *kv = gguf_find(g, name);
    if (!kv) {
        CHECK_FAIL("%s is missing", name);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strcmp(types[i].name, type) == 0)
            CHECK_EQ_I64(kv->type == GV_ARR ? kv->elem : kv->type, types[i].type);
    if (kv->type == GV_STR) {
        CHECK_EQ_STR(gguf_str_or(g, name, ""), value);
        return;
    }
    uint64_t n = 0;
    for (const char *s = value; *s; s += strcspn(s, ","), s += *s == ',', n++) {
        const bool real = (kv->type == GV_ARR ? kv->elem : kv->type) == GV_F32;
        if (n >= kv->count || (real ? (float)gguf_kv_f64(kv, n) != (float)strtod(s, NULL)
                                    : (uint64_t)gguf_kv_i64(kv, n) != strtoull(s, NULL, 10)))
            CHECK_FAIL("%s[%d] is not as in %s", name, (int)n, value);
    }
    CHECK_EQ_I64(kv->count, n);
}

/* Compares the file with expected.txt, in both directions. */
static void compare(const char *arch, const struct gguf *g) {
    char *file = xasprintf("tests/golden/named/%s/expected.txt", arch), *text = NULL;
    size_t len;
    struct err e;
    int64_t n_tensors = 0, n_keys = 0, own = 0;
    CHECK_OK(io_read_file(&text, &len, file, 1 << 20, &e));
    for (char *line = text; line && *line;) {
        char what[8], name[96], type[16], a[256], sum[80];
        const int n = sscanf(line, "%7s %95s %15s %255s %79s", what, name, type, a, sum);
        if (n == 5 && strcmp(what, "tensor") == 0) {
            check_tensor(g, name, type, a, sum);
            n_tensors++;
        } else if (n >= 4) {
            check_key(g, name, type, a);
            n_keys++;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    for (int64_t i = 0; i < gguf_n_kv(g); i++)
        own += strncmp(gguf_kv_at(g, i)->key, arch, strlen(arch)) == 0;
    CHECK(n_tensors > 50);
    CHECK_EQ_I64(gguf_n_tensors(g), n_tensors);
    CHECK_EQ_I64(own, n_keys);
    free(text);
    free(file);
}

static void test_conversions(void) {
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct err e = {0};
        struct gguf *g = NULL;
        CHECK_OK(convert(names[i], NULL, &e));
        CHECK_OK(gguf_open(&g, out(), 0, &e));
        if (!g) continue;
        CHECK_EQ_STR(gguf_str_or(g, "general.architecture", ""), names[i]);
        compare(names[i], g);
        CHECK(!arch_find(names[i]) && arch_find_table(names[i]));
        bool runs = true;
        CHECK_OK(convert_known(tmp_path("hf"), &runs, &e));
        CHECK(!runs);
        CHECK_ERR(model_computes(g, &e), ERR_DATA, "conversion and quantization only");
        gguf_close(g);
    }
}

/* Settings that the format cannot hold, and inconsistent ones. */
static void test_refusals(void) {
    static const struct {
        const char *name, *edit[3], *text;
    } bad[] = {
        {"kimi-k3", {"\"situ\"", "\"silu\""}, "hidden_act"},
        {"kimi-k3", {"\"use_full_rank_gate\": true", "\"use_full_rank_gate\": false"}, "gate"},
        {"kimi-k3", {"\"num_heads\": 4", "\"num_heads\": 5"}, "heads"},
        {"kimi-k3", {"\"full_attn_layers\"", "\"full_layers\""}, "full_attn_layers is missing"},
        {"glm5-next", {"\"qk_rope_head_dim\": 0", "\"qk_rope_head_dim\": 8"}, "qk_rope_head_dim"},
        {"glm5-next", {"\"deepseek_sparse_attention\"", "\"odd\""}, "layer_types[3] is \"odd\""},
        {"glm5-next", {"\"full\"", "\"shared\""}, "indexer_types"},
        {"deepseek4", {"\"sqrtsoftplus\"", "\"sigmoid\""}, "scoring_func"},
        {"deepseek4", {"128,", "64,"}, "compresses 64 tokens"},
        {"deepseek4", {"\"o_groups\": 2", "\"o_groups\": 3"}, "o_groups of 3"},
        {"qwen4exp", {"\"sigmoid\"", "\"silu\""}, "output_gate_type"},
        {"qwen4exp", {"\"ngram_size\": 3", "\"ngram_size\": 9"}, "ngram_size 9"},
        {"qwen4exp", {"\"ngram_size\": 3", "\"ngram_size\": 4"}, "layer_multipliers"},
        {"qwen4exp", {"\"hc_count\": 4", "\"hc_count\": 1"}, "hc_count"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        CHECK_ERR(convert(bad[i].name, bad[i].edit, &e), ERR_DATA, bad[i].text);
        CHECK(access(out(), F_OK) != 0 || unlink(out()) == 0);
    }
}

int main(void) {
    tmp_make();
    log_set_level(LOG_ERROR);
    RUN(test_conversions);
    RUN(test_refusals);
    tmp_remove();
    return check_done();
}
