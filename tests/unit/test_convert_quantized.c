// SPDX-License-Identifier: MIT
/* Quantized checkpoint forms. tests/golden/quantized holds modules as the forms' own tools store
 * them and the SHA-256 of the tools' own dequantization (tests/oracle/quantized.py): put into a
 * golden folder and converted, the bytes must be the same, in f32 and in bf16. */
#include <sys/stat.h>
#include <unistd.h>

#include <math.h>

#include "convert/convert.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "containers/hfdir.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/bytes.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/io.h"
#include "kernels/kern.h"
#include "quantize/quantize.h"
#include "runtime/engine/session.h"
#include "tests/check.h"
#include "tests/unit/st_build.h"
#include "tests/unit/tmpdir.h"

#define DIR "tests/golden/quantized"

static bool removed(const struct json *list, const char *name) {
    for (const struct json *r = json_first(list); r; r = json_next(r))
        if (strncmp(name, json_str(r), strlen(json_str(r))) == 0) return true;
    return false;
}

/* Changes one stored tensor; NULL data in *t: it is left out. */
typedef void (*damage_fn)(struct st_tensor *t);

/* Adds the tensors of a form whose names contain `part`. */
static void add_form(struct st_build *b, const struct json *form, const char *part,
                     damage_fn damage) {
    struct err e;
    struct st *st = NULL;
    char path[512];
    snprintf(path, sizeof path, DIR "/%s.safetensors", json_str(json_get(form, "name")));
    CHECK_OK(st_open(&st, path, &e));
    for (int64_t i = 0; st && i < st_n_tensors(st); i++) {
        struct st_tensor t = *st_tensor_at(st, i);
        if (damage) damage(&t);
        if (t.data && strstr(t.name, part)) st_copy(b, t.name, &t);
    }
    st_close(st);
}

/* Creates a copy of the base folder in <scratch>/hf with its modules replaced by those of one form
 * or, if `down` is not NULL, k_proj by that of `form` and down_proj by that of `down`. */
static void build_two(const struct json *form, const struct json *down, damage_fn damage) {
    static const char *const copied[] = {"tokenizer.json", "tokenizer_config.json"};
    struct err e;
    struct st *st = NULL;
    struct st_build b = {{0}, {0}};
    char path[512];
    snprintf(path, sizeof path, "tests/golden/models/%s/model.safetensors",
             json_str(json_get(form, "base")));
    CHECK_OK(st_open(&st, path, &e));
    for (int64_t i = 0; st && i < st_n_tensors(st); i++) {
        const struct st_tensor *t = st_tensor_at(st, i);
        if (!removed(json_get(form, "remove"), t->name)) st_copy(&b, t->name, t);
    }
    st_close(st);
    add_form(&b, form, down ? "k_proj" : "", damage);
    if (down) add_form(&b, down, "down_proj", damage);
    mkdir(tmp_path("hf"), 0700);
    st_finish(&b, tmp_path("hf/model.safetensors"));
    for (size_t i = 0; i < COUNT_OF(copied); i++) {
        char *p = NULL, to[64];
        size_t n = 0;
        snprintf(path, sizeof path, "tests/golden/models/%s/%s", json_str(json_get(form, "base")),
                 copied[i]);
        snprintf(to, sizeof to, "hf/%s", copied[i]);
        CHECK_OK(io_read_file(&p, &n, path, 1 << 24, &e));
        tmp_write(to, p, n);
        free(p);
    }
}

static void build(const struct json *form, damage_fn damage) {
    build_two(form, NULL, damage);
}

static void dump(struct jw *w, const char *name, const struct json *j) {
    int64_t v;
    switch (json_type(j)) {
    case JSON_OBJ:
    case JSON_ARR:
        if (json_type(j) == JSON_OBJ)
            jw_obj(w, name);
        else
            jw_arr(w, name);
        for (const struct json *c = json_first(j); c; c = json_next(c))
            dump(w, json_type(j) == JSON_OBJ ? json_name(c) : NULL, c);
        jw_end(w);
        break;
    case JSON_STR:
        jw_str(w, name, json_str(j));
        break;
    case JSON_NUM:
        if (json_i64(j, &v))
            jw_i64(w, name, v);
        else
            jw_num(w, name, json_num(j, 0));
        break;
    case JSON_BOOL:
        jw_bool(w, name, json_bool(j, false));
        break;
    case JSON_NULL:
        jw_null(w, name);
        break;
    }
}

