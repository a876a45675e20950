// SPDX-License-Identifier: MIT
/* tests/unit/test_lib_steps.c - the steps of include/hone.h: each writes the same bytes, or returns
 * the same numbers, as the command with its name and the same options; failures leave no files; a
 * progress callback can cancel. */
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "include/hone.h"
#include "tests/command.h"
#include "tests/unit/lib_check.h"
#include "tests/unit/tmpdir.h"

static const char tiny[] = "tests/golden/tiny-qwen35moe";
static const char calib[] = "tests/golden/tiny-qwen35moe/self_calib.txt";
static char base[256], imat[256];

static void same_files(const char *a, const char *b) {
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    struct err e;
    CHECK(io_read_file(&x, &n, a, UINT64_C(1) << 30, &e) == 0 &&
          io_read_file(&y, &m, b, UINT64_C(1) << 30, &e) == 0);
    CHECK(n == m && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}

/* Runs a command, which must succeed. The caller frees r with result_free. */
static void run(struct result *r, const char *name, const char *const *args) {
    const int rc = command(name, args, NULL, r);
    if (rc != HONE_OK && rc != HONE_VERDICT) CHECK_FAIL("%s: %s", name, r->message);
}

/* Checks that a number exists in both JSON documents and is equal. */
static void same_number(const char *a, const char *b, const char *key) {
    struct json *x = NULL, *y = NULL;
    struct err e;
    CHECK(json_parse(&x, a, strlen(a), "a", &e) == 0 && json_parse(&y, b, strlen(b), "b", &e) == 0);
    const double u = json_num(json_get(x, key), -1), v = json_num(json_get(y, key), -2);
    if (u != v) CHECK_FAIL("%s: %g and %g", key, u, v);
    json_free(x);
    json_free(y);
}

static void test_convert(void) {
    struct hone_error e;
    struct result r;
    char *json;
    snprintf(base, sizeof base, "%s", tmp_path("base.gguf"));
    const struct hone_convert_opts o = {.size = sizeof o, .type = "q8_0", .no_mtp = 1};
    OK(hone_convert(tiny, base, &o, NULL, &json, &e));
    const char *other = tmp_path("other.gguf");
    const char *args[] = {tiny, "-o", other, "--type", "q8_0", "--no-mtp", NULL};
    run(&r, "convert", args);
    same_files(base, other);
    same_number(json, r.text, "n_tensors");
    result_free(&r);
    hone_free(json);
    NOT(hone_convert(tiny, base, &o, NULL, &json, &e), HONE_USAGE, "exists already");
    CHECK(!json);
    NOT(hone_convert(tiny, NULL, &o, NULL, NULL, &e), HONE_USAGE, "missing");
    const struct hone_convert_opts none = {.type = "f16"};
    NOT(hone_convert(tiny, other, &none, NULL, NULL, &e), HONE_USAGE, "size");
    NOT(hone_convert("tests/golden", tmp_path("no.gguf"), NULL, NULL, NULL, &e), HONE_DATA,
        "config");
    CHECK(access(tmp_path("no.gguf"), F_OK) != 0);
}

static void test_imatrix(void) {
    struct hone_error e;
    struct result r;
    char *json;
    const char *texts[] = {calib, NULL}, *other = tmp_path("other.imat");
    snprintf(imat, sizeof imat, "%s", tmp_path("imat.gguf"));
    const struct hone_imatrix_opts o = {
        .size = sizeof o, .n_ctx = 128, .max_windows = 4, .format = "gguf"};
    OK(hone_imatrix(base, texts, imat, &o, NULL, &json, &e));
    const char *args[] = {base,       calib, "-o",       other,  "--ctx", "128",
                          "--chunks", "4",   "--format", "gguf", NULL};
    run(&r, "imatrix", args);
    same_files(imat, other);
    same_number(json, r.text, "n_chunks");
    result_free(&r);
    hone_free(json);
    const char *both[] = {imat, other, NULL}, *sum = tmp_path("sum.gguf"),
               *by = tmp_path("by.gguf");
    OK(hone_imatrix_merge(both, sum, NULL, NULL, NULL, &e));
    const char *merge[] = {"--merge", imat, other, "-o", by, NULL};
    run(&r, "imatrix", merge);
    same_files(sum, by);
    result_free(&r);
    const char *none[] = {NULL};
    NOT(hone_imatrix(base, none, sum, NULL, NULL, NULL, &e), HONE_USAGE, "text");
}

static int stop(void *user, const char *stage, uint64_t done, uint64_t total) {
    int *n = user;
    (void)stage;
    (void)done;
    (void)total;
    return ++*n == 3;
}

static void test_mix(void) {
    struct hone_error e;
    struct result r;
    struct hone_gguf *g;
    const char *out = tmp_path("mix.gguf"), *other = tmp_path("mix2.gguf"),
               *sens = tmp_path("sens.json");
    OK(hone_sensitivity(base, sens,
                        &(struct hone_sensitivity_opts){
                            .size = sizeof(struct hone_sensitivity_opts), .imatrix = imat},
                        NULL, NULL, &e));
    const struct hone_mix_opts o = {
        .size = sizeof o, .bytes = 11000000, .imatrix = imat, .sensitivity = sens};
    OK(hone_mix(base, out, &o, NULL, NULL, &e));
    OK(hone_gguf_open(&g, out, NULL, &e));
    CHECK(hone_gguf_bytes(g) <= o.bytes && hone_gguf_bytes(g) > o.bytes * 9 / 10);
    hone_gguf_close(g);
    const char *args[] = {base,        "-o", other,           "--budget", "11000000",
                          "--imatrix", imat, "--sensitivity", sens,       NULL};
    run(&r, "quantize", args);
    result_free(&r);
    char *json;
    OK(hone_diff(out, other, 0, NULL, &json, &e) == HONE_VERDICT ? HONE_OK : e.status);
    CHECK(strstr(json, "\"n_tensors\": 0") != NULL); /* the records name the files */
    hone_free(json);
    NOT(hone_mix(base, out, NULL, NULL, NULL, &e), HONE_USAGE, "limit");
    int n = 0;
    const struct hone_opts stops = {.size = sizeof stops, .progress = stop, .user = &n};
    struct hone_mix_opts again = o;
    again.overwrite = 1;
    const char *late = tmp_path("late.gguf");
    CHECK_EQ_I64(hone_mix(base, late, &again, &stops, NULL, &e), HONE_CANCELLED);
    CHECK(access(late, F_OK) != 0);
}

static void test_questions(void) {
    struct hone_error e;
    struct result r;
    char *json;
    OK(hone_inspect(base, 1, NULL, &json, &e));
    const char *inspect[] = {base, NULL};
    run(&r, "inspect", inspect);
    same_number(json, r.text, "n_params");
    CHECK(strstr(json, "\"token_embd.weight\"") && !strstr(r.text, "\"token_embd.weight\""));
    result_free(&r);
    hone_free(json);
    OK(hone_verify(base, 1, NULL, NULL, &json, &e));
    hone_free(json);
    const struct hone_plan_opts small = {.size = sizeof small, .vram = "1MiB", .n_ctx = 512};
    NOT(hone_plan(base, &small, NULL, &json, &e), HONE_VERDICT, "fits");
    CHECK(json && strstr(json, "1048576"));
    hone_free(json);
    OK(hone_plan(base, NULL, NULL, &json, &e));
    run(&r, "plan", inspect);
    same_number(json, r.text, "total_bytes");
    result_free(&r);
    hone_free(json);
    /* an incomplete file */
    const char *cut = tmp_path("cut.gguf");
    char *data;
    size_t n;
    struct err err;
    CHECK(io_read_file(&data, &n, base, UINT64_C(1) << 30, &err) == 0);
    FILE *f = fopen(cut, "wb");
    CHECK(fwrite(data, 1, n - 1000, f) == n - 1000 && fclose(f) == 0);
    free(data);
    NOT(hone_verify(cut, 0, NULL, NULL, &json, &e), HONE_VERDICT, "");
    CHECK(json && json[0] == '{');
    hone_free(json);
    OK(hone_diff(base, base, 0, NULL, NULL, &e));
    NOT(hone_inspect("VERSION", 0, NULL, &json, &e), HONE_DATA, "VERSION");
    CHECK(!json);
}

static void test_make(void) {
    struct hone_error e;
    char *json;
    const char *dir = tmp_path("made");
    const struct hone_make_opts o = {
        .size = sizeof o, .recipes = "Q4_K_M", .plain = 1, .dry_run = 1};
    OK(hone_make(tiny, dir, &o, NULL, &json, &e));
    CHECK(strstr(json, "Q4_K_M") && access(dir, F_OK) != 0);
    hone_free(json);
    NOT(hone_make(tiny, NULL, &o, NULL, NULL, &e), HONE_USAGE, "missing");
    struct hone_make_opts bad = o;
    bad.recipes = "Q9_9";
    NOT(hone_make(tiny, dir, &bad, NULL, NULL, &e), HONE_USAGE, "Q9_9");
    int n = 0;
    const struct hone_opts stops = {.size = sizeof stops, .progress = stop, .user = &n};
    struct hone_make_opts run = o;
    run.dry_run = 0;
    CHECK_EQ_I64(hone_make(tiny, dir, &run, &stops, NULL, &e), HONE_CANCELLED);
}

int main(void) {
    tmp_make();
    RUN(test_convert);
    RUN(test_imatrix);
    RUN(test_mix);
    RUN(test_questions);
    RUN(test_make);
    tmp_remove();
    return check_done();
}
