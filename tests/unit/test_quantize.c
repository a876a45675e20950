// SPDX-License-Identifier: MIT
/* The quantization driver on a small synthetic file: types and keys of the output, importance
 * slices per expert, output that does not depend on the number of threads, plans, patterns, and
 * everything that it must refuse. */
#include "tests/check.h"

#include <math.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fp.h"
#include "containers/gguf.h"
#include "quantize/imat_file.h"
#include "base/io.h"
#include "base/out.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rng.h"
#include "kernels/kern.h"
#include "quantize/enc/raw.h"
#include "quantize/qplan.h"
#include "quantize/quantize.h"
#include "quantize/record.h"

static char dir[64];
static char *path(const char *name) {
    static char buf[8][128];
    static int at;
    char *p = buf[at++ % 8];
    snprintf(p, 128, "%s/%s", dir, name);
    return p;
}

struct spec {
    const char *name;
    int64_t ne[3];
    enum qtype type;
};
static const struct spec tensors[] = {
    {"token_embd.weight", {256, 40, 1}, QT_F32},
    {"blk.0.attn_norm.weight", {256, 1, 1}, QT_F32},
    {"blk.0.attn_v.weight", {256, 33, 1}, QT_BF16},
    {"blk.0.attn_output.weight", {96, 256, 1}, QT_F16},
    {"blk.0.ffn_gate_inp.weight", {256, 3, 1}, QT_F32},
    {"blk.0.ffn_down_exps.weight", {512, 10, 3}, QT_BF16},
    {"blk.1.ffn_up_exps.weight", {256, 12, 3}, QT_F32},
    {"output.weight", {256, 40, 1}, QT_BF16},
};
enum { N_T = sizeof tensors / sizeof tensors[0] };
static float *values[N_T]; /* values as stored in the file */

static int64_t count(const struct spec *s) {
    return s->ne[0] * s->ne[1] * s->ne[2];
}

