// SPDX-License-Identifier: MIT
/* Quantized checkpoint forms: put into a golden folder and converted, the bytes must be those of
 * the tools' own dequantization, in f32 and in bf16. */
#include <math.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/str.h"
#include "tests/unit/quantized_forms.h"

/* Converts a form in the folder and compares with the tool's values. */
static void check_folder(const struct json *form) {
    static const char *const types[][2] = {{"f32", "F32"}, {"bf16", "BF16"}};
    const char *name = json_str(json_get(form, "name"));
    struct err e;
    struct convert_report r;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct gguf *g = NULL;
        int rc = convert(types[i][0], &r, &e);
        if (rc) CHECK_FAIL("%s: %s", name, e.msg);
        if (rc) return;
        CHECK_OK(gguf_open(&g, tmp_path("out.gguf"), 0, &e));
        const struct json *want = json_get(form, "expected");
        for (const struct json *t = json_first(want); t && g; t = json_next(t)) {
            const char *sum = json_str(json_get(t, types[i][0]));
            if (sum) check_hash(g, name, json_name(t), sum, types[i][1]);
        }
        gguf_close(g);
    }
    CHECK_OK(convert("auto", &r, &e)); /* dequantized weights become BF16 */
    CHECK_EQ_STR(r.type, "BF16");
}

/* Writes a form's folder, converts it and compares with the tool's values. */
static void check_form(const struct json *form, damage_fn damage) {
    build(form, damage);
    write_config(form);
    check_folder(form);
}

static void test_forms_equal_their_tools(void) {
    int n = 0;
    for (const struct json *f = json_first(all); f; f = json_next(f), n++) check_form(f, NULL);
    CHECK_EQ_I64(n, 28);
}

/* ---- damage ---- */

static void cut_rows(struct st_tensor *t) { /* every tensor of k_proj loses its last row */
    if (!strstr(t->name, "k_proj") || !t->n_dims || t->shape[0] < 2) return;
    t->n_bytes -= t->n_bytes / (uint64_t)t->shape[0];
    t->shape[0]--;
}
static const char *lost;
static void lose(struct st_tensor *t) {
    size_t n = strlen(t->name), k = strlen(lost);
    if (n > k && strcmp(t->name + n - k, lost) == 0) t->data = NULL;
}
static void wild_group(struct st_tensor *t) {
    static uint8_t copy[4 * 320];
    if (!strstr(t->name, "down_proj.g_idx") || t->n_bytes > sizeof copy) return;
    memcpy(copy, t->data, t->n_bytes);
    copy[403] = 0x7f; /* column 100: a group of 2^30 and more */
    t->data = copy;
}

static void test_wrong_shapes_are_refused(void) {
    for (const struct json *f = json_first(all); f; f = json_next(f))
        if (strcmp(json_str(json_get(f, "base")), "qwen3") == 0)
            refused(json_str(json_get(f, "name")), cut_rows, "k_proj");
}

static void test_missing_parts_are_named(void) {
    static const char *const part[][3] = {
        {"fp8-block", "_scale_inv", "its scales"},
        {"modelopt-nvfp4", "_scale_2", "without _scale_2 or _weight_scale_2: "},
        {"modelopt-nvfp4", "_scale", "without _scale or _weight_scale: "},
        {"gptq4", ".qzeros", "without qzeros"},
        {"awq", ".scales", "without scales"},
        {"ct-pack4-group", "_scale", "without _scale"},
        {"ct-nvfp4", "_packed", "k_proj.weight"},
        {"bnb-nf4-nested", ".nested_absmax", "nested_absmax"},
        {"bnb-nf4", ".quant_state.bitsandbytes__nf4", ".quant_state"},
        {"bnb-nf4", ".absmax", "without .absmax: "},
        {"gptq4-act", ".g_idx", "has no g_idx, but config.json says desc_act"},
    };
    for (size_t i = 0; i < COUNT_OF(part); i++) {
        lost = part[i][1];
        refused(part[i][0], lose, part[i][2]);
    }
}

