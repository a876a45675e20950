// SPDX-License-Identifier: MIT
/* Architectures that are only converted and quantized: the conversion of micro checkpoints in the
 * published layout has exactly the tensors, shapes, bytes and keys that tests/oracle/named.py
 * computes with NumPy; running them is an error. */
#include <errno.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "convert/convert.h"
#include "models/arch.h"
#include "runtime/engine/model.h"
#include "tests/unit/micro.h"

static const char *const names[] = {"kimi-k3", "glm5-next", "deepseek4",       "qwen4exp",
                                    "eagle3",  "dflash",    "gemma4-assistant"};

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

/* Compares the file with the folder's expected.txt, in both directions. */
static void compare(const char *folder, const char *arch, const struct gguf *g) {
    char *file = xasprintf("tests/golden/named/%s/expected.txt", folder), *text = NULL;
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
            n_keys += strncmp(name, arch, strlen(arch)) == 0;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    for (int64_t i = 0; i < gguf_n_kv(g); i++)
        own += strncmp(gguf_kv_at(g, i)->key, arch, strlen(arch)) == 0;
    CHECK(n_tensors >= 16);
    CHECK_EQ_I64(gguf_n_tensors(g), n_tensors);
    CHECK_EQ_I64(own, n_keys);
    free(text);
    free(file);
}

/* Fused experts whose matrices are square: only the other tensor shows whether they are stored
 * transposed. */
static void test_square_experts(void) {
    static const char *const folder[] = {"qwen3vlmoe", "qwen3vlmoe-turned"};
    for (size_t i = 0; i < COUNT_OF(folder); i++) {
        struct err e = {0};
        struct gguf *g = NULL;
        CHECK_OK(convert(folder[i], NULL, &e));
        CHECK_OK(gguf_open(&g, out(), 0, &e));
        if (g) compare(folder[i], "no keys", g);
        gguf_close(g);
    }
}

static void test_conversions(void) {
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct err e = {0};
        struct gguf *g = NULL;
        CHECK_OK(convert(names[i], NULL, &e));
        CHECK_OK(gguf_open(&g, out(), 0, &e));
        if (!g) continue;
        CHECK_EQ_STR(gguf_str_or(g, "general.architecture", ""), names[i]);
        compare(names[i], names[i], g);
        CHECK(!arch_find(names[i]) && arch_find_table(names[i]));
        bool runs = true;
        const char *draft = NULL;
        CHECK_OK(convert_known(tmp_path("hf"), &runs, &draft, &e));
        CHECK(!runs);
        const char *kind = gguf_draft_kind(g);
        CHECK_EQ_STR(draft ? draft : "none", kind ? kind : "none");
        CHECK_ERR(model_computes(g, &e), ERR_DATA,
                  strcmp(names[i], "eagle3") == 0 ? "only draft for another model"
                                                  : "conversion and quantization only");
        gguf_close(g);
    }
}

/* A draft that turns its windows off has none, whatever layer_types says. */
static void test_windows_off(void) {
    static const char *const off[] = {"\"use_sliding_window\": true",
                                      "\"use_sliding_window\": false", NULL};
    struct err e = {0};
    struct gguf *g = NULL;
    CHECK_OK(convert("dflash", off, &e));
    CHECK_OK(gguf_open(&g, out(), 0, &e));
    if (g) CHECK(!gguf_find(g, "dflash.attention.sliding_window"));
    if (g) CHECK(!gguf_find(g, "dflash.attention.sliding_window_pattern"));
    gguf_close(g);
}

/* MiMo-V2.5 as released, with q, k and v in 4 and 8 stripes. */
static void test_stripes(void) {
    static const char *const folder[] = {"mimo2-4", "mimo2-8"};
    /* Blocks other than those of the scales; a number of heads that 4 and 8 do not divide. */
    static const char *const block[] = {"[\n   128,", "[\n   64,", NULL},
                             *const heads[] = {
                                 "\"num_key_value_heads\": ", "\"num_key_value_heads\": 1", NULL};
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(folder); i++) {
        struct gguf *g = NULL;
        CHECK_OK(convert(folder[i], NULL, &e));
        CHECK_OK(gguf_open(&g, out(), 0, &e));
        if (g) compare(folder[i], "mimo2", g);
        gguf_close(g);
        CHECK_ERR(convert(folder[i], block, &e), ERR_DATA, "do not tell them apart");
        CHECK_ERR(convert(folder[i], heads, &e), ERR_DATA, "do not tell them apart");
    }
}