/* Writes the base's config.json with a quantization_config. */
static bool in_text_config; /* the base's members are in a text_config, with a null */
static void write_quantization(const struct json *form, const struct json *quantization) {
    struct err e;
    struct json *cfg = NULL;
    struct buf b = {0};
    struct jw w;
    char path[512];
    snprintf(path, sizeof path, "tests/golden/models/%s/config.json",
             json_str(json_get(form, "base")));
    CHECK_OK(json_read(&cfg, path, 1 << 20, &e));
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    for (const struct json *c = json_first(cfg); c; c = json_next(c)) dump(&w, json_name(c), c);
    dump(&w, "quantization_config", quantization);
    if (in_text_config) {
        jw_obj(&w, "text_config");
        for (const struct json *c = json_first(cfg); c; c = json_next(c)) dump(&w, json_name(c), c);
        jw_null(&w, "quantization_config");
        jw_end(&w);
    }
    jw_end(&w);
    tmp_write("hf/config.json", b.data, b.len);
    buf_release(&b);
    json_free(cfg);
}

/* Writes the base's config.json with the form's quantization_config. */
static void write_config(const struct json *form) {
    write_quantization(form, json_get(form, "quantization_config"));
}

static bool keep; /* --keep-mxfp4 */
static int convert(const char *type, struct convert_report *r, struct err *e) {
    struct convert_opts o = {.src = tmp_path("hf"),
                             .out = tmp_path("out.gguf"),
                             .type = type,
                             .keep_mxfp4 = keep,
                             .overwrite = true};
    return convert_run(&o, r, e);
}

static void check_hash(const struct gguf *g, const char *form, const char *name, const char *want,
                       const char *type) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    struct sha256 h;
    char hex[65] = "";
    if (t) {
        CHECK_EQ_STR(qtype_name(t->type), type);
        sha256_init(&h);
        sha256_add(&h, t->data, t->n_bytes);
        sha256_hex(&h, hex);
    }
    if (strcmp(hex, want) != 0)
        CHECK_FAIL("%s: %s as %s differs from the tool's own", form, name, type);
}

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

static struct json *all;

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

static const struct json *form(const char *name) {
    for (const struct json *f = json_first(all); f; f = json_next(f))
        if (strcmp(json_str(json_get(f, "name")), name) == 0) return f;
    CHECK_FAIL("no form %s", name);
    return NULL;
}

/* Returns the tensor of the form's stored file; NULL: it has none of this name. */
static const struct st_tensor *stored(const struct st *st, const char *name) {
    for (int64_t i = 0; i < st_n_tensors(st); i++)
        if (strcmp(st_tensor_at(st, i)->name, name) == 0) return st_tensor_at(st, i);
    CHECK_FAIL("no tensor %s", name);
    return NULL;
}

static void refused(const char *name, damage_fn damage, const char *message) {
    struct err e = {0};
    struct convert_report r;
    build(form(name), damage);
    write_config(form(name));
    unlink(tmp_path("out.gguf"));
    CHECK_ERR(convert("f32", &r, &e), ERR_DATA, message);
    CHECK(!io_exists(tmp_path("out.gguf")));
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

/* ---- kept blocks ---- */

/* Decodes the tensor to f32 with the reference decoders and checks its type. */
static float *decoded(const struct gguf *g, const char *name, const char *type, int64_t *n) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    struct kern *k = xcalloc(1, sizeof *k);
    *n = t ? t->ne[0] * t->ne[1] * t->ne[2] : 0;
    float *x = xcalloc((size_t)*n + 1, sizeof *x);
    kern_init(k, KERN_REF);
    if (t) CHECK_EQ_STR(qtype_name(t->type), type);
    if (t) k->op[t->type].decode(t->data, x, *n);
    free(k);
    return x;
}

/* Checks that kept blocks have exactly the values of the dequantized tensors, whose bytes equal
 * those of the tools (check_form); a -0 in the folder is 0 there. */