/* Writes the model. `bad` >= 0: index of a tensor that gets bad_value at element bad_at. */
static void write_model(const char *file, int bad, int64_t bad_at, float bad_value) {
    struct err e;
    struct rng r;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "testarch");
    gguf_w_str(w, "general.name", "made up");
    gguf_w_u32(w, "general.file_type", 0);
    gguf_w_u32(w, "testarch.block_count", 2);
    gguf_w_u32(w, "testarch.attention.head_count", 4);
    gguf_w_u32(w, "testarch.expert_count", 3);
    for (int i = 0; i < N_T; i++)
        CHECK_OK(gguf_w_tensor(w, tensors[i].name, tensors[i].type, 3, tensors[i].ne, &e));
    CHECK_OK(gguf_w_begin(w, file, true, &e));
    rng_seed(&r, 5);
    for (int i = 0; i < N_T; i++) {
        int64_t n = count(&tensors[i]);
        uint8_t *bytes = xmalloc((size_t)n * 4);
        if (!values[i]) values[i] = xmalloc((size_t)n * sizeof(float));
        for (int64_t k = 0; k < n; k++) values[i][k] = 0.1f * rng_normal(&r);
        if (i == bad) values[i][bad_at] = bad_value;
        for (int64_t k = 0; k < n; k += tensors[i].ne[0])
            enc_find(tensors[i].type)
                ->row(values[i] + k, NULL, tensors[i].ne[0],
                      bytes + qtype_row_bytes(tensors[i].type, tensors[i].ne[0]) *
                                  (size_t)(k / tensors[i].ne[0]),
                      SEARCH_FAST);
        if (i == bad && tensors[i].type == QT_BF16 && isnan(bad_value))
            bytes[2 * bad_at + 1] = 0x7f, bytes[2 * bad_at] = 0xc0;
        CHECK_OK(gguf_w_data(w, bytes,
                             qtype_row_bytes(tensors[i].type, tensors[i].ne[0]) *
                                 (uint64_t)(n / tensors[i].ne[0]),
                             &e));
        free(bytes);
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

static void write_imatrix(const char *file, int64_t down_cols) {
    struct err e;
    struct imat m;
    struct rng r;
    imat_init(&m);
    rng_seed(&r, 9);
    struct imat_entry *en = imat_add(&m, "blk.0.ffn_down_exps.weight", down_cols, 3);
    for (int64_t i = 0; i < 3 * down_cols; i++)
        en->sum2[i] = 100 * rng_unit(&r) * (i % 7 == 0 ? 50 : 1);
    for (int k = 0; k < 3; k++) en->count[k] = 1000 * (k + 1);
    en = imat_add(&m, "blk.0.attn_v.weight", 256, 1);
    for (int64_t i = 0; i < 256; i++) en->sum2[i] = rng_unit(&r);
    en->count[0] = 10;
    imat_add_dataset(&m, "calib.txt");
    m.n_chunks = 12;
    m.chunk_size = 512;
    CHECK_OK(imat_write(&m, file, IMAT_GGUF, true, &e));
    imat_release(&m);
}

static struct quantize_opts base_opts(const char *recipe, const char *out) {
    return (struct quantize_opts){
        .in = path("in.gguf"), .out = out, .recipe = recipe, .overwrite = true, .want_rows = true};
}

static enum qtype type_in(const struct gguf *g, const char *name) {
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    return t ? t->type : QT_COUNT;
}

static void test_types_keys_sizes(void) {
    struct err e;
    struct quantize_report r;
    struct gguf *g;
    uint64_t size = 0;
    struct quantize_opts o = base_opts("q4_k_m", path("a.gguf"));
    o.imatrix = path("imat.gguf");
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_STR(r.recipe, "Q4_K_M");
    CHECK_EQ_I64(r.n_tensors, N_T);
    CHECK_EQ_I64(r.n_quantized, 6);
    CHECK_EQ_I64(r.n_fallbacks, 1);
    CHECK_EQ_I64(r.n_no_imatrix,
                 3); /* attn_output, ffn_up_exps, output; token_embd does not count */
    CHECK_OK(io_file_size(path("a.gguf"), &size, &e));
    CHECK_EQ_I64(r.file_bytes, size);
    CHECK_OK(gguf_open(&g, path("a.gguf"), 0, &e));
    CHECK_EQ_I64(type_in(g, "token_embd.weight"), QT_Q4_K);
    CHECK_EQ_I64(type_in(g, "blk.0.attn_norm.weight"), QT_F32);
    CHECK_EQ_I64(type_in(g, "blk.0.attn_output.weight"), QT_Q5_0); /* 96 columns */
    CHECK_EQ_I64(type_in(g, "blk.0.ffn_gate_inp.weight"), QT_F32);
    CHECK_EQ_I64(type_in(g, "output.weight"), QT_Q6_K);
    CHECK_EQ_I64(gguf_u64_or(g, "general.file_type", 99), 15);
    CHECK_EQ_I64(gguf_u64_or(g, "general.quantization_version", 0), 2);
    CHECK_EQ_STR(gguf_str_or(g, "general.name", ""), "made up");
    CHECK_EQ_STR(gguf_str_or(g, "quantize.imatrix.file", ""), "imat.gguf"); /* no folder */
    CHECK_EQ_STR(gguf_str_or(g, "quantize.imatrix.dataset", ""), "calib.txt");
    CHECK_EQ_I64(gguf_u64_or(g, "quantize.imatrix.entries_count", 0), 2);
    CHECK_EQ_I64(gguf_u64_or(g, "quantize.imatrix.chunks_count", 0), 12);
    gguf_close(g);
    quantize_report_release(&r);
}

/* Checks that expert e is encoded with its own slice, which is sum2/count without shrinkage. */
static void test_expert_slices(void) {
    static struct enc_raw open[16];
    struct err e;
    struct quantize_report r;
    struct gguf *g;
    struct quantize_opts o = base_opts("Q4_K_S", path("b.gguf"));
    struct imat m;
    o.imatrix = path("imat.gguf");
    o.tau = -1;
    CHECK_OK(quantize_run(&o, &r, &e));
    quantize_report_release(&r);
    CHECK_OK(gguf_open(&g, path("b.gguf"), 0, &e));
    const struct gguf_tensor *t = gguf_find_tensor(g, "blk.0.ffn_down_exps.weight");
    imat_init(&m);
    CHECK_OK(imat_read(&m, path("imat.gguf"), &e));
    const struct imat_entry *en = imat_find(&m, "blk.0.ffn_down_exps.weight");
    const float *x = values[5];
    for (int k = 0; k < 3; k++) {
        float imp[512], in[512];
        uint8_t want[512];
        size_t row_bytes = qtype_row_bytes(t->type, 512);
        for (int i = 0; i < 512; i++) imp[i] = (float)(en->sum2[512 * k + i] / en->count[k]);
        for (int j = 0; j < 10; j++) {
            for (int i = 0; i < 512; i++)
                in[i] = fp_bf16_to_f32(fp_f32_to_bf16(x[(k * 10 + j) * 512 + i]));
            enc_row_balanced(enc_blocks_find(t->type), in, imp, 512, want, SEARCH_FAST, open);
            CHECK(memcmp(want, t->data + row_bytes * (size_t)(k * 10 + j), row_bytes) == 0);
        }
    }
    imat_release(&m);
    gguf_close(g);
}

static void read_all(const char *file, char **data, size_t *len) {
    struct err e;
    *data = NULL;
    *len = 0;
    CHECK_OK(io_read_file(data, len, file, 1 << 28, &e));
}

static void test_same_bytes_for_any_thread_count(void) {
    static const char *const recipe[] = {"Q3_K_M", "IQ4_XS", "Q8_0"};
    static const int threads[] = {2, 7};
    for (size_t k = 0; k < 3; k++) {
        struct err e;
        struct quantize_report r;
        char *want, *got;
        size_t n_want, n_got;
        struct quantize_opts o = base_opts(recipe[k], path("t1.gguf"));
        o.imatrix = path("imat.gguf");
        o.search = k == 1 ? SEARCH_BEST : SEARCH_FAST;
        CHECK_OK(quantize_run(&o, &r, &e));
        quantize_report_release(&r);
        read_all(path("t1.gguf"), &want, &n_want);
        for (int t = 0; t < 2; t++) {
            o.out = path("tn.gguf");
            CHECK_OK(pool_new(&o.pool, threads[t], &e));
            CHECK_OK(quantize_run(&o, &r, &e));
            quantize_report_release(&r);
            pool_free(o.pool);
            o.pool = NULL;
            read_all(path("tn.gguf"), &got, &n_got);
            CHECK(n_got == n_want && memcmp(got, want, n_want) == 0);
            free(got);
        }
        free(want);
    }
}

static void test_refuses(void) {
    struct err e;
    struct quantize_report r;
    struct quantize_opts o = base_opts("Q4_K_M", path("a.gguf"));
    o.overwrite = false;
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "-f");
    o = base_opts("Q4_K_M", path("in.gguf"));
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "same file");
    o = base_opts("Q4_K_X", path("x.gguf"));
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "hone recipes");
    o = base_opts("Q8_1", path("x.gguf"));
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "cannot be written");
    o = base_opts("Q4_K_M", path("x.gguf"));
    o.imatrix = path("wrong.gguf");
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, "belongs to another model");
    o.imatrix = path("absent.gguf");
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "absent.gguf");
    o = base_opts("Q4_K_M", path("x.gguf"));
    struct quant_override ov = {"attn_(", QT_Q8_0};
    o.over = &ov;
    o.n_over = 1;
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "regular expression");
    CHECK(!io_exists(path("x.gguf")));
}

