// SPDX-License-Identifier: MIT
/* Gemma 4: conversion against the field's converter, logits and hidden states against transformers
 * past the sliding window. */
#include "models/arch.h"
#include "tests/unit/golden.h"
#include "tests/unit/ref_compare.h"

static const char folder[] = "tests/golden/models/gemma4moe";
/* Both sides compute in f32 from the same weights: sums in another order. */
static const double tol = 5e-4;

static void test_equals_reference(void) {
    ref_compare("gemma4moe", "gemma4", tmp_path("ref.gguf"));
}

static void test_logits(void) {
    struct golden g;
    struct model *m = golden_open(folder, tmp_path("m.gguf"));
    if (golden_load(&g, folder) && m) {
        CHECK(g.n_ids > 4 * m->hp.d[HD_WINDOW]);
        golden_logits(m, &g, "gemma4moe", tol);
        golden_threads(m, &g);
    }
    golden_release(&g);
    model_close(m);
}

int main(void) {
    tmp_make();
    RUN(test_equals_reference);
    RUN(test_logits);
    tmp_remove();
    return check_done();
}
