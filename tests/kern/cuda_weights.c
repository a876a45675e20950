// SPDX-License-Identifier: MIT
/* tests/kern/cuda_weights.c - the CUDA kernels on weights against kernels/ref: in `make test` under
 * the CPU emulation, in several orders of threads; in `make check-cuda` on the device. */
#include "core/rng.h"
#include "kernels/bench.h"
#include "kernels/cuda/cuda.h"
#include "tests/check.h"
#include "tests/kern/cuda_dev.h"

static void test_f32_rows(struct dev *d) {
    enum { K = 300, ROWS = 5 };
    float x[ROWS * K], y[2 * K];
    for (int i = 0; i < ROWS * K; i++) x[i] = (float)i;
    const int32_t rows[2] = {4, 1};
    void *dx = dev_put(d, x, sizeof x), *dr = dev_put(d, rows, sizeof rows);
    void *dy = dev_new(d, sizeof y);
    struct err e;
    CHECK_OK(cu_decode_rows(d->s, QT_F32, dx, K, dr, 2, 0.5f, dy, K, &e));
    dev_get(d, y, dy, sizeof y);
    for (int i = 0; i < 2 * K; i++) CHECK(y[i] == 0.5f * x[rows[i / K] * K + i % K]);
}

static void test_graph(struct dev *d) {
    enum { K = 64 };
    float x[K] = {0}, y[K];
    void *dx = dev_put(d, x, sizeof x), *dy = dev_new(d, sizeof y);
    struct cu_graph *g = NULL;
    struct err e;
    CHECK_OK(cu_graph_begin(d->s, &e));
    CHECK_OK(cu_decode_rows(d->s, QT_F32, dx, K, NULL, 1, 2, dy, K, &e));
    CHECK_OK(cu_graph_end(d->s, &g, &e));
    for (int round = 1; round < 3; round++) {
        x[7] = (float)round;
        CHECK_OK(cu_upload(d->s, dx, x, sizeof x, &e));
        CHECK_OK(cu_graph_run(d->s, g, &e));
        dev_get(d, y, dy, sizeof y);
        CHECK(y[7] == 2.0f * (float)round && y[0] == 0);
    }
    cu_graph_free(g);
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(o) {
        RUN_DEV(test_f32_rows, &d);
        RUN_DEV(test_graph, &d);
    }
    dev_close(&d);
    return check_done();
}