/* Checks that an all-zero importance matrix is refused like a missing one if it concerns a whole
 * tensor, that an expert of zeros gets the mean of the others, and that an importance matrix is not
 * accepted as a model. */
static void test_matrix_without_information(void) {
    struct err e = {0};
    struct quantize_report r;
    struct imat m;
    struct quantize_opts o = {.in = path("in.gguf"),
                              .out = path("blind.gguf"),
                              .recipe = "IQ2_XXS",
                              .imatrix = path("zero.gguf"),
                              .overwrite = true};
    imat_init(&m);
    m.chunk_size = 512;
    imat_add_dataset(&m, "calib.txt");
    for (int i = 0; i < N_T; i++) {
        struct imat_entry *en = imat_add(&m, tensors[i].name, tensors[i].ne[0], tensors[i].ne[2]);
        for (int64_t k = 0; k < en->n_mat; k++) en->count[k] = 512;
        for (int64_t k = 0; k < en->n_mat * en->ne0; k++) en->sum2[k] = (double)(k % 7) + 1;
    }
    CHECK_OK(imat_write(&m, o.imatrix, IMAT_GGUF, true, &e));
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.n_no_imatrix, 0);
    quantize_report_release(&r);
    struct imat_entry *en = imat_find(&m, "blk.1.ffn_up_exps.weight");
    memset(en->sum2, 0, (size_t)en->ne0 * sizeof *en->sum2); /* one expert */
    CHECK_OK(imat_write(&m, o.imatrix, IMAT_GGUF, true, &e));
    CHECK_OK(quantize_run(&o, &r, &e));
    quantize_report_release(&r);
    memset(en->sum2, 0, (size_t)(en->n_mat * en->ne0) * sizeof *en->sum2);
    CHECK_OK(imat_write(&m, o.imatrix, IMAT_GGUF, true, &e));
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE,
              "blk.1.ffn_up_exps.weight: recipe IQ2_XXS gives it IQ2_XXS, which is too coarse");
    o.recipe = "Q4_K_S";
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.n_no_imatrix, 1);
    quantize_report_release(&r);
    o.in = o.imatrix;
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, "is an importance matrix, not a model");
    imat_release(&m);
}

