// SPDX-License-Identifier: MIT
/* names_find: the expected values follow from the rules in docs/serving.md. */
#include "base/attr.h"
#include "serve/names.h"
#include "tests/check.h"

struct row {
    const char *asked;
    int file;
};

static void check(const struct serve_file *v, int n, int usual, const struct row *r,
                  size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++) {
        const int got = names_find(v, n, usual, r[i].asked, strlen(r[i].asked));
        if (got != r[i].file)
            CHECK_FAIL("'%s' is file %d, expected %d", r[i].asked, got, r[i].file);
    }
}

static void test_one_model(void) {
    static const struct serve_file v[] = {{.id = "Qwen3-4B-Q8_0"},
                                          {.id = "Qwen3-4B-Q4_K_M"},
                                          {.id = "Qwen3-4B-UD-Q2_K_XL"},
                                          {.id = "Qwen3-4B-mix-9MiB"}};
    static const struct row rows[] = {
        {"Qwen3-4B-Q8_0", 0},
        {"qwen3-4b-q8_0", 0},
        {"Qwen3-4B-Q8_0.gguf", 0},
        {"/models/Qwen3-4B-Q8_0.gguf", 0},
        {"Q4_K_M", 1},
        {"q4_k_m", 1},
        {"Q2_K_XL", 2},
        {"UD-Q2_K_XL", 2},
        {"9MiB", 3},
        {"mix-9MiB", 3},
        {"qwen3-4b:q4_K_M", 1},
        {"qwen3:4b-q4_K_M", 1},
        {"Qwen3-4B:Q2_K_XL", 2},
        {"Qwen3-4B-Q8_0:latest", 0},
        {"Qwen3-4B:latest", 1},
        {"Qwen3-4B", 1},
        {"qwen3:4b", 1},
        {"hf.co/unsloth/Qwen3-4B-GGUF:Q4_K_M", 1},
        {"unsloth/Qwen3-4B-GGUF", 1},
        {"K_M", NAMES_UNKNOWN},
        {"4_K_M", NAMES_UNKNOWN},
        {"Q4_K", NAMES_UNKNOWN},
        {"Qwen3-4B:Q5_K_M", NAMES_UNKNOWN},
        {"Qwen3-8B:Q4_K_M", NAMES_UNKNOWN},
        {"gpt-4o", NAMES_UNKNOWN},
        {":", NAMES_UNKNOWN},
        {":latest", NAMES_UNKNOWN},
        {".gguf", NAMES_UNKNOWN},
        {"-GGUF:Q4_K_M", NAMES_UNKNOWN},
        {"/", NAMES_UNKNOWN},
    };
    check(v, (int)COUNT_OF(v), 1, rows, COUNT_OF(rows));
}

static void test_several_models(void) {
    static const struct serve_file v[] = {
        {.id = "a-Q4_0"}, {.id = "b-Q4_0"}, {.id = "b-Q8_0"}, {.id = "org/c-Q6_K"}};
    static const struct row rows[] = {
        {"Q4_0", NAMES_SEVERAL},
        {"Q8_0", 2},
        {"b", NAMES_SEVERAL},
        {"a", 0},
        {"b:Q4_0", 1},
        {"a:q8_0", NAMES_UNKNOWN},
        {"org/c-Q6_K", 3},
        {"org/c:Q6_K", 3},
        {"Q6_K", 3},
        {"c-Q6_K", 3},
    };
    check(v, (int)COUNT_OF(v), 0, rows, COUNT_OF(rows));
}

static void test_list(void) {
    struct serve_file v[20];
    struct buf out = {0};
    memset(v, 0, sizeof v);
    for (int i = 0; i < 20; i++) v[i].id = "x";
    names_list(v, 2, &out);
    CHECK_EQ_STR(out.data, "x, x");
    buf_reset(&out);
    names_list(v, 20, &out);
    CHECK_EQ_STR(out.data, "x, x, x, x, x, x, x, x, x, x, x and 9 more (GET /v1/models)");
    buf_release(&out);
}

int main(void) {
    RUN(test_one_model);
    RUN(test_several_models);
    RUN(test_list);
    return check_done();
}
