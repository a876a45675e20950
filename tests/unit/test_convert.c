// SPDX-License-Identifier: MIT
/* Conversion compared with the reference converter's output for the same folders
 * (gguf-reference.json): every tensor's name, shape and SHA-256 and every metadata key, in both
 * directions. Then other types, splits, thread counts, and folders that must be rejected. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "base/buf.h"
#include "base/fp.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/out.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "containers/q8_0.h"
#include "containers/safetensors.h"
#include "tests/check.h"
#include "tests/unit/ref_compare.h"

static char scratch[] = "/tmp/hone-test-convert-XXXXXX";

/* Returns a path in the scratch folder, in one of a few static buffers used in turn. */
static const char *in_scratch(const char *name) {
    static char ring[8][512];
    static int next;
    char *p = ring[next++ % 8];
    snprintf(p, sizeof ring[0], "%s/%s", scratch, name);
    return p;
}

static int count_entries(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) return -1;
    for (struct dirent *x = readdir(d); x; x = readdir(d)) n += x->d_name[0] != '.';
    closedir(d);
    return n;
}

static void remove_tree(const char *dir) {
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *x = readdir(d); x; x = readdir(d)) {
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0) continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", dir, x->d_name);
        if (unlink(path)) remove_tree(path);
    }
    closedir(d);
    rmdir(dir);
}

static int convert(const char *src, const char *out, const char *type, struct convert_report *r,
                   struct err *e) {
    struct convert_opts o = {.src = src, .out = out, .type = type, .overwrite = true};
    return convert_run(&o, r, e);
}

static void compare(const char *model) {
    ref_compare(model, model, in_scratch("ref.gguf"));
}

static void test_qwen35moe_equals_reference(void) {
    compare("qwen35moe");
}
static void test_qwen35_equals_reference(void) {
    compare("qwen35");
}
static void test_qwen3_equals_reference(void) {
    compare("qwen3");
}
static void test_qwen3moe_equals_reference(void) {
    compare("qwen3moe");
}

/* ---- other types ---- */

/* Checks that rows copied without a transform are bit-identical in the file. */
static void test_bf16_is_a_straight_copy(void) {
    struct err e;
    struct convert_report r;
    const char *out = in_scratch("bf16.gguf");
    CHECK_OK(convert("tests/golden/models/qwen35", out, "auto", &r, &e));
    CHECK_EQ_STR(r.type, "BF16");
    struct gguf *g = NULL;
    struct st *s = NULL;
    CHECK_OK(gguf_open(&g, out, 0, &e));
    CHECK_OK(st_open(&s, "tests/golden/models/qwen35/model.safetensors", &e));
    if (!g || !s) return;
    CHECK_EQ_I64(gguf_u64_or(g, "general.file_type", 99), 32);
    int n_same = 0;
    for (int64_t i = 0; i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        const char *name = strstr(t->name, "embed_tokens") ? "token_embd.weight"
                           : strstr(t->name, "layers.3.mlp.up_proj") && !strstr(t->name, "mtp")
                               ? "blk.3.ffn_up.weight"
                               : NULL;
        const struct gguf_tensor *q = name ? gguf_find_tensor(g, name) : NULL;
        if (!q) continue;
        CHECK(q->type == QT_BF16);
        CHECK(q->n_bytes == t->n_bytes && memcmp(q->data, t->data, q->n_bytes) == 0);
        n_same++;
    }
    CHECK_EQ_I64(n_same, 2);
    /* tensors that must stay F32 did */
    const struct gguf_tensor *conv = gguf_find_tensor(g, "blk.0.ssm_conv1d.weight");
    CHECK(conv && conv->type == QT_F32);
    st_close(s);
    gguf_close(g);
    unlink(out);
}

/* Checks that an F16 or BF16 file decodes to the F32 file's rounded values, and Q8_0 to within half
 * a step. */