/* Converts mimo2-8 with edits of its config.json and `from` in the list of its tensors replaced by
 * `to`. */
static int convert_changed(const char *const *edit, const char *from, const char *to,
                           struct err *why) {
    struct err e = {0};
    static const char *const file[] = {"config.json", "tensors.txt"};
    mkdir(tmp_path("changed"), 0700);
    for (size_t i = 0; i < COUNT_OF(file); i++) {
        char *in = xasprintf("tests/golden/named/mimo2-8/%s", file[i]), *text = NULL;
        char *path = xasprintf("%s/changed/%s", tmp_dir, file[i]);
        struct buf b = {0};
        size_t n;
        CHECK_OK(io_read_file(&text, &n, in, 1 << 20, &e));
        const char *at = text;
        for (const char *hit; text && i && (hit = strstr(at, from)); at = hit + strlen(from)) {
            buf_add(&b, at, (size_t)(hit - at));
            buf_str(&b, to);
        }
        buf_str(&b, text ? at : "");
        CHECK_OK(out_write_file(path, b.data, b.len, true, &e));
        buf_release(&b);
        free(text);
        free(path);
        free(in);
    }
    struct convert_report r;
    struct convert_opts o = {.out = out(), .type = "f32", .overwrite = true};
    char *dir = xasprintf("%s/changed", tmp_dir);
    o.src = micro_folder(dir, edit);
    free(dir);
    return convert_run(&o, &r, why);
}

/* Scales that fit both 8 and 16 stripes, and missing scales. */
static void test_unclear_stripes(void) {
    static const char *const edit[] = {"[\n   128,",
                                       "[\n   50,",
                                       "\"num_attention_heads\": 8",
                                       "\"num_attention_heads\": 16",
                                       "\"swa_num_attention_heads\": 8",
                                       "\"swa_num_attention_heads\": 16",
                                       "\"num_key_value_heads\": 8",
                                       "\"num_key_value_heads\": 16",
                                       "\"swa_num_key_value_heads\": 8",
                                       "\"swa_num_key_value_heads\": 16",
                                       "\"head_dim\": 24",
                                       "\"head_dim\": 12",
                                       "\"swa_head_dim\": 24",
                                       "\"swa_head_dim\": 12",
                                       "\"v_head_dim\": 16",
                                       "\"v_head_dim\": 8",
                                       "\"swa_v_head_dim\": 16",
                                       "\"swa_v_head_dim\": 8",
                                       NULL};
    struct err e = {0};
    CHECK_ERR(convert_changed(edit, "scale_inv BF16 8x2", "scale_inv BF16 16x2", &e), ERR_DATA,
              "do not tell them apart");
    CHECK_ERR(convert_changed(NULL, "layers.1.self_attn.qkv_proj.weight_scale_inv",
                              "layers.1.self_attn.other", &e),
              ERR_DATA, "layers.1.self_attn.qkv_proj.weight_scale_inv is missing");
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
        {"eagle3", {"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2"}, "2 layers"},
        {"eagle3", {"\"silu\"", "\"gelu\""}, "hidden_act"},
        {"eagle3", {"\"norm_before_residual\"", "\"norm_output\""}, "norm_output"},
        {"eagle3", {"\"norm_before_residual\"", "\"norm_before_fc\""}, "input_norm.weight"},
        {"eagle3", {"\"eagle_aux_hidden_state_layer_ids\"", "\"x\""}, "--target-model-dir"},
        {"eagle3", {"   8\n", "   8, 9\n"}, "reads 4 layers"},
        {"eagle3", {"   8\n", "   -8\n"}, "numbers of layers"},
        {"eagle3", {"\"target_hidden_size\": 48", "\"target_hidden_size\": 50"}, "fc.weight"},
        {"eagle3", {"\"draft_vocab_size\": 256", "\"draft_vocab_size\": 2560"}, "2560 of 1024"},
        {"dflash", {"\"target_layer_ids\"", "\"x\""}, "target_layer_ids"},
        {"dflash", {"\"mask_token_id\": 1003", "\"mask_token_id\": 1024"}, "mask_token_id"},
        {"dflash", {"\"block_size\"", "\"x\""}, "block_size is missing"},
        {"dflash",
         {"\"sliding_window\": 64", "\"sliding_window\": 0"},
         "sliding_window is missing"},
        {"gemma4-assistant", {"\"backbone_hidden_size\"", "\"x\""}, "backbone_hidden_size"},
        {"gemma4-assistant", {"_size\": 96", "_size\": 64"}, "same width"},
        {"gemma4-assistant", {"\"num_centroids\": 32", "\"num_centroids\": 33"}, "33 clusters"},
        {"gemma4-assistant", {"\"enable_moe_block\": false", "\"enable_moe_block\": true"}, "moe"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        CHECK_ERR(convert(bad[i].name, bad[i].edit, &e), ERR_DATA, bad[i].text);
        CHECK(access(out(), F_OK) != 0 || unlink(out()) == 0);
    }
}

