// SPDX-License-Identifier: MIT
/* tests/kern/cuda_late.c - memory ordering in the kernels for single tokens. The emulated device
 * makes a block's stores visible to others only after a fence, and starts a launch while the
 * previous one ends; the logits of small models must be bit-identical to those without either.
 * Emulated devices only. */
#include "base/rng.h"
#include "kernels/cuda/cuda.h"
#include "runtime/engine/cuda/exec.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/micro.h"

enum { N = 4 };
/* Returns the logits of a prompt of 3 tokens and of later tokens, which run directly, recorded and
 * replayed. */
static float *logits(struct model *m, unsigned mask, struct session_best *best) {
    static const int32_t ids[N + 2] = {3, 5, 3, 9, 4, 7};
    const int64_t v = m->hp.d[HD_VOCAB];
    struct session_opts o = {.n_ctx = 64,
                             .device = {.kind = DEVICE_CUDA, .masked = true, .mask = mask}};
    struct session *s = NULL;
    struct err e;
    float *l = xcalloc((size_t)(N * v), sizeof *l);
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return l;
    CHECK_OK(session_step(s, ids, 3, l, &e));
    for (int i = 1; i < N; i++) CHECK_OK(session_step(s, ids + 2 + i, 1, l + i * v, &e));
    CHECK_OK(session_pass(s, &(struct session_pass){.ids = &ids[1], .n = 1, .best = best}, &e));
    session_free(s);
    return l;
}

static void test_models(void) {
    static const char *const name[] = {"qwen35moe", "qwen3", "qwen35"};
    const bool all = getenv("HONE_LONG") != NULL; /* the other models and orders */
    for (size_t i = 0; i < (all ? COUNT_OF(name) : 1); i++) {
        char dir[64];
        snprintf(dir, sizeof dir, "tests/golden/models/%s", name[i]);
        struct model *m = golden_open(dir, tmp_path("m.gguf"));
        if (!m) continue;
        struct session_best best[2];
        memset(best, 0, sizeof best);
        const size_t n = (size_t)(N * m->hp.d[HD_VOCAB]) * sizeof(float);
        float *want = logits(m, CUDA_DEFAULT & ~(unsigned)CUDA_EARLY, &best[0]);
        emu_late(1);
        for (unsigned order = all ? 0 : 3; order < 4; order++) {
            emu_shuffle(order);
            float *got = logits(m, CUDA_DEFAULT, &best[1]);
            CHECK(memcmp(got, want, n) == 0);
            CHECK(memcmp(&best[0], &best[1], sizeof best[0]) == 0);
            free(got);
        }
        emu_shuffle(0);
        emu_late(0);
        free(want);
        model_close(m);
    }
}

int main(void) {
    if (!emu_late) return check_skip("not emulated");
    RUN(test_models);
    return check_done();
}