static void check_decoded(const char *type, double (*tolerance)(double amax)) {
    struct err e;
    struct convert_report r;
    const char *a = in_scratch("f32.gguf"), *b = in_scratch("typed.gguf");
    struct gguf *ga = NULL, *gb = NULL;
    CHECK_OK(convert("tests/golden/models/qwen35moe", a, "f32", &r, &e));
    CHECK_OK(convert("tests/golden/models/qwen35moe", b, type, &r, &e));
    CHECK_OK(gguf_open(&ga, a, 0, &e));
    CHECK_OK(gguf_open(&gb, b, 0, &e));
    for (int64_t i = 0; ga && gb && i < gguf_n_tensors(ga); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(ga, i);
        const struct gguf_tensor *q = gguf_find_tensor(gb, t->name);
        if (!q || q->type == QT_F32) continue;
        int64_t n = (int64_t)(t->n_bytes / 4), bad = 0;
        for (int64_t k = 0; k < n; k += 32) {
            float x[32], y[32], d = 1;
            double amax = 0;
            memcpy(x, t->data + 4 * k, sizeof x);
            for (int j = 0; j < 32; j++) amax = fmax(amax, fabs((double)x[j]));
            if (q->type == QT_Q8_0) {
                uint16_t h;
                memcpy(&h, q->data + 34 * (k / 32), 2);
                d = fp_f16_to_f32(h);
            }
            for (int j = 0; j < 32; j++) {
                uint16_t h;
                memcpy(&h, q->data + 2 * (k + j) * (q->type != QT_Q8_0), 2);
                y[j] = q->type == QT_Q8_0  ? d * (float)(int8_t)q->data[34 * (k / 32) + 2 + j]
                       : q->type == QT_F16 ? fp_f16_to_f32(h)
                                           : fp_bf16_to_f32(h);
                bad += !(fabs((double)x[j] - (double)y[j]) <= tolerance(amax));
            }
        }
        if (bad) CHECK_FAIL("%s as %s: %d values are off", t->name, type, (int)bad);
    }
    gguf_close(ga);
    gguf_close(gb);
    unlink(a);
    unlink(b);
}
/* Half an ulp at the largest value, and F16's coarsest step below its normal range. */
static double tol_f16(double amax) {
    return amax / 2048 + 3e-8;
}
static double tol_bf16(double amax) {
    return amax / 256;
}
/* Half a step d/2, and f16's rounding of d (2^-11) times up to 127 steps. */
static double tol_q8_0(double amax) {
    return amax / 127 * (0.5 + 127.0 / 2048) + 1e-5;
}
static void test_f16(void) {
    check_decoded("f16", tol_f16);
}
static void test_bf16_values(void) {
    check_decoded("bf16", tol_bf16);
}
static void test_q8_0(void) {
    check_decoded("q8_0", tol_q8_0);
}

static void test_q8_0_row_by_hand(void) {
    /* amax 127 -> d = 1: codes are the values rounded, halves away from zero. */
    float x[32] = {127, -127, 0.5f, -0.5f, 1.5f, 2.4999f, -2.5f};
    uint8_t blk[34];
    q8_0_row(x, blk, 32);
    static const int8_t want[8] = {127, -127, 1, -1, 2, 2, -3, 0};
    CHECK(blk[0] == 0x00 && blk[1] == 0x3c); /* 1.0 as f16 */
    CHECK(memcmp(blk + 2, want, 8) == 0);
    memset(x, 0, sizeof x);
    q8_0_row(x, blk, 32);
    for (int i = 0; i < 34; i++) CHECK(blk[i] == 0);
    x[0] = NAN;
    x[1] = INFINITY;
    q8_0_row(x, blk, 32); /* the result does not matter; there must be no undefined behaviour */
}

static void test_same_bytes_for_any_thread_count(void) {
    struct err e;
    struct convert_report r;
    char sum[3][65];
    static const int threads[3] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        struct pool *pool = NULL;
        CHECK_OK(pool_new(&pool, threads[i], &e));
        const char *out = in_scratch("threads.gguf");
        struct convert_opts o = {.src = "tests/golden/models/qwen35moe",
                                 .out = out,
                                 .type = "q8_0",
                                 .overwrite = true,
                                 .pool = pool};
        CHECK_OK(convert_run(&o, &r, &e));
        CHECK_OK(sha256_file(out, sum[i], &e));
        pool_free(pool);
        unlink(out);
    }
    CHECK_EQ_STR(sum[1], sum[0]);
    CHECK_EQ_STR(sum[2], sum[0]);
}

static void test_fused_experts_of_the_tiny_model(void) {
    struct err e;
    struct convert_report r;
    const char *out = in_scratch("tiny.gguf");
    CHECK_OK(convert("tests/golden/tiny-qwen35moe", out, "auto", &r, &e));
    /* 2 delta-net layers of 19 tensors, 2 attention layers of 16, 3 global (arch-qwen35.md) */
    CHECK_EQ_I64(r.n_tensors, 2 * 19 + 2 * 16 + 3);
    CHECK_EQ_I64(r.n_mtp_tensors, 0);
    struct gguf *g = NULL;
    CHECK_OK(gguf_open(&g, out, 0, &e));
    CHECK(!gguf_find(g, "qwen35moe.nextn_predict_layers"));
    CHECK_EQ_I64(gguf_u64_or(g, "qwen35moe.full_attention_interval", 0), 2);
    gguf_close(g);
    unlink(out);
}