static void test_not_finite(void) {
    struct err e;
    struct quantize_report r;
    struct quantize_opts o = base_opts("Q8_0", path("x.gguf"));
    o.in = path("bad.gguf");
    write_model(path("bad.gguf"), 5, 512 * 13 + 77, NAN);
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA,
              "tensor blk.0.ffn_down_exps.weight holds NaN or infinity at row 13, column 77");
    write_model(path("bad.gguf"), 1, 3, -INFINITY); /* found even in tensors that are copied */
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, "blk.0.attn_norm.weight");
    static const struct {
        const char *recipe;
        float value;
    } large[] = {{"F16", 1e6f},   {"Q8_0", 1e10f}, {"Q8_0", -3e38f}, {"Q5_1", 1e6f},
                 {"Q4_K", 3e38f}, {"F16", 2e5f},   {"Q4_1", 7e4f},   {"NVFP4", -3e3f}};
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        o = base_opts(large[i].recipe, path("x.gguf"));
        o.in = path("bad.gguf");
        write_model(path("bad.gguf"), 5, 512 * 13 + 77, large[i].value);
        CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, "row 13, column 77 is too large for");
    }
    CHECK(!io_exists(path("x.gguf")));
    write_model(path("in.gguf"), -1, 0, 0);
}

static void write_text(const char *file, const char *text) {
    struct err e;
    CHECK_OK(out_write_file(file, text, strlen(text), true, &e));
}

static void test_plans(void) {
    struct err e;
    struct quantize_report r;
    char *a, *b;
    size_t na, nb;
    struct quantize_opts o = base_opts("Q4_K_M", path("p1.gguf"));
    o.plan_out = path("plan.tsv");
    CHECK_OK(quantize_run(&o, &r, &e));
    quantize_report_release(&r);
    o = base_opts(path("plan.tsv"), path("p2.gguf"));
    CHECK_OK(quantize_run(&o, &r, &e));
    quantize_report_release(&r);
    read_all(path("p1.gguf"), &a, &na);
    read_all(path("p2.gguf"), &b, &nb);
    CHECK(na == nb && memcmp(a, b, na) == 0);
    free(a);
    free(b);
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"# c\nnone.weight\tQ4_K\n", ":2: the model has no tensor named none.weight"},
        {"output.weight\tQ4_K\noutput.weight\tQ4_K\n", ":2: tensor output.weight is listed twice"},
        {"output.weight\tQ9\n", ":1: Q9 is not a type"},
        {"\xef\xbb\xbfoutput.weight\tQ9\n", ":1: Q9 is not a type"}, /* a byte order mark */
        {"output.weight\n", ":1: expected"},
        {"output.weight Q8_1\n", ":1: type Q8_1 cannot be written"},
        {"blk.0.attn_norm.weight\tQ8_0\n", "never quantized"},
        {"blk.0.attn_output.weight\tQ4_K\n", "try Q5_0"},
        {"output.weight\tQ4_K\n", "no line for tensor token_embd.weight"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text(path("bad.tsv"), bad[i].text);
        o = base_opts(path("bad.tsv"), path("x.gguf"));
        CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, bad[i].says);
    }
}

