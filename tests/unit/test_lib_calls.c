// SPDX-License-Identifier: MIT
/* tests/unit/test_lib_calls.c - the calls of include/hone.h that correspond to commands: each
 * returns the command's document for the same options and writes the same bytes. The commands'
 * results have tests of their own. */
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "include/hone.h"
#include "tests/command.h"
#include "tests/unit/lib_check.h"
#include "tests/unit/tmpdir.h"

static const char tiny[] = "tests/golden/tiny-qwen35moe"; /* for calls that need a template */
static const char micro[] = "tests/golden/models/qwen35moe";
static const char text[] = "tests/golden/tiny-qwen35moe/self_eval.txt";
static char model[256], small[256];

/* Returns whether a member always differs: times, the caller's name, and the files that each side
 * writes separately. */
static bool differs_always(const char *name) {
    static const char *const part[] = {"second", "_s",        "per_s",  "ns_per", "threads",
                                       "first",  "rate",      "time",   "path",   "speed",
                                       "isa",    "bandwidth", "output", "file"};
    for (size_t i = 0; i < COUNT_OF(part); i++)
        if (strstr(name, part[i])) return true;
    return false;
}

/* Checks that everything in the library's document is also in the command's. */
static void inside(const struct json *a, const struct json *b, const char *what) {
    if (json_type(a) != JSON_OBJ && json_type(a) != JSON_ARR) {
        if (!json_equal(a, b)) CHECK_FAIL("%s differs", what);
        return;
    }
    const struct json *y = json_first(b);
    for (const struct json *x = json_first(a); x; x = json_next(x)) {
        const bool named = json_type(a) == JSON_OBJ;
        const struct json *other = named ? json_get(b, json_name(x)) : y;
        if (!other) CHECK_FAIL("%s: the command has no %s", what, named ? json_name(x) : "element");
        if (other && !(named && differs_always(json_name(x))))
            inside(x, other, named ? json_name(x) : what);
        if (y) y = json_next(y);
    }
}

/* Compares a call's document, which it frees, with that of a command; the status is the same. */
static void same(char *json, int status, const char *name, const char *const *args) {
    struct result r;
    struct json *a = NULL, *b = NULL;
    struct err e;
    CHECK_EQ_I64(command(name, args, NULL, &r), status);
    if (!json) {
        CHECK_FAIL("%s %s: no document", name, args[0]);
        result_free(&r);
        return;
    }
    CHECK_OK(json_parse(&a, json, strlen(json), "library", &e));
    CHECK_OK(json_parse(&b, r.text, r.len, "command", &e));
    CHECK(json_len(a) > 1);
    inside(a, b, name);
    json_free(a);
    json_free(b);
    result_free(&r);
    hone_free(json);
}
#define SAME(json, status, name, ...)                                                              \
    same(json, status, name, (const char *const[]){__VA_ARGS__, NULL})