static void kept(const char *name, int64_t n_kept) {
    struct err e;
    struct convert_report r;
    struct gguf *g[2] = {NULL, NULL};
    build(form(name), NULL);
    write_config(form(name));
    for (int i = 0; i < 2; i++) {
        keep = i;
        CHECK_OK(convert("bf16", &r, &e));
        CHECK_EQ_I64(r.n_kept, i ? n_kept : 0);
        CHECK_OK(gguf_open(&g[i], tmp_path("out.gguf"), 0, &e));
        unlink(tmp_path("out.gguf")); /* the mapping stays valid */
    }
    keep = false;
    for (const struct json *t = json_first(json_get(form(name), "expected")); t && g[1];
         t = json_next(t)) {
        int64_t n, m, zeros = 0, wrong = 0;
        float *want = decoded(g[0], json_name(t), "BF16", &n);
        float *have = decoded(g[1], json_name(t), "MXFP4", &m);
        CHECK_EQ_I64(n, m);
        for (int64_t i = 0; i < n && n == m; i++) {
            zeros += fabsf(want[i]) > 0 ? 0 : 1;
            wrong += fabsf(want[i] - have[i]) > 0 ? 1 : 0;
        }
        if (wrong) CHECK_FAIL("%s: %lld values differ", json_name(t), (long long)wrong);
        CHECK(n > 0 && zeros < n / 2);
        free(want);
        free(have);
    }
    CHECK_EQ_I64(gguf_u64_or(g[1], "general.file_type", 0), 38);
    gguf_close(g[0]);
    gguf_close(g[1]);
}
static void infinite_scale(struct st_tensor *t) {
    static uint8_t copy[1 << 16];
    size_t n = strlen(t->name);
    if (n < 7 || strcmp(t->name + n - 7, "_scales") != 0 || t->n_bytes > sizeof copy) return;
    memcpy(copy, t->data, t->n_bytes);
    copy[t->n_bytes - 1] = 255;
    t->data = copy;
}
static void test_mxfp4_is_kept(void) {
    kept("ct-mxfp4", 2);
    kept("mxfp4-blocks", 3);
    keep = true;
    refused("mxfp4-blocks", infinite_scale, "gate_up_proj_blocks are not numbers");
    keep = false;
}

/* ---- NVFP4 ---- */

/* Checks that matrix m of an NVFP4 tensor has the codes and scales of the module as stored. */
static void check_bits(const struct gguf_tensor *t, int64_t m, const struct st *st,
                       const char *module, const char *codes) {
    char name[2][160];
    snprintf(name[0], sizeof name[0], "%s.%s", module, codes);
    snprintf(name[1], sizeof name[1], "%s.weight_scale", module);
    const struct st_tensor *q = stored(st, name[0]), *sc = stored(st, name[1]);
    int64_t wrong = 0;
    for (int64_t i = 0; q && sc && i < t->ne[0] * t->ne[1]; i++) {
        const uint8_t *b = t->data + (m * t->ne[0] * t->ne[1] + i) / 64 * 36;
        const int64_t k = i % 64 / 16, at = i % 16;
        const uint8_t pair = b[4 + 8 * k + at % 8], src = q->data[i / 2];
        wrong += (at < 8 ? pair & 15 : pair >> 4) != (i % 2 ? src >> 4 : src & 15);
        wrong += b[k] != sc->data[i / 16];
    }
    if (wrong) CHECK_FAIL("%s: %lld codes or scales differ", module, (long long)wrong);
}

/* Checks that a file of kept NVFP4 blocks has the form's bits, and with X.scale the values that the
 * form's tool decodes, up to the rounding of one product. */
static void nvfp4_kept(const char *name, int64_t n_kept) {
    struct err e;
    struct convert_report r;
    struct gguf *g[2] = {NULL, NULL};
    build(form(name), NULL);
    write_config(form(name));
    CHECK_OK(convert(NULL, &r, &e));
    CHECK_EQ_I64(r.n_nvfp4, n_kept);
    CHECK(rename(tmp_path("out.gguf"), tmp_path("kept.gguf")) == 0);
    CHECK_OK(convert("f32", &r, &e));
    CHECK_EQ_I64(r.n_nvfp4, 0);
    CHECK_OK(gguf_open(&g[0], tmp_path("out.gguf"), 0, &e));
    CHECK_OK(gguf_open(&g[1], tmp_path("kept.gguf"), 0, &e));
    for (const struct json *t = json_first(json_get(form(name), "expected")); t && g[1];
         t = json_next(t)) {
        int64_t n, m, n_scales = 0, wrong = 0;
        float *want = decoded(g[0], json_name(t), "F32", &n);
        float *have = decoded(g[1], json_name(t), "NVFP4", &m);
        const float *s = gguf_scales(g[1], gguf_find_tensor(g[1], json_name(t)), &n_scales);
        CHECK(s && n == m && n > 0);
        for (int64_t i = 0; s && i < n && n == m; i++)
            wrong += fabsf(have[i] * s[i / (n / n_scales)] - want[i]) > 3e-7f * fabsf(want[i]);
        if (wrong) CHECK_FAIL("%s: %lld values differ", json_name(t), (long long)wrong);
        free(want);
        free(have);
    }
    CHECK_EQ_I64(gguf_u64_or(g[1], "general.file_type", 0), 39);
    gguf_close(g[0]);
    gguf_close(g[1]);
}