/* Makes a copy of a micro draft in which the line of tensors.txt that begins with `name` is
 * replaced. */
static const char *draft_with(const char *draft, const char *name, const char *line) {
    char *list = NULL, *config = NULL, key[64], file[2][96];
    size_t n, m;
    struct err e;
    struct buf b = {0};
    snprintf(file[0], sizeof file[0], "tests/golden/named/%s/tensors.txt", draft);
    snprintf(file[1], sizeof file[1], "tests/golden/named/%s/config.json", draft);
    CHECK_OK(io_read_file(&list, &n, file[0], 1 << 20, &e));
    CHECK_OK(io_read_file(&config, &m, file[1], 1 << 20, &e));
    snprintf(key, sizeof key, "\n%s ", name);
    const bool first = strncmp(list, key + 1, strlen(key + 1)) == 0;
    char *at = first ? list : strstr(list, key);
    CHECK(at != NULL);
    if (at) {
        at += !first;
        buf_add(&b, list, (size_t)(at - list));
        buf_str(&b, line);
        buf_str(&b, at + strcspn(at, "\n") + 1);
        mkdir(tmp_path("src"), 0700);
        tmp_write("src/tensors.txt", b.data, b.len);
        tmp_write("src/config.json", config, m);
    }
    buf_release(&b);
    free(list);
    free(config);
    return tmp_path("src");
}

/* A draft's tables of tokens must name tokens of its model, each once. */
static void test_tokens(void) {
    static const struct {
        const char *draft, *name, *line, *text;
    } bad[] = {
        {"eagle3", "d2t", "d2t I64 256 7 5\n", "as an earlier entry does"},
        {"eagle3", "d2t", "d2t I64 256 260 -2\n",
         "d2t[255] is 770, which makes token 1025 of 1024"},
        {"eagle3", "d2t", "d2t I64 256 -1 -2\n", "d2t[0] is -1, which makes token -1 of 1024"},
        {"eagle3", "d2t", "d2t BF16 256 0 0.25\n", "not integers"},
        {"eagle3", "d2t", "d2t I64 255 7 -2\n", "[255]"},
        {"eagle3", "d2t", "", "no tensor d2t"},
        {"eagle3", "d2t", "d2t I64 256 0 -3\n", "d2t names token 0, but t2d does not mark it"},
        {"eagle3", "d2t", "d2t I64 256 7 -2\n", "t2d marks token 3, but d2t does not name it"},
        {"eagle3", "t2d", "t2d BOOL 1028 3 -4\n", "t2d has 1028 entries for 1024 tokens"},
        {"eagle3", "lm_head.weight", "", "no lm_head.weight"},
        {"eagle3", "midlayer.hidden_norm.weight", "", "hidden_norm.weight"},
        {"eagle3", "fc.weight", "fc.weight BF16 64x144 0.0 0.25\nfcs.0.weight BF16 48 0.0 0.25\n",
         "fcs.0"},
        {"gemma4-assistant", "masked_embedding.token_ordering",
         "masked_embedding.token_ordering I64 1024 5 -1\n",
         "token_ordering[1019] is 1024, which makes token 1024 of 1024"},
        {"gemma4-assistant", "masked_embedding.token_ordering",
         "masked_embedding.token_ordering I64 1024 -1 -1\n", "token_ordering[0] is -1"},
        {"gemma4-assistant", "masked_embedding.token_ordering",
         "masked_embedding.token_ordering I64 1024 3 1\n",
         "token_ordering[1] is 3, which makes token 3 of 1024, as an"},
        {"gemma4-assistant", "masked_embedding.token_ordering",
         "masked_embedding.token_ordering I64 1024 1099511627776 -1\n",
         "token_ordering[0] is 1099511627776"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        struct convert_report r;
        struct convert_opts o = {
            .src = micro_folder(draft_with(bad[i].draft, bad[i].name, bad[i].line), NULL),
            .out = out(),
            .type = "f32",
            .overwrite = true};
        CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, bad[i].text);
    }
}