/* Stores packed 4-bit zero points as older packers do: a signed byte each, less the middle. */
static enum st_dtype zero_type;
static void unpack_zeros(struct st_tensor *t) {
    static int8_t copy[4][4096];
    static int n_copies;
    if (!str_ends(t->name, "weight_zero_point")) return;
    const int64_t words = t->shape[0], groups = t->shape[1];
    int8_t *to = copy[n_copies++ % 4];
    if (8 * words * groups > 4096) CHECK_FAIL("%s: too large", t->name);
    for (int64_t r = 0; r < 8 * words; r++)
        for (int64_t g = 0; g < groups; g++) {
            const uint32_t w = load_u32(t->data + 4 * (r / 8 * groups + g));
            to[r * groups + g] = (int8_t)((int)(w >> (r % 8 * 4) & 15) - 8);
        }
    t->dtype = zero_type;
    t->shape[0] *= 8;
    t->n_elems *= 8;
    t->n_bytes = (uint64_t)t->n_elems;
    t->data = (const uint8_t *)to;
}

static void test_zero_points_of_older_packers(void) {
    zero_type = ST_I8;
    check_form(form("ct-pack4-asym"), unpack_zeros);
    zero_type = ST_U8;
    refused("ct-pack4-asym", unpack_zeros, "zero_point has dtype U8, which no known storage");
}

static void test_group_indices_are_checked(void) {
    refused("gptq4-act", wild_group, "g_idx of model.layers.1.mlp.down_proj");
}

/* Replaces nested_offset, the last number of quant_state. */
static const char *offset;
static void set_offset(struct st_tensor *t) {
    static char copy[4][512];
    static int n_copies;
    const size_t n = (size_t)t->n_bytes;
    if (!strstr(t->name, ".quant_state.") || n >= sizeof copy[0]) return;
    char *to = copy[n_copies++ % 4];
    memcpy(to, t->data, n);
    to[n] = 0;
    char *at = strstr(to, "\"nested_offset\"");
    if (!at) CHECK_FAIL("%s: no nested_offset", t->name);
    if (at) snprintf(at, 64, "%-*s", (int)(n - (size_t)(at - to)), offset);
    t->data = (const uint8_t *)to;
}

static void test_nested_offset_is_a_number(void) {
    static const char *const wrong[] = {"\"nested_offset\":null}", "\"nested_offset\":\"0.25\"}",
                                        "\"nested_offset\":1e39}", "\"another\":0.25}"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        offset = wrong[i];
        refused("bnb-nf4-nested", set_offset, "has no nested_offset that is a number");
    }
}

/* ---- groups of layers in different forms ---- */

#define MIXED "{\"quant_method\":\"compressed-tensors\",\"format\":\"mixed-precision\","
#define INT4_GROUP "{\"format\":\"pack-quantized\",\"weights\":{\"num_bits\":4,\"group_size\":32}}"
#define INT8 "{\"weights\":{\"num_bits\":8,\"group_size\":null}}"
#define FP8_BLOCK(size)                                                                            \
    "{\"format\":\"float-quantized\",\"weights\":{\"num_bits\":8,\"block_structure\":" size "}}"

/* Writes a folder whose k_proj and down_proj have different forms. */
static void write_mixed(const char *k, const char *down, const char *quantization) {
    struct err e;
    struct json *j = NULL;
    CHECK_OK(json_parse(&j, quantization, strlen(quantization), "config", &e));
    build_two(form(k), form(down), NULL);
    write_quantization(form(k), j);
    json_free(j);
}

