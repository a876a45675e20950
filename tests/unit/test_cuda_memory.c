// SPDX-License-Identifier: MIT
/* A session takes exactly the device memory that it planned, rounded to the device's allocation
 * blocks. With forty random memory sizes and contexts, either the plan reports that the session
 * does not fit, or it fits and leaves the promised amount free. If another program takes memory
 * between the plan and the last tensor, the session plans again. As many probes run at a time as
 * fit. Emulated devices only. */
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "kernels/cuda/cuda.h"
#include "mix/probe.h"
#include "runtime/engine/cuda/exec.h"
#include "runtime/measure/job.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/micro.h"
#include "work/device.h"

static const uint64_t MIB = UINT64_C(1) << 20;

static void memory_of(uint64_t n_bytes) {
    const struct emu_device one = {(size_t)n_bytes, 384};
    emu_devices(1, &one);
}

/* Returns the free memory that remains next to the session. */
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
            if (!strstr(e.msg, "may be used, and")) /* the error must come from the plan, not
                                                     * from an allocation */
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

/* Tests a different program that allocates memory after the plan: a session tolerates that down to
 * the reserve that is always kept free; beyond that it plans again and reports too little
 * memory. */
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

/* Checks that all memory for sequences counts towards --max-vram: there is always room for one
 * snapshot; further ones, and pages written by forks, need room within the limit. */
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
        struct session_row row = {.id = 4};
        rc = seq_fork(&q[n], session_own_seq(s), &e);
        if (rc) break;
        row.seq = q[n++]; /* has its own page from here on */
        rc = session_pass(s, &(struct session_pass){.row = &row, .n = 1}, &e);
        CHECK(before - left() <= o.device.max_bytes);
    }
    CHECK(n >= 1 && n < MANY);
    CHECK_EQ_I64(rc, ERR_SYS);
    CHECK(strstr(e.msg, "--max-vram"));
    CHECK_OK(session_step(s, ids, 1, NULL, &e)); /* it continues */
    while (n > 0) seq_free(q[--n]);
    CHECK_OK(session_mark(s, &e)); /* always has room */
    session_free(s);
    CHECK_EQ_I64(left(), before);
    model_close(m);
    emu_devices(1, NULL);
    emu_blocks(1);
}

/* Checks that, if a device lacks room for all candidates of a pass, fewer run at a time; the CPU is
 * used only if not even two fit. */
static void test_probe_slots(void) {
    static const char text[] = "tests/golden/tiny-qwen35moe/self_eval.txt";
    struct work w = {.ctx = ctx_process(), .isa = kern_isa_best(), .threads = 1};
    struct err e = {0};
    const char *one[] = {text};
    const struct str_list texts = {.v = one, .n = 1};
    struct model *m = golden_open("tests/golden/tiny-qwen35moe", tmp_path("m.gguf"));
    int seen[PROBE_SLOTS + 1] = {0}, last = PROBE_SLOTS;
    bool by_cpu = false;
    if (!m) return;
    model_close(m);
    CHECK_OK(work_pool(&w, &e));
    memory_of(4096 * MIB);
    for (uint64_t mib = 96; mib >= 8 && !by_cpu; mib -= 4) {
        struct probe p;
        w.device = (struct device){.kind = DEVICE_AUTO, .max_bytes = mib * MIB, .stream_from = -1};
        CHECK_OK(probe_open(&p, &w, tmp_path("m.gguf"), &texts, NULL, 32, 2, &e));
        by_cpu = strcmp(session_info(p.session[PROBE_SLOTS]).device, "cpu") == 0;
        CHECK(by_cpu ? p.n_slots == PROBE_SLOTS : p.n_slots <= last);
        if (!by_cpu) last = p.n_slots;
        for (int i = 0; i < p.n_slots; i++)
            CHECK(p.session[i] &&
                  strcmp(session_info(p.session[i]).device, by_cpu ? "cpu" : "cuda") == 0);
        seen[p.n_slots] += !by_cpu;
        probe_close(&p);
    }
    CHECK(by_cpu && seen[PROBE_SLOTS] && seen[3] && seen[2]);
    emu_devices(1, NULL);
}

/* Checks that a candidate's session computes the same experts on the CPU as the base's, which kept
 * room for several: without `like` it would fill that room itself. */
static void test_like(void) {
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("m.gguf"));
    struct session_opts o = {.n_ctx = 256, .device = {.kind = DEVICE_CUDA, .stream_from = -1}};
    struct session *base = NULL, *s[2] = {NULL};
    struct err e;
    if (!m) return;
    memory_of(4096 * MIB);
    CHECK_OK(session_new(&base, m, &o, &e));
    const uint64_t all = session_bytes(base);
    session_free(base);
    base = NULL;
    emu_blocks(0);
    o.n_followers = 7;
    uint64_t most = CU_KEEP_FREE + 8 * all; /* less and less, until some experts have no room */
    do {
        session_free(base);
        base = NULL;
        most -= all / 16;
        memory_of(most);
        CHECK_OK(session_new(&base, m, &o, &e));
    } while (base && !session_info(base).offload_blocks);
    o.n_followers = 0;
    for (int like = 0; like < 2 && base; like++) {
        o.like = like ? base : NULL;
        CHECK_OK(session_new(&s[like], m, &o, &e));
    }
    if (base && s[0] && s[1]) {
        CHECK(session_info(s[0]).offload_blocks < session_info(base).offload_blocks);
        CHECK_EQ_I64(session_info(s[1]).offload_blocks, session_info(base).offload_blocks);
        CHECK_EQ_I64(s[1]->o.n_ubatch, base->o.n_ubatch);
    }
    session_free(s[0]);
    session_free(s[1]);
    session_free(base);
    model_close(m);
    emu_devices(1, NULL);
    emu_blocks(1);
}

