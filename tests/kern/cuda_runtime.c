// SPDX-License-Identifier: MIT
/* tests/kern/cuda_runtime.c - the code around the kernels: errors that must not surface later,
 * drivers that are too old, shared memory, early launches. Most of it needs the emulation, which
 * can inject failures. */
#include "base/log.h"
#include "tests/kern/cuda_dev.h"

#include <stdlib.h>
#include <string.h>

/* Checks that a device that cannot be opened is not reported as lost. Runs before any is opened. */
static void test_busy(void) {
    struct err e;
    struct cu_ctx *c = NULL;
    if (!emu_refuse) return;
    emu_refuse(46); /* cudaErrorDevicesUnavailable */
    CHECK_ERR(cu_open(&c, 0, &e), ERR_SYS, "another program uses the device exclusively");
    CHECK(!strstr(e.msg, "lost"));
    emu_refuse(999);
    CHECK_ERR(cu_open(&c, 0, &e), ERR_SYS, "cudaSetDevice");
    CHECK(!strstr(e.msg, "lost") && !cu_lost());
    emu_refuse(0);
}

/* Counts messages about PTX. */
static void count_ptx(void *ud, enum log_level level, const char *text) {
    int *n = ud;
    (void)level;
    *n += strstr(text, "compiles PTX") != NULL;
}
/* Checks that the time which PTX takes is mentioned once, not for every session. */
static void test_ptx(void) {
    struct err e;
    int n = 0;
    if (!emu_code || cu_count() == 0) return;
    log_set_sink(count_ptx, &n);
    emu_code(80);
    for (int i = 0; i < 3; i++) {
        struct cu_ctx *c = NULL;
        CHECK_OK(cu_open(&c, 0, &e));
        cu_close(c);
    }
    emu_code(0);
    log_set_sink(NULL, NULL);
    CHECK_EQ_I64(n, 1);
}

static void one_launch(struct dev *d, float *x) {
    struct err e;
    CHECK_OK(cu_decode_rows(d->s, QT_F32, x, 32, NULL, 1, 1, x, 32, &e));
}

/* Checks that a caller that continues without a failed allocation does not get the error at its
 * next launch. */
static void test_last_error(struct dev *d) {
    struct err e;
    void *p = NULL;
    float *x = dev_new(d, 256);
    if (!emu_no_pinned) return;
    emu_no_pinned(1);
    CHECK_ERR(cu_host_new(&p, d->c, 4096, "rows", &e), ERR_SYS,
              "rows: 0.0 MiB of pinned host memory: out of memory");
    emu_no_pinned(0);
    one_launch(d, x);
    struct cu_graph *g = NULL; /* any other failing call: a capture within a capture */
    CHECK_OK(cu_graph_begin(d->s, &e));
    CHECK_ERR(cu_graph_begin(d->s, &e), ERR_SYS, "cudaStreamBeginCapture");
    one_launch(d, x);
    CHECK_OK(cu_graph_end(d->s, &g, &e));
    cu_graph_free(g);
}

/* Checks that no memory is requested while a stream is captured: devices refuse that, and so does
 * the emulation. */
static void test_capture(struct dev *d) {
    struct err e;
    struct cu_buf *b = NULL;
    struct cu_graph *g = NULL;
    if (!emu_no_pinned) return;
    CHECK_OK(cu_graph_begin(d->s, &e));
    CHECK_ERR(cu_buf_new(&b, d->c, 256, "late", &e), ERR_SYS, "capturing");
    CHECK_OK(cu_graph_end(d->s, &g, &e));
    cu_graph_free(g);
}

static void test_driver(struct dev *d) {
    struct err e;
    struct cu_ctx *c = NULL;
    int n = 7;
    (void)d;
    if (!emu_driver) return;
    emu_driver(12080);
    CHECK_ERR(
        cu_devices(&n, &e), ERR_SYS,
        "driver of this machine supports CUDA 12.8 at most, but this hone was built with CUDA "
        "13.0: update the driver to 580 or newer, or build with CUDA 12");
    CHECK(n == 0 && cu_count() == 0);
    CHECK_ERR(cu_open(&c, 0, &e), ERR_SYS, "update the driver to 580");
    emu_driver(0); /* no driver: not an error */
    CHECK_OK(cu_devices(&n, &e));
    CHECK(n == 0);
    CHECK_ERR(cu_open(&c, 0, &e), ERR_SYS, "no CUDA device was found");
    emu_driver(13010);
    CHECK_OK(cu_devices(&n, &e));
    CHECK(n == 1);
}

/* Checks that unpinned memory may be reused once an upload returns, even if the device fetches it
 * itself, later. */
static void test_upload(struct dev *d) {
    enum { N = 64 };
    struct err e;
    float *host = malloc(N * sizeof *host), back[N];
    float *x = dev_new(d, sizeof back);
    if (emu_reads_pageable) {
        dev_end(d);
        dev_close(d);
        emu_reads_pageable(1);
        dev_open(d);
        x = dev_new(d, sizeof back);
        CHECK_OK(cu_sync(d->s, &e));
        emu_defer(~0u);
    }
    for (int i = 0; i < N; i++) host[i] = (float)i;
    CHECK_OK(cu_upload(d->s, x, host, sizeof back, &e));
    memset(host, 0, N * sizeof *host);
    free(host);
    dev_get(d, back, x, sizeof back);
    for (int i = 0; i < N; i++) CHECK(back[i] == (float)i);
    if (!emu_reads_pageable) return;
    emu_defer(0);
    emu_reads_pageable(0);
    dev_end(d);
    dev_close(d);
    dev_open(d);
}