/* Checks that each matrix is decoded by the group that it belongs to. */
static void test_groups_in_different_forms(void) {
    static const char k[] = "blk.1.attn_k.weight", d[] = "blk.1.ffn_down.weight";
    static const struct {
        const char *k, *down, *quantization;
    } c[] = {
        {"ct-pack4-group", "ct-fp8-block",
         MIXED "\"config_groups\":{\"a\":" INT4_GROUP ",\"b\":" FP8_BLOCK("[48,96]") "}}"},
        {"ct-fp8-block", "ct-pack4-group",
         MIXED "\"config_groups\":{\"a\":" FP8_BLOCK("[48,96]") ",\"b\":" INT4_GROUP "}}"},
        {"ct-pack4-group", "ct-pack8-channel",
         MIXED "\"config_groups\":{\"a\":" INT4_GROUP ",\"b\":" INT8 "}}"},
        {"ct-pack8-channel", "ct-pack4-group", MIXED "\"config_groups\":{}}"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct err e = {0};
        struct convert_report r;
        struct gguf *g = NULL;
        write_mixed(c[i].k, c[i].down, c[i].quantization);
        CHECK_OK(convert("f32", &r, &e));
        CHECK_OK(gguf_open(&g, tmp_path("out.gguf"), 0, &e));
        const struct json *of_k = json_get(json_get(form(c[i].k), "expected"), k);
        const struct json *of_d = json_get(json_get(form(c[i].down), "expected"), d);
        if (g) check_hash(g, c[i].k, k, json_str(json_get(of_k, "f32")), "F32");
        if (g) check_hash(g, c[i].down, d, json_str(json_get(of_d, "f32")), "F32");
        gguf_close(g);
    }
}

static void test_groups_are_refused(void) {
    static const struct {
        const char *quantization, *message;
    } c[] = {
        {MIXED "\"config_groups\":{\"a\":" FP8_BLOCK("[48,96]") ",\"b\":" FP8_BLOCK("[48,64]") "}}",
         "more than one block_structure"},
        {MIXED "\"config_groups\":{\"a\":" INT4_GROUP ",\"b\":{\"format\":\"marlin-24\"}}}",
         "with format \"marlin-24\" cannot be converted"},
        {MIXED "\"transform_config\":{\"config_groups\":{\"R\":{\"type\":\"hadamard\",\"apply\":["
               "{\"location\":\"weight_input\"},{\"location\":\"input\"}]}}}}",
         "rotates activations (location \"input\")"},
        {MIXED "\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}}",
         "sparse format \"sparse-24-bitmask\" cannot be converted"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct err e = {0};
        struct convert_report r;
        write_mixed("ct-pack4-group", "ct-fp8-block", c[i].quantization);
        CHECK_ERR(convert("f32", &r, &e), ERR_DATA, c[i].message);
    }
}

/* ---- what config.json says ---- */

/* Builds a form's folder with a quantization_config given as text. */
static void build_as(const char *name, damage_fn damage, const char *quantization) {
    struct err e;
    struct json *j = NULL;
    CHECK_OK(json_parse(&j, quantization, strlen(quantization), "config", &e));
    build(form(name), damage);
    write_quantization(form(name), j);
    json_free(j);
}

static void refused_as(const char *name, const char *quantization, const char *message) {
    struct err e = {0};
    struct convert_report r;
    build_as(name, NULL, quantization);
    CHECK_ERR(convert("f32", &r, &e), ERR_DATA, message);
}

#define K_PROJ "blk.1.attn_k.weight"
static const char *seen = K_PROJ;

/* Converts a form and returns the f32 values of `seen`, n of them. */
static float *values_as(const char *name, damage_fn damage, const char *quantization, int64_t *n) {
    struct err e = {0};
    struct convert_report r;
    struct gguf *g = NULL;
    build_as(name, damage, quantization);
    CHECK_OK(convert("f32", &r, &e));
    CHECK_OK(gguf_open(&g, tmp_path("out.gguf"), 0, &e));
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, seen) : NULL;
    *n = t ? t->ne[0] * t->ne[1] : 0;
    float *x = xcalloc((size_t)*n + 1, sizeof *x);
    if (t) memcpy(x, t->data, (size_t)*n * sizeof *x);
    gguf_close(g);
    return x;
}

/* Converts a form stored and described in two ways. Returns how many values differ. */
static int64_t n_differ(const char *name, damage_fn one, const char *as_one, damage_fn other,
                        const char *as_other) {
    int64_t n, m, wrong = 0;
    float *a = values_as(name, one, as_one, &n), *b = values_as(name, other, as_other, &m);
    CHECK(n == m && n > 0);
    for (int64_t i = 0; i < n && n == m; i++) wrong += fabsf(a[i] - b[i]) > 0;
    free(a);
    free(b);
    return wrong;
}

/* Checks that auto-round's packings are read as the methods whose tensors they are. */
static void test_auto_round(void) {
    static const struct {
        const char *form, *packing;
        int group;
    } c[] = {{"gptq4", "auto_gptq", 64},
             {"gptq4", "gptq", 64},
             {"awq", "auto_awq", 32},
             {"awq", "awq", 32},
             {"ct-mxfp4", "llm_compressor", 32},
             {"ct-nvfp4", "llm_compressor", 16},
             {"ct-fp8-channel", "fp8_static", -1}};
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"quant_method\":\"auto-round\",\"group_size\":%d,"
                 "\"packing_format\":\"auto_round:%s\"}",
                 c[i].group, c[i].packing);
        build_as(c[i].form, NULL, text);
        check_folder(form(c[i].form));
    }
    refused_as("gptq4", "{\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:fake\"}",
               "auto-round with packing_format \"auto_round:fake\" cannot be converted");
}

