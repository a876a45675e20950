// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_eval.c - perplexity and divergence found on a device, where logits
 * stay, against the CPU's, which test_eval holds against numpy. `make test`: the emulated device;
 * `make check-cuda`: the real one. */
#include "kernels/cuda/cuda.h"
#include "quantize/quantize.h"
#include "runtime/eval.h"
#include "tests/unit/golden.h"

enum { CTX = 8 };
static struct model *base, *other;
static struct golden golden;

static struct session *open_on(const struct model *m, enum device_kind kind) {
    struct err e = {0};
    struct session *s = NULL;
    const struct session_opts o = {.n_ctx = 32, .n_ubatch = 16, .device = {.kind = kind}};
    CHECK_OK(session_new(&s, m, &o, &e));
    return s;
}

static void test_ppl(void) {
    struct err e;
    struct eval_ppl r[2];
    const struct ids ids = {.v = golden.ids, .n = 2 * CTX};
    for (int i = 0; i < 2; i++) {
        struct session *s = open_on(other, i ? DEVICE_CUDA : DEVICE_CPU);
        CHECK(session_can_score(s, NULL) == (i == 1));
        CHECK_OK(eval_ppl(s, &ids, CTX, 0, 1, &r[i], &e));
        session_free(s);
    }
    CHECK_EQ_I64(r[0].n_tokens, r[1].n_tokens);
    CHECK_CLOSE(r[1].mean_nll, r[0].mean_nll, 1e-5);
}

/* Candidates on the device, on the CPU, and both: the numbers of each position are the same. */
static void test_kld(void) {
    struct err e;
    struct eval_kld k[3][2];
    const struct ids ids = {.v = golden.ids, .n = 2 * CTX};
    static const enum device_kind on[3][3] = {{DEVICE_CPU, DEVICE_CPU, DEVICE_CPU},
                                              {DEVICE_CUDA, DEVICE_CUDA, DEVICE_CPU},
                                              {DEVICE_CUDA, DEVICE_CUDA, DEVICE_CUDA}};
    for (int i = 0; i < 3; i++) {
        struct session *b = open_on(base, on[i][0]);
        struct session *c[2] = {open_on(other, on[i][1]), open_on(base, on[i][2])};
        CHECK(session_can_score(c[0], b) == (i > 0));
        CHECK(session_can_score(c[1], b) == (i == 2));
        CHECK_OK(eval_kld(b, c, 2, &ids, CTX, 1, k[i], NULL, &e));
        session_free(b);
        for (int n = 0; n < 2; n++) session_free(c[n]);
    }
    CHECK(k[0][0].mean_kld > 1e-3); /* Q4_0 */
    for (int i = 1; i < 3; i++)
        for (int n = 0; n < 2; n++) {
            const struct eval_kld *a = &k[0][n], *b = &k[i][n];
            CHECK_EQ_I64(b->n_tokens, a->n_tokens);
            CHECK_CLOSE(b->mean_kld, a->mean_kld, 1e-5);
            CHECK_CLOSE(b->max_kld, a->max_kld, 1e-4);
            CHECK_CLOSE(b->ppl / a->ppl, 1, 1e-5);
            CHECK_CLOSE(b->ppl_base / a->ppl_base, 1, 1e-5);
            CHECK_CLOSE(b->same_top1, a->same_top1, 1e-12);
            CHECK_CLOSE(b->rms_dp, a->rms_dp, 1e-6);
        }
}

int main(void) {
    struct err e;
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    base = golden_open("tests/golden/models/qwen3moe", tmp_path("m.gguf"));
    struct quantize_report r;
    const struct quantize_opts o = {
        .in = tmp_path("m.gguf"), .out = tmp_path("q.gguf"), .recipe = "Q4_0"};
    if (!base || !golden_load(&golden, "tests/golden/models/qwen3moe")) return 1;
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_OK(model_open(&other, tmp_path("q.gguf"), &e));
    RUN(test_ppl);
    RUN(test_kld);
    model_close(base);
    model_close(other);
    golden_release(&golden);
    tmp_remove();
    return check_done();
}