/* Tests products of two types that share a kernel, whose shared memory is the larger of both. A
 * captured launch must still run after a later launch that requests less. */
static void test_shared_memory(struct dev *d) {
    enum { K = 1024, ROWS = 128 };
    static const enum qtype type[] = {QT_Q8_0, QT_Q6_K, QT_Q4_K};
    struct err e;
    struct cu_graph *g = NULL;
    struct cu_products j[2];
    struct cu_weight w[3];
    void *x = dev_new(d, (size_t)CU_ACT_BYTES(K));
    CHECK_OK(cu_fill(d->s, x, 0, (uint64_t)CU_ACT_BYTES(K), &e));
    for (int i = 0; i < 3; i++) {
        const uint64_t row = qtype_row_bytes(type[i], K), n = row * ROWS;
        w[i] = (struct cu_weight){type[i], K, ROWS, 1, row, n, dev_new(d, (size_t)n + 256), NULL};
        CHECK_OK(cu_fill(d->s, (void *)(uintptr_t)w[i].data, 0, n, &e));
        w[i].packed = dev_new(d, (size_t)cu_packed_bytes(&w[i]));
        CHECK_OK(cu_pack_weight(d->s, &w[i], &e));
    }
    for (int i = 0; i < 2; i++) {
        j[i] = (struct cu_products){.n = 2};
        for (int k = 0; k < 2; k++)
            j[i].part[k] = (struct cu_term){.w = &w[k ? 2 : i],
                                            .x = x,
                                            .n_in = 1,
                                            .x_div = 1,
                                            .n_sum = 1,
                                            .y = dev_new(d, ROWS * sizeof(float)),
                                            .ldy = ROWS};
    }
    CHECK_OK(cu_products(d->s, &j[0], &e));
    CHECK_OK(cu_graph_begin(d->s, &e));
    CHECK_OK(cu_products(d->s, &j[0], &e));
    CHECK_OK(cu_graph_end(d->s, &g, &e));
    CHECK_OK(cu_products(d->s, &j[1], &e));
    CHECK_OK(cu_graph_run(d->s, g, &e));
    CHECK_OK(cu_sync(d->s, &e));
    cu_graph_free(g);
}

/* Checks that no kernel begins early if the driver compiled PTX of 80, whatever the card supports,
 * because in such code no kernel waits for the preceding launch. */
static void test_code(struct dev *d) {
    enum { N = 256 };
    struct err e;
    if (!emu_late) return;
    dev_end(d);
    dev_close(d);
    emu_late(1);
    for (int code = 0; code <= 80; code += 80) {
        emu_code(code);
        dev_open(d);
        float *x = dev_new(d, N * 4), *y = dev_new(d, N * 4);
        CHECK_OK(cu_fill(d->s, x, 0, N * 4, &e));
        const struct cu_norm j = {.a = x, .y = y, .n = N, .eps = 1},
                             k = {.a = y, .y = x, .n = N, .eps = 1};
        cu_launch_early(d->s, true);
        CHECK_OK(cu_norm_rows(d->s, &j, 1, &e));
        CHECK_OK(cu_norm_rows(d->s, &k, 1, &e));
        float got[N];
        dev_get(d, got, x, sizeof got);
        CHECK(got[0] == 0 && got[N - 1] == 0);
        dev_end(d);
        dev_close(d);
    }
    emu_code(0);
    emu_late(0);
    dev_open(d);
}

/* Checks that memory shared with the processor counts as free where the system could give it up,
 * and that the bandwidth of a part of a card is unknown. */
static void test_integrated(struct dev *d) {
    struct err e;
    struct cu_info i;
    if (!emu_integrated) return;
    dev_end(d);
    dev_close(d);
    const struct emu_device small = {(size_t)64 << 20, 384};
    emu_devices(1, &small);
    emu_other(0, (size_t)60 << 20);
    for (int yes = 0; yes < 2; yes++) {
        emu_integrated(yes);
        emu_mig(yes);
        dev_open(d);
        CHECK_OK(cu_get_info(d->c, &i, &e));
        CHECK_EQ_I64((int64_t)i.mem_free >> 20, yes ? 64 : 3); /* 4 less the grids */
        CHECK((i.bandwidth == 0) == yes);
        dev_end(d);
        dev_close(d);
    }
    emu_integrated(0);
    emu_mig(0);
    emu_devices(1, NULL);
    dev_open(d);
}

int main(void) {
    struct dev d;
    RUN(test_busy);
    RUN(test_ptx);
    if (!dev_open(&d)) return check_skip("no CUDA device");
    RUN_DEV(test_last_error, &d);
    RUN_DEV(test_capture, &d);
    RUN_DEV(test_driver, &d);
    RUN_DEV(test_upload, &d);
    RUN_DEV(test_shared_memory, &d);
    RUN_DEV(test_code, &d);
    RUN_DEV(test_integrated, &d);
    dev_close(&d);
    return check_done();
}