/* GPTQModel divides by the scales of FP8. */
static void test_inverse_scales(void) {
    static const char as[] = "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,64],"
                             "\"weight_scale_semantics\":\"%s\"}";
    struct err e;
    struct st *st = NULL;
    char text[256];
    int64_t n, wrong = 0;
    snprintf(text, sizeof text, as, "inverse");
    float *x = values_as("fp8-block", NULL, text, &n);
    CHECK_OK(st_open(&st, DIR "/fp8-block.safetensors", &e));
    const struct st_tensor *w = stored(st, "model.layers.1.self_attn.k_proj.weight");
    const struct st_tensor *s = stored(st, "model.layers.1.self_attn.k_proj.weight_scale_inv");
    for (int64_t i = 0; w && s && i < n; i++) { /* [64, 128], scales [2, 2] */
        const uint8_t b = w->data[i];
        const int exponent = b >> 3 & 15;
        const float size =
            ldexpf((float)((b & 7) + (exponent ? 8 : 0)), (exponent ? exponent : 1) - 10);
        const float want =
            (b & 128 ? -size : size) / load_f32(s->data + 4 * (i / 4096 * 2 + i / 64 % 2));
        wrong += !(fabsf(x[i] - want) <= 0);
    }
    if (wrong || n != 8192)
        CHECK_FAIL("%lld of %lld values differ", (long long)wrong, (long long)n);
    st_close(st);
    free(x);
    snprintf(text, sizeof text, as, "direct");
    refused_as("fp8-block", text, "weight_scale_semantics \"direct\" is not supported");
}

#define GPTQ4 "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":64"