/* Checks that files opened together share a device in proportion to their sizes, with 1 GiB left
 * for other uses. */
static void test_share(void) {
    const struct work w = {.device = {.kind = DEVICE_CUDA}};
    const uint64_t gib = UINT64_C(1) << 30, n_bytes[] = {3 * gib, 0, gib}, none[DEVICES] = {0};
    memory_of(CU_KEEP_FREE + 3072 * MIB);
    const uint64_t all = device_share(&w, n_bytes, 1, none).max_bytes;
    CHECK(all > 2900 * MIB);
    CHECK_EQ_I64((device_share(&w, n_bytes, 3, none).max_bytes - all * 2 / 7) / MIB, 0);
    emu_devices(1, NULL);
}

/* Checks that sessions opened for one evaluation divide the device: two equal files, with room for
 * one of them, leave about as many experts to the CPU; the first one alone leaves none. */
static void test_beside(void) {
    enum { N = 2 };
    struct work w = {.ctx = ctx_process(),
                     .isa = kern_isa_best(),
                     .threads = 1,
                     .device = {.kind = DEVICE_CUDA, .stream_from = -1}};
    struct eval_args a = eval_text_usual;
    struct model *m[N] = {NULL};
    struct session *s[N] = {NULL};
    struct eval_opening o[N];
    struct err e;
    a.ctx = 64;
    CHECK_OK(work_pool(&w, &e));
    emu_blocks(0);
    for (int i = 0; i < N; i++) {
        m[i] = golden_open("tests/golden/models/qwen35moe", tmp_path(i ? "m2.gguf" : "m.gguf"));
        if (!m[i]) return;
        o[i] = (struct eval_opening){&a, m[i], "f32", &s[i]};
    }
    memory_of(4096 * MIB);
    w.device.max_bytes = gguf_file_bytes(m[0]->gguf) * 7 / 4;
    CHECK_OK(eval_sessions(&w, o, 1, a.ctx, &e));
    CHECK_EQ_I64(session_info(*o[0].out).offload_blocks, 0);
    session_free(*o[0].out);
    *o[0].out = NULL;
    CHECK_OK(eval_sessions(&w, o, N, a.ctx, &e));
    if (s[0] && s[1]) {
        const int64_t n[N] = {session_info(s[0]).offload_blocks, session_info(s[1]).offload_blocks};
        CHECK(n[0] > 0 && n[1] > 0 && llabs(n[0] - n[1]) <= 1);
        uint64_t taken[DEVICES] = {0};
        for (int i = 0; i < N; i++) session_device_bytes(s[i], taken);
        CHECK(taken[0] <= w.device.max_bytes);
    }
    for (int i = 0; i < N; i++) {
        session_free(s[i]);
        model_close(m[i]);
    }
    emu_devices(1, NULL);
    emu_blocks(1);
}

/* Checks that a cache type that CUDA lacks is an error with --device cuda, and moves just that
 * session to the CPU if the device was not requested. */
static void test_unsupported(void) {
    struct work w = {.ctx = ctx_process(), .isa = kern_isa_best(), .threads = 1};
    struct model *m = golden_open("tests/golden/models/qwen35moe", tmp_path("m.gguf"));
    struct eval_args a = eval_text_usual;
    struct err e;
    a.ctx = 64;
    CHECK_OK(work_pool(&w, &e));
    for (int i = 0; i < 2 && m; i++) {
        struct session *s[2] = {NULL};
        struct eval_opening o[] = {{&a, m, "tq4", &s[0]}, {&a, m, "f32", &s[1]}};
        memory_of(4096 * MIB);
        w.device = (struct device){.kind = i ? DEVICE_AUTO : DEVICE_CUDA, .stream_from = -1};
        if (i) {
            CHECK_OK(eval_sessions(&w, o, 2, a.ctx, &e));
            CHECK(s[0] && strcmp(session_info(s[0]).device, "cpu") == 0);
            CHECK(s[1] && strcmp(session_info(s[1]).device, "cuda") == 0);
        } else {
            CHECK_ERR(eval_sessions(&w, o, 2, a.ctx, &e), ERR_USAGE, "tq4");
        }
        session_free(s[0]);
        session_free(s[1]);
    }
    model_close(m);
    emu_devices(1, NULL);
}

int main(void) {
    if (!emu_devices) return check_skip("not emulated");
    emu_blocks(1);
    tmp_make();
    RUN(test_sizes);
    RUN(test_others);
    RUN(test_forks);
    RUN(test_probe_slots);
    RUN(test_like);
    RUN(test_share);
    RUN(test_beside);
    RUN(test_unsupported);
    tmp_remove();
    return check_done();
}
