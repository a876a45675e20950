// SPDX-License-Identifier: MIT
/* What a session plans to take of a device is what it takes, in the blocks in which devices give
 * memory away: at forty random sizes of memory and contexts a session either says in its plan that
 * it does not fit, or fits and leaves free what it promised. And what another program takes between
 * the plan and the last tensor makes it plan again. Emulated devices only. */
#include "core/rng.h"
#include "kernels/cuda/cuda.h"
#include "runtime/engine/exec_cuda.h"
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
            if (session_offload(s).n_blocks)
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

int main(void) {
    if (!emu_devices) return check_skip("not emulated");
    emu_blocks(1);
    RUN(test_sizes);
    RUN(test_others);
    return check_done();
}
