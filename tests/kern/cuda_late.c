// SPDX-License-Identifier: MIT
/* tests/kern/cuda_late.c - the kernels of a token on a device that shows stores of a block to
 * others when they are fenced and no earlier, and begins launches while the one before ends: the
 * logits of small models are those of a device that does neither, to the bit. Emulated devices
 * only. */
#include "core/rng.h"
#include "kernels/cuda/cuda.h"
#include "runtime/engine/exec_cuda.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/micro.h"

enum { N = 4 };
/* Logits of a prompt of 3 and of tokens behind it: as they are, recorded, replayed. */
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
    CHECK_OK(session_step_best(s, ids[1], best, &e));
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
        float *want = logits(m, CUDA_DEFAULT, &best[0]);
        emu_late(1);
        for (unsigned order = all ? 0 : 3; order < 4; order++) {
            emu_shuffle(order);
            float *got = logits(m, CUDA_DEFAULT | CUDA_EARLY, &best[1]);
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

/* A product of many blocks with a choice of experts or a norm by the last of them, beside launches
 * of their own. */
static void *space(struct cu_ctx *c, struct cu_stream *q, uint64_t n, const void *from) {
    static struct cu_buf *b[32];
    static int n_bufs;
    struct err e;
    if (!c) { /* frees all */
        while (n_bufs) cu_buf_free(b[--n_bufs]);
        return NULL;
    }
    CHECK_OK(cu_buf_new(&b[n_bufs], c, n, "test", &e));
    CHECK_OK(from ? cu_upload(q, cu_buf_ptr(b[n_bufs]), from, n, &e)
                  : cu_fill(q, cu_buf_ptr(b[n_bufs]), 0, n, &e));
    return cu_buf_ptr(b[n_bufs++]);
}
static void test_last_block(void) {
    enum { K = 512, ROWS = 512, EXPERTS = 96, USED = 4 };
    struct err e;
    struct cu_ctx *c = NULL;
    struct cu_stream *q = NULL;
    struct rng rng;
    float *w = xcalloc((size_t)ROWS * K, sizeof *w);
    float x[K], y[2][ROWS], p[2][USED];
    rng_seed(&rng, 4);
    for (int i = 0; i < ROWS * K; i++) w[i] = rng_normal(&rng);
    for (int i = 0; i < K; i++) x[i] = rng_normal(&rng);
    emu_late(1);
    CHECK_OK(cu_open(&c, 0, &e));
    CHECK_OK(cu_stream_new(&q, c, &e));
    struct cu_weight m = {.type = QT_F32, .k = K, .rows = ROWS, .mats = 1, .row_bytes = 4 * K};
    m.mat_bytes = m.row_bytes * ROWS;
    m.data = space(c, q, m.mat_bytes, w);
    const float *dx = space(c, q, sizeof x, x);
    int32_t *arrived = space(c, q, 4, NULL);
    for (int i = 0; i < 2; i++) {
        float *out = space(c, q, sizeof y[0], NULL), *normed = space(c, q, sizeof y[0], NULL);
        float *weight = space(c, q, sizeof p[0], NULL);
        int32_t *expert = space(c, q, sizeof p[0], NULL);
        const struct cu_norm n = {.a = out, .y = normed, .n = ROWS, .eps = 1e-6f};
        const struct cu_choice ch = {.logits = out,
                                     .n_experts = EXPERTS,
                                     .n_used = USED,
                                     .expert = expert,
                                     .weight = weight};
        struct cu_products j = {
            .n = 1, .arrived = arrived, .norm = i ? NULL : &n, .choice = i ? NULL : &ch};
        j.part[0] = (struct cu_term){.w = &m,
                                     .exact = true,
                                     .x = dx,
                                     .n_in = 1,
                                     .x_div = 1,
                                     .n_sum = 1,
                                     .y = out,
                                     .ldy = ROWS};
        CHECK_OK(cu_products(q, &j, &e));
        if (i) CHECK_OK(cu_norm_rows(q, &n, 1, &e));
        if (i) CHECK_OK(cu_route(q, &ch, 1, &e));
        CHECK_OK(cu_download(q, y[i], normed, sizeof y[0], &e));
        CHECK_OK(cu_download(q, p[i], weight, sizeof p[0], &e));
        CHECK_OK(cu_sync(q, &e));
    }
    CHECK(memcmp(y[0], y[1], sizeof y[0]) == 0);
    CHECK(memcmp(p[0], p[1], sizeof p[0]) == 0);
    space(NULL, NULL, 0, NULL);
    cu_stream_free(q);
    cu_close(c);
    emu_late(0);
    free(w);
}

int main(void) {
    if (!emu_late) return check_skip("not emulated");
    RUN(test_last_block);
    RUN(test_models);
    return check_done();
}