static void test_no_mtp_and_vision_counts(void) {
    struct err e;
    struct convert_report r;
    const char *out = in_scratch("nomtp.gguf");
    struct convert_opts o = {.src = "tests/golden/models/qwen35moe", .out = out, .no_mtp = true};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_EQ_I64(r.n_tensors, 96 - 20); /* an MTP block of a MoE has 20 tensors */
    CHECK_EQ_I64(r.n_mtp_tensors, 0);
    CHECK(r.n_skipped_vision > 30);
    CHECK_ERR(convert_run(&o, &r, &e), ERR_USAGE, "-f");
    unlink(out);
    o.dry_run = true;
    o.no_mtp = false;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_EQ_I64(r.n_mtp_tensors, 20);
    CHECK(!io_exists(out) && r.size_bytes > 1000000);
}

static void test_split(void) {
    struct err e;
    struct convert_report r;
    struct convert_opts o = {.src = "tests/golden/models/qwen35",
                             .out = in_scratch("split.gguf"),
                             .type = "f32",
                             .split_max = 1 << 20};
    CHECK_OK(convert_run(&o, &r, &e));
    int n = count_entries(scratch);
    CHECK(n > 1);
    char name[64];
    snprintf(name, sizeof name, "split-00001-of-%05d.gguf", n);
    struct gguf *g = NULL;
    CHECK_OK(gguf_open(&g, in_scratch(name), 0, &e));
    if (g) CHECK_EQ_I64(gguf_n_tensors(g), 70);
    gguf_close(g);
    for (int i = 1; i <= n; i++) {
        snprintf(name, sizeof name, "split-%05d-of-%05d.gguf", i, n);
        unlink(in_scratch(name));
    }
    CHECK_EQ_I64(count_entries(scratch), 0);
}

/* ---- folders made or broken on purpose: copies of a golden one with one shard ---- */

static char *read_all(const char *path, size_t *n) {
    struct err e;
    char *p = NULL;
    if (io_read_file(&p, n, path, 1 << 26, &e)) CHECK_FAIL("%s", e.msg);
    return p;
}

static void write_all(const char *path, const void *p, size_t n) {
    struct err e;
    CHECK_OK(out_write_file(path, p, n, true, &e));
}

static const char *const copied[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                     "model.safetensors"};

static void make_folder(const char *from) {
    mkdir(in_scratch("hf"), 0700);
    for (size_t i = 0; i < COUNT_OF(copied); i++) {
        char src[512], dst[512];
        size_t n = 0;
        snprintf(src, sizeof src, "tests/golden/models/%s/%s", from, copied[i]);
        snprintf(dst, sizeof dst, "%s/hf/%s", scratch, copied[i]);
        char *p = read_all(src, &n);
        if (p) write_all(dst, p, n);
        free(p);
    }
}

static void drop_folder(void) {
    remove_tree(in_scratch("hf"));
}

/* Replaces text in a file of the folder. In a safetensors file, changes only the header and updates
 * its length; offsets are relative to its end. */
static int edit(const char *file, const char *from, const char *to) {
    char path[512];
    size_t n = 0, k = strlen(from), end;
    int n_edits = 0;
    snprintf(path, sizeof path, "%s/hf/%s", scratch, file);
    char *p = read_all(path, &n);
    if (!p) return 0;
    bool st = strstr(file, ".safetensors") != NULL;
    uint64_t header = 0;
    if (st) memcpy(&header, p, 8);
    end = st ? 8 + (size_t)header : n;
    struct buf b = {0};
    for (size_t i = 0; i < n;)
        if (i + k <= end && memcmp(p + i, from, k) == 0) {
            buf_str(&b, to);
            i += k;
            n_edits++;
        } else
            buf_chr(&b, p[i++]);
    header = header + b.len - n;
    if (st) memcpy(b.data, &header, 8);
    write_all(path, b.data, b.len);
    buf_release(&b);
    free(p);
    if (!n_edits) CHECK_FAIL("%s: nothing to replace: %s", file, from);
    return n_edits;
}

/* Checks that the folder is refused with this message and that no files remain. */
static void expect(enum err_code code, const char *text) {
    struct err e;
    struct convert_report r;
    CHECK_ERR(convert(in_scratch("hf"), in_scratch("bad.gguf"), NULL, &r, &e), code, text);
    CHECK_EQ_I64(count_entries(scratch), 1);
    if (strchr(e.msg, '\n')) CHECK_FAIL("message has more than one line: %s", e.msg);
    drop_folder();
}