/* Converts the EAGLE-3 micro draft for the model in folder `target` (NULL: none), with edits to its
 * config.json, without its own tokenizer. */
static int convert_for(const char *target, const char *const *edit, struct err *e) {
    struct convert_report r;
    struct convert_opts o = {.src = micro_folder("tests/golden/named/eagle3", edit),
                             .out = out(),
                             .target = target,
                             .type = "f32",
                             .overwrite = true};
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json"};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char *path = xasprintf("%s/%s", o.src, files[i]);
        unlink(path);
        free(path);
    }
    return convert_run(&o, &r, e);
}

/* Writes a model folder with the tokenizer of the golden models and this config.json. */
static const char *model_folder(const char *config) {
    char *cwd = getcwd(NULL, 0);
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json"};
    mkdir(tmp_path("model"), 0700);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char *from = xasprintf("%s/tests/golden/models/qwen3/%s", cwd, files[i]);
        char *to = xasprintf("%s/model/%s", tmp_dir, files[i]);
        CHECK(symlink(from, to) == 0 || errno == EEXIST);
        free(to);
        free(from);
    }
    tmp_write("model/config.json", config, strlen(config));
    free(cwd);
    return tmp_path("model");
}

/* A draft without a tokenizer and without a list of layers takes both from its model's folder. */
static void test_target(void) {
    static const char *const unlisted[] = {"\"eagle_aux_hidden_state_layer_ids\"", "\"x\"", NULL};
    static const char *const listed[] = {
        "\"norm_before_residual\"",
        "\"eagle_aux_hidden_state_layer_ids\": [3, 4, 36], \"norm_before_residual\"", NULL};
    struct err e = {0};
    struct gguf *g = NULL;
    char target[512];
    snprintf(
        target, sizeof target, "%s",
        model_folder("{\"num_hidden_layers\": 36, \"hidden_size\": 48, \"vocab_size\": 1024}"));
    CHECK_ERR(convert_for(NULL, NULL, &e), ERR_DATA, "without a tokenizer: name the folder");
    e = (struct err){0};
    CHECK_OK(convert_for(target, unlisted, &e));
    CHECK_OK(gguf_open(&g, out(), 0, &e));
    if (g) {
        check_key(g, "eagle3.target_layers", "INT32", "2,18,33");
        CHECK(gguf_find(g, "tokenizer.ggml.tokens") != NULL);
        CHECK_EQ_STR(gguf_draft_kind(g), "eagle3");
        CHECK(gguf_part_of(g) == GGUF_DRAFT);
        gguf_close(g);
    }
    CHECK_OK(convert_for(target, listed, &e)); /* Speculators list inputs */
    CHECK_OK(gguf_open(&g, out(), 0, &e));
    if (g) check_key(g, "eagle3.target_layers", "INT32", "3,4,36");
    gguf_close(g);
    model_folder("{\"num_hidden_layers\": 9}"); /* the output of the last layer can be read */
    CHECK_OK(convert_for(target, NULL, &e));
    model_folder("{\"text_config\": {\"num_hidden_layers\": 8}}");
    CHECK_ERR(convert_for(target, NULL, &e), ERR_DATA, "the input of layer 9, but");
    CHECK(strstr(e.msg, "has 8 layers: the draft belongs to another model") != NULL);
    model_folder("{\"text_config\": {\"num_hidden_layers\": 36, \"hidden_size\": 64}}");
    CHECK_ERR(convert_for(target, unlisted, &e), ERR_DATA, "belongs to another model");
    model_folder("{\"num_hidden_layers\": 36, \"hidden_size\": 48, \"vocab_size\": 1000}");
    CHECK_ERR(convert_for(target, unlisted, &e), ERR_DATA,
              "vocab_size is 1024 in the draft and 1000");
    model_folder("{\"num_hidden_layers\": 3}");
    CHECK_ERR(convert_for(target, unlisted, &e), ERR_DATA, "names no number of layers that fits");
    model_folder("[]");
    CHECK_ERR(convert_for(target, unlisted, &e), ERR_DATA, "not a JSON object");
    CHECK_ERR(convert_for(tmp_path("none"), NULL, &e), ERR_USAGE, "no config.json");
}

int main(void) {
    tmp_make();
    log_set_level(LOG_ERROR);
    RUN(test_conversions);
    RUN(test_square_experts);
    RUN(test_windows_off);
    RUN(test_stripes);
    RUN(test_unclear_stripes);
    RUN(test_refusals);
    RUN(test_tokens);
    RUN(test_target);
    tmp_remove();
    return check_done();
}