static void test_rotations_are_refused(void) {
    static const char *const c[][2] = {
        {GPTQ4 ",\"rotation\":\"hadamard\"}", "rotation \"hadamard\" rotates activations"},
        {GPTQ4 ",\"rotation_config\":{\"block_size\":32}}", "rotation_config rotates activations"},
        {"{\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:auto_gptq\","
         "\"rotation_config\":{\"block_size\":32}}",
         "rotation_config rotates activations"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) refused_as("gptq4", c[i][0], c[i][1]);
    build_as("gptq4", NULL, GPTQ4 ",\"rotation\":\"\",\"rotation_config\":{}}");
    check_folder(form("gptq4"));
    build_as("gptq4", NULL, GPTQ4 ",\"rotation\":null,\"rotation_config\":null}");
    check_folder(form("gptq4"));
    build_as("gptq4", NULL, GPTQ4 ",\"rotation\":\"none\",\"rotation_config\":{\"a\":null}}");
    check_folder(form("gptq4"));
}

/* A null in text_config does not hide the root's quantization_config. */
static void test_null_in_text_config(void) {
    in_text_config = true;
    check_form(form("gptq4-act-v2"), NULL);
    check_form(form("fp8-block"), NULL);
    in_text_config = false;
}

/* ---- the same tensors in other shapes, dtypes or names ---- */

/* Stores scales of blocks as [rows, 1, columns, 1]. */
static void spread_blocks(struct st_tensor *t) {
    if (!str_ends(t->name, "_scale_inv")) return;
    t->n_dims = 4;
    t->shape[2] = t->shape[1];
    t->shape[1] = t->shape[3] = 1;
}
/* Keeps one scale per 128 columns, and one row of them. */
static void few_blocks(struct st_tensor *t) {
    if (!str_ends(t->name, "_scale_inv")) return;
    t->shape[0] = 1;
    t->shape[1] = (t->shape[1] + 1) / 2; /* blocks of 64 */
    t->n_elems = t->shape[1];
    t->n_bytes = 4 * (uint64_t)t->shape[1];
}
static void few_spread_blocks(struct st_tensor *t) {
    few_blocks(t);
    spread_blocks(t);
}
/* Stores the bytes of bitsandbytes as numbers. */
static enum st_dtype storage;
static void store_as(struct st_tensor *t) {
    const int64_t size = storage == ST_F32 ? 4 : storage == ST_I8 ? 1 : 2;
    if (!str_ends(t->name, "_proj.weight")) return;
    t->dtype = storage;
    t->shape[0] /= size;
    t->n_elems /= size;
}
static void rename_packed(struct st_tensor *t) {
    static char name[2][64];
    static int n_names;
    const size_t n = strlen(t->name) - strlen("_packed");
    if (!str_ends(t->name, "_packed")) return;
    char *to = name[n_names++ % 2];
    snprintf(to, sizeof name[0], "%.*s", (int)n, t->name);
    t->name = to;
}
/* Adds a group to GPTQ that no column belongs to. */
static void add_group(struct st_tensor *t) {
    static uint8_t copy[4][1 << 12];
    static int n_copies;
    const uint64_t n = t->n_bytes / (uint64_t)t->shape[0];
    if (!str_ends(t->name, "scales") && !str_ends(t->name, "qzeros")) return;
    uint8_t *to = copy[n_copies++ % 4];
    if (t->n_bytes + n > sizeof copy[0]) CHECK_FAIL("%s: too large", t->name);
    memcpy(to, t->data, t->n_bytes);
    memset(to + t->n_bytes, 0, n);
    t->data = to;
    t->n_elems += t->shape[1];
    t->n_bytes += n;
    t->shape[0]++;
}

static void test_other_shapes(void) {
    static const char *const block[][2] = {
        {"ct-fp8-block", "[48,96]"}, {"ct-fp8-block", "\"48x96\""}, {"ct-fp8-tensor", "[]"},
        {"ct-fp8-channel", "false"}, {"ct-fp8-tensor", "\"48x\""},  {"ct-fp8-channel", "128"}};
    int64_t wrong;
    build_as("fp8-block", spread_blocks,
             "{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8_PB_WO\",\"weight_block_size\":["
             "32,64]}");
    check_folder(form("fp8-block"));
    seen = "blk.1.ffn_down.weight";
    wrong = n_differ(
        "fp8-block", few_blocks, "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}",
        few_spread_blocks, "{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8_PB_WO\"}");
    CHECK_EQ_I64(wrong, 0);
    seen = K_PROJ;
    for (size_t i = 0; i < COUNT_OF(block); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_"
                 "groups\":"
                 "{\"a\":{\"weights\":{\"num_bits\":8,\"block_structure\":%s}}}}",
                 block[i][1]);
        build_as(block[i][0], NULL, text);
        check_folder(form(block[i][0]));
    }
    refused_as("ct-fp8-block",
               "{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"a\":{\"weights\":"
               "{\"block_structure\":\"48x\"}}}}",
               "block_structure is not two positive numbers");
    check_form(form("gptq4-act"), add_group);
}

