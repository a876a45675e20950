// SPDX-License-Identifier: MIT
/* What a session plans to take of a device is what it takes, in the blocks in which devices give
 * memory away: at forty random sizes of memory and contexts a session either says in its plan that
 * it does not fit, or fits and leaves free what it promised. And what another program takes between
 * the plan and the last tensor makes it plan again. Emulated devices only. */
#include "base/rng.h"
#include "kernels/cuda/cuda.h"
#include "runtime/engine/cuda/exec.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/micro.h"

static const uint64_t MIB = UINT64_C(1) << 20;

static void memory_of(uint64_t n_bytes) {
    const struct emu_device one = {(size_t)n_bytes, 384};
    emu_devices(1, &one);
}

/* What is free beside the session's own. */
static uint64_t left(void) {
    struct cu_ctx *c = NULL;
    struct cu_info i = {0};
    struct err e;
    CHECK_OK(cu_open(&c, 0, &e));
    CHECK_OK(cu_get_info(c, &i, &e));
    cu_close(c);
    return i.mem_free;
}

static void test_sizes(void) {
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("m.gguf"));
    struct rng rng;
    int n_whole = 0, n_fewer = 0, n_refused = 0;
    rng_seed(&rng, 29);
    for (int i = 0; m && i < 40; i++) {
        struct session_opts o = {.n_ctx = 64 << (rng_u64(&rng) % 7),
                                 .n_ubatch = 16 << (rng_u64(&rng) % 5),
                                 .device = {.kind = DEVICE_CUDA, .stream_from = -1}};
        struct session *s = NULL;
        struct err e;
        memory_of(4096 * MIB);
        CHECK_OK(session_new(&s, m, &o, &e));
        const uint64_t all = session_bytes(s);
        session_free(s);
        s = NULL;
        memory_of(CU_KEEP_FREE + 4 * MIB + all / 2 + rng_u64(&rng) % (all + 4 * MIB));
        if (session_new(&s, m, &o, &e) == 0) {
            CHECK(left() >= CU_KEEP_FREE);
            if (session_info(s).offload_blocks)
                n_fewer++;
            else
                n_whole++;
        } else {
            if (!strstr(e.msg, "may be used, and")) /* the plan, not an allocation */
                CHECK_FAIL("%s", e.msg);
            n_refused++;
        }
        session_free(s);
    }
    printf("%d fit, %d with experts on the CPU, %d refused\n", n_whole, n_fewer, n_refused);
    CHECK(n_whole > 4 && n_fewer > 4 && n_refused > 4);
    model_close(m);
    emu_devices(1, NULL);
}

/* Another program takes memory after the plan: down to what is always left free a session bears it;
 * then it plans again, here to say that there is too little. */
static void test_others(void) {
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("m.gguf"));
    const struct session_opts o = {.n_ctx = 256,
                                   .device = {.kind = DEVICE_CUDA, .stream_from = -1}};
    struct session *s = NULL;
    struct err e;
    if (!m) return;
    memory_of(CU_KEEP_FREE + 100 * MIB);
    emu_other(4, 400 * MIB);
    CHECK_OK(session_new(&s, m, &o, &e));
    session_free(s);
    s = NULL;
    memory_of(CU_KEEP_FREE + 100 * MIB);
    emu_other(4, 620 * MIB);
    CHECK_ERR(session_new(&s, m, &o, &e), ERR_SYS, "of which 0 may be used, and");
    session_free(s);
    model_close(m);
    emu_devices(1, NULL);
}

/* Everything that a session takes for sequences counts as --max-vram does: one snapshot has its
 * room, further ones, and what forks write, only where the limit leaves it. */
static void test_forks(void) {
    enum { N = 3, MANY = 40 };
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("m.gguf"));
    struct session_opts o = {.n_ctx = 64, .device = {.kind = DEVICE_CUDA, .stream_from = -1}};
    const int32_t ids[N] = {3, 1, 2};
    struct seq *q[MANY] = {NULL};
    struct session *s = NULL;
    struct err e = {0};
    if (!m) return;
    emu_blocks(0); /* to the byte */
    memory_of(4096 * MIB);
    const uint64_t before = left();
    CHECK_OK(session_new(&s, m, &o, &e));
    const uint64_t least = before - left();
    session_free(s);
    o.device.max_bytes = least + MIB;
    CHECK_OK(session_new(&s, m, &o, &e));
    if (!s) return;
    CHECK_OK(session_step(s, ids, N, NULL, &e));
    int n = 0, rc = 0;
    while (n < MANY && !rc) {
        struct session_row row = {4, NULL, 0};
        rc = seq_fork(&q[n], session_own_seq(s), &e);
        if (rc) break;
        row.seq = q[n++]; /* a page of its own from here on */
        rc = session_pass(s, &(struct session_pass){.row = &row, .n = 1}, &e);
        CHECK(before - left() <= o.device.max_bytes);
    }
    CHECK(n >= 1 && n < MANY);
    CHECK_EQ_I64(rc, ERR_SYS);
    CHECK(strstr(e.msg, "--max-vram"));
    CHECK_OK(session_step(s, ids, 1, NULL, &e)); /* it goes on */
    while (n > 0) seq_free(q[--n]);
    CHECK_OK(session_mark(s, &e)); /* has its room at all times */
    session_free(s);
    CHECK_EQ_I64(left(), before);
    model_close(m);
    emu_devices(1, NULL);
    emu_blocks(1);
}

int main(void) {
    if (!emu_devices) return check_skip("not emulated");
    emu_blocks(1);
    RUN(test_sizes);
    RUN(test_others);
    RUN(test_forks);
    return check_done();
}