static void test_overrides_and_pure(void) {
    struct err e;
    struct quantize_report r;
    struct quantize_opts o = base_opts("Q4_K_M", NULL);
    const struct quant_override ov[] = {
        {"FFN_(up|down)_exps", QT_Q6_K}, {"exps", QT_Q2_K}, {"attn_output", QT_Q6_K}};
    o.dry_run = true;
    o.over = ov;
    o.n_over = 3;
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.rows[5].to, QT_Q6_K); /* the first match wins, case does not matter */
    CHECK_EQ_I64(r.rows[6].to, QT_Q6_K);
    CHECK_EQ_I64(r.rows[3].to, QT_Q8_0); /* 96 columns: Q6_K falls back */
    CHECK(r.rows[3].fallback);
    CHECK_EQ_I64(r.rows[4].to, QT_F32);
    quantize_report_release(&r);
    o = base_opts("Q4_K_M", NULL);
    o.dry_run = o.pure = true;
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.rows[7].to, QT_Q4_K);
    quantize_report_release(&r);
    o.recipe = "q2_k";
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.rows[3].to, QT_IQ4_NL);
    quantize_report_release(&r);
    o.recipe = "IQ2_S"; /* as in llama.cpp, the preset's default type is another */
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.rows[7].to, QT_IQ2_XS);
    quantize_report_release(&r);
}

/* Checks that a type's name gives that type, even if a preset has the same name. */
static void test_types_by_name(void) {
    struct err e;
    struct quantize_report r;
    for (int t = 0; t < QT_COUNT; t++) {
        if (!enc_find((enum qtype)t)) continue;
        struct quantize_opts o = base_opts(qtype_name((enum qtype)t), NULL);
        o.dry_run = o.pure = o.is_type = true;
        CHECK_OK(quantize_run(&o, &r, &e));
        CHECK_EQ_I64(r.rows[7].to, t);
        CHECK_EQ_STR(r.recipe, o.recipe);
        quantize_report_release(&r);
    }
}

/* Checks that the record of a dry run is as long as that of a run, without reading the inputs. */
static void test_record_of_dry_run(void) {
    struct err e;
    struct gguf *g;
    struct buf run = {0}, dry = {0};
    struct quantize_opts o = base_opts("Q4_K_M", NULL);
    CHECK_OK(gguf_open(&g, o.in, 0, &e));
    o.imatrix = o.gram = path("imat.gguf");
    CHECK_OK(record_text(&run, &o, g, &e));
    o.imatrix = o.gram = path("absent.gguf");
    o.dry_run = true;
    CHECK_OK(record_text(&dry, &o, g, &e));
    CHECK_EQ_I64(dry.len, run.len);
    buf_release(&run);
    buf_release(&dry);
    gguf_close(g);
}

/* Checks that a quantized source is decoded before encoding, and that tensors that keep their type
 * are copied. */