static void test_other_names_and_dtypes(void) {
    static const enum st_dtype of_bytes[] = {ST_BF16, ST_F16, ST_F32, ST_I8};
    for (size_t i = 0; i < COUNT_OF(of_bytes); i++) {
        storage = of_bytes[i];
        check_form(form("bnb-nf4"), store_as);
        check_form(form("bnb-fp4-nested"), store_as);
    }
    build_as("ct-mxfp4", rename_packed, "{\"quant_method\":\"modelopt\",\"quant_algo\":\"MXFP4\"}");
    check_folder(form("ct-mxfp4"));
}

/* ---- zero points of 0 in GPTQ ---- */

static uint32_t keeps, subtracts; /* each word of qzeros: word & keeps, less `subtracts` */
static void change_zeros(struct st_tensor *t) {
    static uint8_t copy[4][1 << 12];
    static int n_copies;
    if (!str_ends(t->name, "qzeros")) return;
    uint8_t *to = copy[n_copies++ % 4];
    if (t->n_bytes > sizeof copy[0]) CHECK_FAIL("%s: too large", t->name);
    for (uint64_t i = 0; i < t->n_bytes; i += 4) {
        const uint32_t word = (load_u32(t->data + i) & keeps) - subtracts;
        memcpy(to + i, &word, 4);
    }
    t->data = to;
}
static void whole_zeros(struct st_tensor *t) {
    subtracts = 0;
    change_zeros(t);
}
static uint32_t ones;
static void less_zeros(struct st_tensor *t) {
    subtracts = ones;
    change_zeros(t);
}

/* GPTQModel stores zero points less 1 by subtracting from words: the value after a 0 lends. */
static void test_zero_points_of_gptqmodel(void) {
    static const struct {
        const char *form;
        int bits;
        uint32_t keeps, ones;
    } c[] = {{"gptq2", 2, 0xfffffff3, 0x55555555},
             {"gptq4-act-v2", 4, 0xfffff0ff, 0x11111111},
             {"gptq8-act", 8, 0xff00ffff, 0x01010101},
             {"gptq3", 3, 0, 1}}; /* values straddle words: each is 7 instead of 0 */
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        char v2[256], alias[256], old[256], model[256];
        static const char as[] = "{\"quant_method\":\"gptq\",\"bits\":%d,\"group_size\":64%s}";
        keeps = c[i].keeps;
        ones = c[i].ones;
        snprintf(v2, sizeof v2, as, c[i].bits, ",\"checkpoint_format\":\"gptq_v2\"");
        snprintf(alias, sizeof alias, as, c[i].bits, ",\"format\":\"gptq_v2\"");
        snprintf(old, sizeof old, as, c[i].bits, ",\"meta\":{\"quantizer\":\"other:1.0\"}");
        snprintf(model, sizeof model, as, c[i].bits,
                 ",\"meta\":{\"quantizer\":[\"optimum:1.24\",\"gptqmodel:5.6.0\"]}");
        CHECK_EQ_I64(n_differ(c[i].form, whole_zeros, v2, whole_zeros, alias), 0);
        CHECK_EQ_I64(n_differ(c[i].form, whole_zeros, v2, less_zeros, model), 0);
        CHECK(n_differ(c[i].form, whole_zeros, v2, less_zeros, old) > 0);
    }
}

int main(void) {
    struct err e;
    tmp_make();
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    CHECK_OK(json_read(&all, DIR "/forms.json", 1 << 20, &e));
    RUN(test_forms_equal_their_tools);
    RUN(test_wrong_shapes_are_refused);
    RUN(test_missing_parts_are_named);
    RUN(test_zero_points_of_older_packers);
    RUN(test_group_indices_are_checked);
    RUN(test_nested_offset_is_a_number);
    RUN(test_groups_in_different_forms);
    RUN(test_groups_are_refused);
    RUN(test_auto_round);
    RUN(test_inverse_scales);
    RUN(test_rotations_are_refused);
    RUN(test_null_in_text_config);
    RUN(test_other_shapes);
    RUN(test_other_names_and_dtypes);
    RUN(test_zero_points_of_gptqmodel);
    json_free(all);
    tmp_remove();
    return check_done();
}