/* Makes one edit in a fresh copy of qwen35 and checks that it is refused. */
static void refused(const char *file, const char *from, const char *to, const char *text) {
    make_folder("qwen35");
    if (file) edit(file, from, to);
    expect(ERR_DATA, text);
}

static void test_refuses_bad_tensors(void) {
    static const char w[] = "model.safetensors";
    refused(w, "layers.3.self_attn.k_proj.weight", "layers.3.self_attn.k_prox.weight", "missing");
    refused(w, "layers.2.mlp.up_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[256,128]",
            "layers.2.mlp.up_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[128,256]",
            "has shape [128, 256], but config.json asks for [256, 128]");
    refused(w, "layers.2.mlp.up_proj.weight\":{\"dtype\":\"BF16\"",
            "layers.2.mlp.up_proj.weight\":{\"dtype\":\"I16\" ", "dtype I16");
    refused(w, "\"shape\":[256,1,4]", "\"shape\":[256,4,1]", "MLX");
    refused(w, "\"format\":\"pt\"", "\"format\":\"mlx\"", "MLX");
    refused(w, "language_model.layers.1.mlp.up_proj.weight", "language_model.layers.1.mlp.up_prox",
            "missing");
    refused(w, "model.visual.pos_embed.weight", "model.language_model.extra.weight",
            "not part of architecture qwen35");
    refused(w, "model.visual.pos_embed.weight", "model.layers.0.mlp.up_proj.weight",
            "denote the same weight but");
}

static void test_refuses_bad_configs(void) {
    static const char c[] = "config.json";
    refused(c, "Qwen3_5ForConditionalGeneration", "Qwen3_5ForSequenceClassification",
            "nearest is Qwen 3.5, which names");
    refused(c, "\"linear_attention\",\n      \"linear_attention\",\n      \"full_attention\"",
            "\"full_attention\",\n      \"linear_attention\",\n      \"linear_attention\"",
            "follows no interval");
    refused(c, "\"hidden_size\": 128,", "\"hidden_size\": 192,", "config.json asks for");
    refused(c, "\"hidden_size\": 128,", "\"hidden_size\": 1.5,", "hidden_size is not an integer");
    refused(c, "\"hidden_size\": 128,", "\"hidden_size\": -12,", "out of range");
    refused(c, "\"hidden_size\": 128,", "\"hidden_size\": null,", "hidden_size is missing");
    refused(c, "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"   ", "rope_type \"yarn\"");
    refused(c, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "cannot share");
}

static void test_refuses_damaged_folders(void) {
    make_folder("qwen35");
    unlink(in_scratch("hf/config.json"));
    expect(ERR_DATA, "config.json");
    make_folder("qwen35");
    unlink(in_scratch("hf/model.safetensors"));
    expect(ERR_DATA, "safetensors");
    make_folder("qwen35");
    unlink(in_scratch("hf/tokenizer.json"));
    expect(ERR_DATA, "tokenizer.json");
    make_folder("qwen35");
    struct stat st;
    CHECK(stat(in_scratch("hf/model.safetensors"), &st) == 0);
    CHECK(truncate(in_scratch("hf/model.safetensors"), st.st_size - 100) == 0);
    expect(ERR_DATA, "model.safetensors");
    refused("tokenizer.json", "\\\\s+(", "(\\\\s+(", "--pre");
}

/* Changes the BF16 weights of the folder's tensors whose names contain `part`. */
static void edit_weights(const char *part, void (*change)(char *v, uint64_t n_bytes)) {
    struct err e;
    char path[512];
    snprintf(path, sizeof path, "%s/hf/model.safetensors", scratch);
    size_t n = 0;
    char *p = read_all(path, &n);
    struct st *s = NULL;
    CHECK_OK(st_open(&s, path, &e));
    for (int64_t i = 0; p && s && i < st_n_tensors(s); i++) {
        const struct st_tensor *t = st_tensor_at(s, i);
        if (strstr(t->name, part)) change(p + t->off, t->n_bytes);
    }
    st_close(s);
    write_all(path, p, n);
    free(p);
}

static void add_one(char *v, uint64_t n_bytes) {
    for (uint64_t k = 0; k < n_bytes; k += 2) {
        uint16_t h;
        memcpy(&h, v + k, 2);
        h = fp_f32_to_bf16(fp_bf16_to_f32(h) + 1.0f);
        memcpy(v + k, &h, 2);
    }
}
/* Checks that Qwen3.5 norms around 1 are refused. Raw norms are around 0; if 1 was already added,
 * the folder is an export in a different form.
 */