/* Returns the logits of a token after some others, with f32 activations. */
static float *logits_of(const char *file, const char *quantized, int64_t *n) {
    static const int32_t ids[] = {5, 100, 7, 300, 9, 11};
    struct err e = {0};
    struct model *m = NULL;
    struct session *s = NULL;
    const struct session_opts o = {.n_ctx = 16};
    CHECK_OK(model_open(&m, tmp_path(file), &e));
    if (m && quantized) CHECK_EQ_STR(qtype_name(model_find_weight(m, quantized)->type), "Q8_0");
    *n = m ? m->hp.d[HD_VOCAB] : 0;
    float *l = xcalloc((size_t)*n + 1, sizeof *l);
    if (m) CHECK_OK(session_new(&s, m, &o, &e));
    if (s) CHECK_OK(session_step(s, ids, COUNT_OF(ids), l, &e));
    session_free(s);
    model_close(m);
    return l;
}

/* Checks that the runtime computes the same from kept.gguf as from the decoded weights. */
static void same_logits(const char *file, const char *quantized, double tolerance) {
    int64_t n, m;
    double most = 0, size = 0;
    float *want = logits_of("out.gguf", NULL, &n), *have = logits_of(file, quantized, &m);
    CHECK_EQ_I64(n, m);
    for (int64_t i = 0; i < n && n == m; i++) {
        most = fmax(most, (double)fabsf(want[i] - have[i]));
        size = fmax(size, (double)fabsf(want[i]));
    }
    printf("%s: logits up to %.3g differ by %.3g\n", file, size, most);
    if (!(most <= tolerance * size && size > 0)) CHECK_FAIL("%s: other logits", file);
    free(want);
    free(have);
}

static void nan_scale(struct st_tensor *t) {
    static uint8_t copy[1 << 16];
    size_t n = strlen(t->name);
    if (n < 13 || strcmp(t->name + n - 13, ".weight_scale") != 0 || t->n_bytes > sizeof copy)
        return;
    memcpy(copy, t->data, t->n_bytes);
    copy[t->n_bytes / 2] = 0x7f;
    t->data = copy;
}

/* Adds the matrices `from` of layer 1's experts, one below the other, as one tensor `to` with the
 * second scale of the first. turned: its shapes are those of transposed matrices. */
static void fuse(struct st_build *b, const struct st *st, const char *to, const char *const from[2],
                 bool turned) {
    static const char *const part[][2] = {
        {"weight", ""}, {"weight_scale", "_weight_scale"}, {"weight_scale_2", "_weight_scale_2"}};
    for (size_t p = 0; p < COUNT_OF(part); p++) {
        struct buf bytes = {0};
        char name[160];
        const struct st_tensor *t = NULL;
        for (int i = 0; i < 16; i++) {
            if (!from[i % 2] || (p == 2 && i % 2)) continue;
            snprintf(name, sizeof name, "model.layers.1.mlp.experts.%d.%s.%s", i / 2, from[i % 2],
                     part[p][0]);
            t = stored(st, name);
            if (t) buf_add(&bytes, t->data, (size_t)t->n_bytes);
        }
        int64_t shape[3] = {8};
        if (t && p < 2) {
            shape[1] = t->shape[0] * (from[1] ? 2 : 1);
            shape[2] = t->shape[1];
        }
        if (turned && p < 2) {
            const int64_t rows = shape[1];
            shape[1] = shape[2];
            shape[2] = rows;
        }
        snprintf(name, sizeof name, "model.layers.1.mlp.experts.%s%s", to, part[p][1]);
        if (t)
            st_add(b, name, st_dtype_name(t->dtype), p < 2 ? 3 : 1, shape, bytes.data, bytes.len);
        buf_release(&bytes);
    }
}

