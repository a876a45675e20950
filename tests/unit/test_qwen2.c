// SPDX-License-Identifier: MIT
/* Qwen2: conversion and logits compared with an implementation in NumPy (tests/oracle/qwen2.py),
 * and unsupported configs. */
#include "models/arch.h"
#include "tests/unit/golden.h"

static const char folder[] = "tests/golden/models/qwen2";

static void test_logits(void) {
    struct golden g;
    struct model *m = golden_open(folder, tmp_path("m.gguf"));
    if (golden_load(&g, folder) && m) {
        /* f32 against f64 with logits up to 18: some hundred roundings of 2^-24 each */
        golden_logits(m, &g, "qwen2", 2e-4);
        golden_threads(m, &g);
    }
    golden_release(&g);
    model_close(m);
}

static void test_file(void) {
    struct err e;
    struct gguf *g = NULL;
    model_close(golden_open(folder, tmp_path("m.gguf")));
    CHECK_OK(gguf_open(&g, tmp_path("m.gguf"), 0, &e));
    if (!g) return;
    CHECK_EQ_STR(gguf_str_or(g, "general.architecture", ""), "qwen2");
    CHECK_EQ_STR(gguf_str_or(g, "tokenizer.ggml.pre", ""), "qwen2");
    CHECK_EQ_I64(gguf_n_tensors(g), 2 + 2 * 12); /* tied: no output.weight */
    const struct gguf_tensor *t = gguf_find_tensor(g, "blk.1.attn_k.bias");
    CHECK(t && t->n_dims == 1 && t->ne[0] == 32 && t->type == QT_F32);
    gguf_close(g);
}

static void test_refused(void) {
    static const char *const window[] = {"\"use_sliding_window\": false",
                                         "\"use_sliding_window\": true", "\"max_window_layers\": 2",
                                         "\"max_window_layers\": 1", NULL};
    struct err e = {0};
    struct convert_opts o = {.src = golden_edited(folder, folder, window),
                             .out = tmp_path("bad.gguf")};
    struct convert_report r;
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, "use_sliding_window");
}

int main(void) {
    tmp_make();
    RUN(test_logits);
    RUN(test_file);
    RUN(test_refused);
    tmp_remove();
    return check_done();
}