static void test_refuses_shifted_norms(void) {
    make_folder("qwen35");
    edit_weights("input_layernorm", add_one);
    expect(ERR_DATA, "already added");
}

static void make_small(char *v, uint64_t n_bytes) {
    const uint16_t small = 0x322c; /* 1.0e-8 */
    for (uint64_t k = 0; k < n_bytes; k += 2) memcpy(v + k, &small, 2);
}
static void count_zeroed(void *ud, enum log_level level, const char *text) {
    (void)level;
    *(int *)ud += strstr(text, "are too small for") != NULL;
}
/* Checks the warning about weights that F16, or the scales of Q8_0, cannot hold. */
static void test_warns_of_zeroed(void) {
    static const struct {
        const char *type;
        int n;
    } c[] = {{"f16", 1}, {"q8_0", 1}, {"bf16", 0}, {"f32", 0}};
    struct err e;
    struct convert_report r;
    make_folder("qwen35");
    edit_weights("layers.2.mlp.up_proj", make_small);
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        int n_lines = 0;
        log_set_sink(count_zeroed, &n_lines);
        CHECK_OK(convert(in_scratch("hf"), in_scratch("x.gguf"), c[i].type, &r, &e));
        log_set_sink(NULL, NULL);
        CHECK_EQ_I64(n_lines, c[i].n);
    }
    unlink(in_scratch("x.gguf"));
    drop_folder();
}

static void put_odd(char *v, uint64_t n_bytes) {
    const uint16_t odd[] = {0x7fc1, 0x4780, 0xff80}; /* NaN, 65536, -infinity */
    CHECK(n_bytes >= sizeof odd);
    memcpy(v, odd, sizeof odd);
}
static void test_warns_of_nan_and_overflow(void) {
    struct err e;
    struct convert_report r;
    make_folder("qwen35");
    edit_weights("layers.2.mlp.up_proj", put_odd);
    log_set_level(LOG_ERROR);
    CHECK_OK(convert(in_scratch("hf"), in_scratch("x.gguf"), "f16", &r, &e));
    CHECK_EQ_I64(r.n_nan, 1);
    CHECK_EQ_I64(r.n_inf, 1);
    CHECK_EQ_I64(r.n_overflow, 1);
    CHECK_OK(convert(in_scratch("hf"), in_scratch("x.gguf"), "bf16", &r, &e));
    CHECK_EQ_I64(r.n_nan, 1);
    CHECK_EQ_I64(r.n_inf, 1);
    CHECK_EQ_I64(r.n_overflow, 0);
    log_set_level(LOG_WARN);
    unlink(in_scratch("x.gguf"));
    drop_folder();
}

static void test_refuses_bad_requests(void) {
    struct err e;
    struct convert_report r;
    CHECK_ERR(convert("tests/golden/models/qwen35", in_scratch("x.gguf"), "q4_0", &r, &e),
              ERR_USAGE, "--type q4_0");
    CHECK_ERR(convert("tests/golden/models/qwen35", in_scratch("no/such/x.gguf"), NULL, &r, &e),
              ERR_USAGE, "no/such");
    CHECK_EQ_I64(count_entries(scratch), 0);
}

static void test_interruption_leaves_nothing(void) {
    struct err e;
    struct convert_report r;
    progress_interrupt();
    CHECK_ERR(convert("tests/golden/models/qwen35", in_scratch("x.gguf"), NULL, &r, &e), ERR_INTR,
              "interrupted");
    CHECK_EQ_I64(count_entries(scratch), 0);
}

int main(void) {
    if (!mkdtemp(scratch)) return 1;
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_WARN);
    RUN(test_qwen35moe_equals_reference);
    RUN(test_qwen35_equals_reference);
    RUN(test_qwen3_equals_reference);
    RUN(test_qwen3moe_equals_reference);
    RUN(test_bf16_is_a_straight_copy);
    RUN(test_f16);
    RUN(test_bf16_values);
    RUN(test_q8_0);
    RUN(test_q8_0_row_by_hand);
    RUN(test_same_bytes_for_any_thread_count);
    RUN(test_fused_experts_of_the_tiny_model);
    RUN(test_no_mtp_and_vision_counts);
    RUN(test_split);
    RUN(test_refuses_bad_tensors);
    RUN(test_refuses_bad_configs);
    RUN(test_refuses_damaged_folders);
    RUN(test_refuses_shifted_norms);
    RUN(test_warns_of_nan_and_overflow);
    RUN(test_warns_of_zeroed);
    RUN(test_refuses_bad_requests);
    RUN(test_interruption_leaves_nothing); /* last: the flag stays set */
    remove_tree(scratch);
    return check_done();
}