/* ModelOpt's names of fused experts. */
static void test_fused_nvfp4(void) {
    static const char *const gate_up[] = {"gate_proj", "up_proj"}, *const down[] = {"down_proj",
                                                                                    NULL};
    static const char *const same[] = {"blk.1.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight"};
    const struct json *f = form("nvfp4-experts");
    for (int turned = 0; turned < 2; turned++) {
        struct err e;
        struct st *base = NULL, *st = NULL;
        struct st_build b = {{0}, {0}};
        struct gguf *g = NULL;
        struct convert_report r;
        build(f, NULL);
        write_config(f);
        CHECK_OK(st_open(&base, "tests/golden/models/qwen3moe/model.safetensors", &e));
        CHECK_OK(st_open(&st, DIR "/nvfp4-experts.safetensors", &e));
        for (int64_t i = 0; base && i < st_n_tensors(base); i++) {
            const struct st_tensor *t = st_tensor_at(base, i);
            if (!removed(json_get(f, "remove"), t->name)) st_copy(&b, t->name, t);
        }
        fuse(&b, st, "gate_up_proj", gate_up, false);
        fuse(&b, st, "down_proj", down, turned);
        unlink(tmp_path("hf/model.safetensors"));
        st_finish(&b, tmp_path("hf/model.safetensors"));
        st_close(base);
        st_close(st);
        if (turned) {
            CHECK_ERR(convert("f32", &r, &e), ERR_DATA, "holds transposed matrices");
            continue;
        }
        CHECK_OK(convert("f32", &r, &e));
        CHECK_OK(gguf_open(&g, tmp_path("out.gguf"), 0, &e));
        for (size_t i = 0; g && i < COUNT_OF(same); i++) {
            const struct json *want = json_get(json_get(f, "expected"), same[i]);
            check_hash(g, "fused", same[i], json_str(json_get(want, "f32")), "F32");
        }
        gguf_close(g);
    }
}

static void test_nvfp4_is_kept(void) {
    struct err e;
    struct st *st = NULL;
    struct gguf *g = NULL;
    struct convert_report r;
    struct quantize_report q;
    nvfp4_kept("ct-nvfp4", 2);
    same_logits("kept.gguf", NULL, 2e-6);
    nvfp4_kept("modelopt-nvfp4", 2);
    same_logits("kept.gguf", NULL, 2e-6);
    nvfp4_kept("nvfp4-experts", 3);
    same_logits("kept.gguf", NULL, 2e-6);
    /* the bits of dense matrices and experts */
    CHECK_OK(gguf_open(&g, tmp_path("kept.gguf"), 0, &e));
    CHECK_OK(st_open(&st, DIR "/nvfp4-experts.safetensors", &e));
    for (int m = 0; g && st && m < 8; m++) {
        char module[128];
        snprintf(module, sizeof module, "model.layers.1.mlp.experts.%d.down_proj", m);
        check_bits(gguf_find_tensor(g, "blk.1.ffn_down_exps.weight"), m, st, module, "weight");
    }
    st_close(st);
    gguf_close(g);
    /* a quantized copy keeps the scales, and its weights are quantized without them */
    const struct quantize_opts o = {.in = tmp_path("kept.gguf"),
                                    .out = tmp_path("q.gguf"),
                                    .recipe = "q8_0",
                                    .pure = true,
                                    .overwrite = true};
    CHECK_OK(quantize_run(&o, &q, &e));
    quantize_report_release(&q);
    same_logits("q.gguf", "blk.1.ffn_gate_exps.weight", 0.02);
    /* other types decode them; NaN is refused */
    build(form("nvfp4-experts"), NULL);
    CHECK_OK(convert("bf16", &r, &e));
    CHECK_EQ_I64(r.n_nvfp4, 0);
    build(form("nvfp4-experts"), nan_scale);
    unlink(tmp_path("out.gguf"));
    CHECK_ERR(convert(NULL, &r, &e), ERR_DATA, "gate_proj.weight are negative or not numbers");
    CHECK(!io_exists(tmp_path("out.gguf")));
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
    RUN(test_fused_nvfp4);
    RUN(test_mxfp4_is_kept);
    RUN(test_nvfp4_is_kept);
    json_free(all);
    tmp_remove();
    return check_done();
}