static void test_requantize(void) {
    struct err e;
    struct quantize_report r;
    struct gguf *a, *b;
    struct quantize_opts o = base_opts("Q8_0", path("q8.gguf"));
    CHECK_OK(quantize_run(&o, &r, &e));
    quantize_report_release(&r);
    o = base_opts("Q8_0", path("q8b.gguf"));
    o.in = path("q8.gguf");
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.n_quantized, 0);
    quantize_report_release(&r);
    o = base_opts("Q4_0", path("q4.gguf"));
    o.in = path("q8.gguf");
    CHECK_OK(quantize_run(&o, &r, &e));
    quantize_report_release(&r);
    CHECK_OK(gguf_open(&a, path("q8b.gguf"), 0, &e));
    CHECK_OK(gguf_open(&b, path("q4.gguf"), 0, &e));
    static struct kern k;
    kern_init(&k, KERN_REF);
    const struct gguf_tensor *ta = gguf_tensor_at(a, 0), *tb = gguf_tensor_at(b, 0);
    float x[256], y[256], err = 0;
    k.op[ta->type].decode(ta->data, x, 256);
    k.op[tb->type].decode(tb->data, y, 256);
    for (int i = 0; i < 256; i++) err = fmaxf(err, fabsf(x[i] - y[i]));
    CHECK(err > 0 && err < 0.05f);
    for (int i = 0; i < 256; i++) CHECK(fabsf(x[i] - values[0][i]) < 0.003f);
    gguf_close(a);
    gguf_close(b);
}

static void test_split(void) {
    struct err e;
    struct quantize_report r;
    struct gguf *g;
    struct quantize_opts o = base_opts("Q8_0", path("s.gguf"));
    o.split_max = 16 << 10;
    CHECK_OK(quantize_run(&o, &r, &e));
    quantize_report_release(&r);
    char *first = NULL;
    for (int n = 2; n < 9 && !first; n++) {
        first = gguf_split_name(path("s.gguf"), 0, n);
        if (!io_exists(first)) {
            free(first);
            first = NULL;
        }
    }
    CHECK(first != NULL);
    if (!first) return;
    CHECK_OK(gguf_open(&g, first, 0, &e));
    CHECK_EQ_I64(gguf_n_tensors(g), N_T);
    CHECK_EQ_I64(type_in(g, "output.weight"), QT_Q8_0);
    /* no file of the input is replaced, whether it is named or follows from the name */
    const int n_shards = gguf_n_shards(g);
    char *second = gguf_split_name(path("s.gguf"), 1, n_shards);
    o.in = first;
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "same file");
    o.split_max = 0;
    o.out = second;
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_USAGE, "same file");
    CHECK_ERR(quantize_check(&o, &e), ERR_USAGE, "same file");
    gguf_close(g);
    CHECK_OK(gguf_open(&g, first, 0, &e));
    CHECK_EQ_I64(gguf_n_shards(g), n_shards);
    gguf_close(g);
    free(second);
    free(first);
}

static void test_interrupt(void) {
    struct err e;
    struct quantize_report r;
    struct quantize_opts o = base_opts("Q8_0", path("x.gguf"));
    struct gguf *g = NULL;
    struct qplan plan = {0};
    void *bytes = NULL;
    double alpha = 0;
    CHECK_OK(gguf_open(&g, o.in, 0, &e));
    CHECK_OK(qplan_make(&plan, g, &o, &e));
    progress_interrupt();
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_INTR, "interrupted");
    CHECK(!io_exists(path("x.gguf")));
    CHECK_ERR(quantize_tensor(&o, g, NULL, NULL, &plan, 2, &bytes, &alpha, &e), ERR_INTR,
              "interrupted");
    CHECK(!bytes);
    qplan_release(&plan);
    gguf_close(g);
}

int main(void) {
    strcpy(dir, "/tmp/hone-quantize-XXXXXX");
    if (!mkdtemp(dir)) return 1;
    write_model(path("in.gguf"), -1, 0, 0);
    write_imatrix(path("imat.gguf"), 512);
    write_imatrix(path("wrong.gguf"), 256);
    RUN(test_types_keys_sizes);
    RUN(test_expert_slices);
    RUN(test_same_bytes_for_any_thread_count);
    RUN(test_refuses);
    RUN(test_matrix_without_information);
    RUN(test_not_finite);
    RUN(test_plans);
    RUN(test_overrides_and_pure);
    RUN(test_types_by_name);
    RUN(test_record_of_dry_run);
    RUN(test_requantize);
    RUN(test_split);
    RUN(test_interrupt);
    for (int i = 0; i < N_T; i++) free(values[i]);
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return system(cmd) || check_done();
}