static void same_files(const char *a, const char *b) {
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    struct err e;
    CHECK_OK(io_read_file(&x, &n, a, UINT64_C(1) << 30, &e));
    CHECK_OK(io_read_file(&y, &m, b, UINT64_C(1) << 30, &e));
    CHECK(n == m && n && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}

static void test_quantize(void) {
    struct hone_error e;
    char *json;
    const char *const over[] = {"output=Q6_K", NULL};
    const struct hone_quantize_opts o = {
        .size = sizeof o, .recipe = "Q4_K_S", .tensor = over, .search = "best"};
    OK(hone_quantize(model, small, &o, NULL, &json, &e));
    const char *other = tmp_path("other.gguf");
    SAME(json, HONE_OK, "quantize", model, "-o", other, "--recipe", "Q4_K_S", "--tensor",
         "output=Q6_K", "--search", "best");
    same_files(small, other);
    NOT(hone_quantize(model, small, &o, NULL, NULL, &e), HONE_USAGE, "exists already");
    NOT(hone_quantize(model, "x", NULL, NULL, NULL, &e), HONE_USAGE, "recipe or type is needed");
}

static void test_numbers(void) {
    struct hone_error e;
    char *json;
    const struct hone_eval_opts ppl = {
        .size = sizeof ppl, .n_ctx = 64, .max_windows = 3, .stride = 16, .kv_type = "q8_0"};
    OK(hone_eval_ppl(small, text, &ppl, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "ppl", small, text, "--ctx", "64", "--chunks", "3", "--stride",
         "16", "--kv-type", "q8_0");
    const char *const models[] = {small, NULL}, *const texts[] = {text, NULL};
    const struct hone_eval_opts kld = {.size = sizeof kld,
                                       .n_ctx = 64,
                                       .max_windows = 2,
                                       .base = model,
                                       .by_depth = 1,
                                       .worst = 3,
                                       .routing = 1};
    OK(hone_eval_kld(models, texts, &kld, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "kld", small, text, "--ctx", "64", "--chunks", "2", "--base", model,
         "--by-depth", "--worst", "3", "--routing");
    const int32_t ids[] = {1, 2, 3};
    const char *in = tmp_write("ids", ids, sizeof ids), *a = tmp_path("la"), *b = tmp_path("lb");
    OK(hone_eval_logits(small, in, a, NULL, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "logits", small, "--ids", in, "-o", b);
    same_files(a, b);
    const struct hone_eval_opts speed = {
        .size = sizeof speed, .n_prompt = 8, .n_generate = -1, .reps = 1};
    OK(hone_eval_speed(small, &speed, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "speed", small, "--pp", "8", "--tg", "0", "--reps", "1");
    const struct hone_eval_opts kv = {.size = sizeof kv,
                                      .head_dims = "64",
                                      .depths = "32",
                                      .kv_type = "q8_0,q4_0",
                                      .cosine = 0.4};
    OK(hone_eval_kv(&kv, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "kv", "--head-dims", "64", "--depths", "32", "--kv-type",
         "q8_0,q4_0", "--cosine", "0.4");
}

static const char cases[] = "{\"id\": \"yes\", \"text\": \"In the\", \"max_tokens\": 2, "
                            "\"checks\": {\"excludes\": \"zzz\"}}\n"
                            "{\"id\": \"no\", \"text\": \"In the\", \"max_tokens\": 2, "
                            "\"checks\": {\"exact\": \"impossible\"}}\n";

static void test_tasks(void) {
    struct hone_error e;
    char *json;
    const char *suite = tmp_write("suite.jsonl", cases, sizeof cases - 1);
    const struct hone_eval_opts checks = {
        .size = sizeof checks, .require = 60, .all = 1, .base = model};
    NOT(hone_eval_cases(small, suite, &checks, NULL, &json, &e), HONE_VERDICT, "50.00 %");
    SAME(json, HONE_VERDICT, "eval", "checks", small, suite, "--require", "60", "--all", "--base",
         model);
    const char *file = "tests/golden/suites/winogrande.csv";
    const struct hone_eval_opts choice = {
        .size = sizeof choice, .format = "winogrande", .max_cases = 2};
    OK(hone_eval_choice(small, file, &choice, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "choice", small, file, "--format", "winogrande", "--cases", "2");
    NOT(hone_eval_choice(small, file, NULL, NULL, NULL, &e), HONE_USAGE, "hellaswag");
    const char *const two[] = {small, small, NULL};
    NOT(hone_eval_vision(two, suite, NULL, NULL, NULL, &e), HONE_DATA, "line 1: \"question\"");
    const struct hone_eval_opts needle = {
        .size = sizeof needle, .n_ctx = 96, .n_depths = 2, .per_depth = 1};
    OK(hone_eval_needle(small, text, &needle, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "needle", small, text, "--ctx", "96", "--depths", "2",
         "--per-depth", "1");
    const char *const texts[] = {text, NULL}, *const tools[] = {suite, NULL};
    const struct hone_eval_opts set = {.size = sizeof set,
                                       .n_ctx = 32,
                                       .max_windows = 2,
                                       .texts = texts,
                                       .tools = tools,
                                       .base = model};
    const char *a = tmp_path("a.json"), *b = tmp_path("b.json");
    OK(hone_eval_suite(small, a, &set, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "suite", small, "-o", b, "--ctx", "32", "--chunks", "2", "--text",
         text, "--tools", suite, "--base", model);
    OK(hone_eval_compare(a, b, NULL, &json, &e));
    SAME(json, HONE_OK, "eval", "compare", a, b);
    const struct hone_eval_opts foreign = {.size = sizeof foreign, .n_prompt = 5};
    NOT(hone_eval_ppl(small, text, &foreign, NULL, NULL, &e), HONE_USAGE,
        "hone_eval_ppl does not take hone_eval_opts.n_prompt");
}

static void test_files(void) {
    struct hone_error e;
    char *json;
    OK(hone_recipes(small, NULL, NULL, &json, &e));
    SAME(json, HONE_OK, "recipes", small);
    const char *a = tmp_path("a.tsv"), *b = tmp_path("b.tsv");
    const struct hone_recipes_opts ro = {.size = sizeof ro, .recipe = "Q4_K_M", .plan_out = a};
    OK(hone_recipes(model, &ro, NULL, &json, &e));
    SAME(json, HONE_OK, "recipes", model, "--recipe", "Q4_K_M", "-o", b);
    same_files(a, b);
    const struct hone_replay_opts re = {.size = sizeof re, .source = model};
    OK(hone_replay(small, &re, NULL, &json, &e));
    SAME(json, HONE_OK, "replay", small, "--source", model);
    const char *one = tmp_path("one.gguf"), *two = tmp_path("two.gguf"),
               *whole = tmp_path("w.gguf");
    const struct hone_split_opts so = {.size = sizeof so, .path = one, .max_size = 2000000};
    OK(hone_split(small, &so, NULL, &json, &e));
    SAME(json, HONE_OK, "split", small, "-o", two, "--max-size", "2000000");
    char first[256] = "";
    for (int i = 2; i < 20 && access(first, F_OK) != 0; i++)
        snprintf(first, sizeof first, "%s/one-00001-of-%05d.gguf", tmp_dir, i);
    OK(hone_merge(first, whole, 0, NULL, NULL, &e));
    same_files(small, whole);
    const char *sa = tmp_path("sa.gguf"), *sb = tmp_path("sb.gguf");
    const struct hone_synth_opts sy = {.size = sizeof sy,
                                       .shape = "tests/golden/tiny-qwen35moe/config.json",
                                       .recipe = "Q8_0",
                                       .seed = 5};
    OK(hone_synth(sa, &sy, NULL, &json, &e));
    SAME(json, HONE_OK, "synth", "--arch-from", sy.shape, "--recipe", "Q8_0", "--seed", "5", "-o",
         sb);
    same_files(sa, sb);
    NOT(hone_publish_check(tmp_dir, 1, NULL, &json, &e), HONE_VERDICT, "error");
    SAME(json, HONE_VERDICT, "publish", tmp_dir, "--check", "--quick");
    const struct hone_publish_opts po = {
        .size = sizeof po, .license = "apache-2.0", .manifest_only = 1};
    OK(hone_publish(tmp_dir, &po, NULL, &json, &e));
    hone_free(json);
    CHECK(access(tmp_path("SHA256SUMS"), F_OK) == 0);
    NOT(hone_publish("absent", &po, NULL, NULL, &e), HONE_USAGE, "not a folder");
    OK(hone_doctor(NULL, "limits", NULL, &json, &e));
    SAME(json, HONE_OK, "doctor", "--limits");
    OK(hone_doctor(small, NULL, NULL, &json, &e));
    SAME(json, HONE_OK, "doctor", small);
    OK(hone_bench_kernels("Q8_0", 0.0001, NULL, &json, &e));
    hone_free(json);
}

static void test_imatrix(void) {
    struct hone_error e;
    char *json;
    const char *const texts[] = {text, NULL};
    const char *im = tmp_path("i.gguf"), *mo = tmp_path("m.gguf");
    const struct hone_imatrix_opts io = {
        .size = sizeof io, .n_ctx = 64, .max_windows = 2, .moments = mo};
    OK(hone_imatrix(model, texts, im, &io, NULL, NULL, &e));
    CHECK(access(mo, F_OK) == 0);
    OK(hone_imatrix_stats(im, NULL, &json, &e));
    SAME(json, HONE_OK, "imatrix", "--stats", im);
    const char *pool = "tests/golden/tiny-qwen35moe/calib.jsonl";
    const char *const pools[] = {pool, NULL};
    const char *a = tmp_path("a.jsonl"), *b = tmp_path("b.jsonl");
    const struct hone_imatrix_opts so = {.size = sizeof so, .n_ctx = 64, .have = im};
    OK(hone_imatrix_select(model, pools, 4000, a, &so, NULL, &json, &e));
    SAME(json, HONE_OK, "imatrix", model, pool, "--select", "4000", "--have", im, "--ctx", "64",
         "-o", b);
    same_files(a, b);
    NOT(hone_imatrix_select(model, pools, 200, a, &io, NULL, NULL, &e), HONE_USAGE,
        "does not take");
}

static const char hi[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}";
static const char bad[] = "{% for m in messages %}{{ m.role }}{% endfor %}";

static void test_templates(void) {
    struct hone_error e;
    char *json;
    OK(hone_template_describe(tiny, NULL, NULL, &json, &e));
    SAME(json, HONE_OK, "template", "show", tiny, "--json");
    const char *other = tmp_write("bad.jinja", bad, sizeof bad - 1);
    NOT(hone_template_lint(other, NULL, 0, NULL, &json, &e), HONE_VERDICT, "bad.jinja");
    SAME(json, HONE_VERDICT, "template", "lint", other);
    OK(hone_template_explain("all", NULL, &json, &e));
    SAME(json, HONE_OK, "template", "lint", "--explain", "all");
    NOT(hone_template_diff(tiny, other, NULL, &json, &e), HONE_VERDICT, "");
    CHECK(json && strstr(json, "+{% for m in messages %}"));
    hone_free(json);
    const char *fixed = tmp_path("fixed.jinja");
    const struct hone_template_fix_opts fo = {
        .size = sizeof fo, .path = fixed, .replace = "qwen3-coder"};
    const struct hone_template_fix_opts list = {.size = sizeof list, .list = 1};
    OK(hone_template_fix(tiny, &list, NULL, &json, &e));
    SAME(json, HONE_OK, "template", "fix", tiny, "--list");
    if (hone_template_fix(other, &fo, NULL, &json, &e) != HONE_OK)
        CHECK(strstr(e.message, "is not one of"));
    else
        CHECK(strstr(json, "\"diff\"") && access(fixed, F_OK) == 0);
    hone_free(json);
    const char *talk = tmp_write("talk.json", hi, sizeof hi - 1);
    const struct hone_template_render_opts ro = {.size = sizeof ro, .no_invite = 1};
    OK(hone_template_spans(tiny, talk, &ro, NULL, &json, &e));
    SAME(json, HONE_OK, "template", "render", tiny, "--chat", talk, "--spans",
         "--no-generation-prompt");
    const char *scenes = "tests/golden/templates/scenarios.json";
    OK(hone_template_batch(tiny, scenes, NULL, NULL, &json, &e));
    SAME(json, HONE_OK, "template", "render", tiny, "--batch", scenes);
    const char units[] = "{\"units\": [{\"id\": \"x\", \"template\": \"{{ 1.0 }}\"}, {\"id\": "
                         "\"y\", \"template\": \"{{ a }}\", \"context\": {\"a\": 2}}]}";
    OK(hone_template_eval(tmp_write("u.json", units, sizeof units - 1), NULL, NULL, &json, &e));
    CHECK(json && strstr(json, "{\"x\":\"1.0\",\"y\":\"2\"}"));
    hone_free(json);
}

/* Tests the options common to all calls. */
static void test_common(void) {
    struct hone_error e;
    struct hone_opts o = {.size = sizeof o, .isa = "sse9"};
    const struct hone_eval_opts ppl = {.size = sizeof ppl, .n_ctx = 64, .max_windows = 1};
    NOT(hone_eval_ppl(small, text, &ppl, &o, NULL, &e), HONE_USAGE, "sse9");
    o = (struct hone_opts){.size = sizeof o, .pre = "no-such"};
    NOT(hone_eval_ppl(small, text, &ppl, &o, NULL, &e), HONE_USAGE, "no-such");
    o = (struct hone_opts){.size = sizeof o, .device = "abacus"};
    NOT(hone_eval_ppl(small, text, &ppl, &o, NULL, &e), HONE_USAGE, "abacus");
    o = (struct hone_opts){.size = sizeof o, .max_memory = 1000};
    NOT(hone_eval_ppl(small, text, &ppl, &o, NULL, &e), HONE_SYSTEM, "memory");
    char *json;
    o = (struct hone_opts){.size = sizeof o, .isa = "ref", .n_threads = 2};
    OK(hone_eval_ppl(small, text, &ppl, &o, &json, &e));
    SAME(json, HONE_OK, "eval", "ppl", small, text, "--ctx", "64", "--chunks", "1", "--isa", "ref");
}

int main(void) {
    tmp_make();
    struct hone_error e;
    snprintf(model, sizeof model, "%s", tmp_path("model.gguf"));
    snprintf(small, sizeof small, "%s", tmp_path("small.gguf"));
    OK(hone_convert(micro, model, NULL, NULL, NULL, &e));
    RUN(test_quantize);
    RUN(test_numbers);
    RUN(test_tasks);
    RUN(test_files);
    RUN(test_imatrix);
    RUN(test_templates);
    RUN(test_common);
    tmp_remove();
    return check_done();
}
