// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_stream.c - streams and their order. `make test`: the emulated device; `make
 * check-cuda`: the real one. */
#include "kernels/cuda/cuda.h"
#include "tests/check.h"
#include "tests/cuda-emu/control.h"

#include <string.h>

/* A copy on one stream of what the other makes, whichever of them lags behind. */
static void test_events(void) {
    enum { N = 4096 };
    struct err e = {0};
    struct cu_ctx *c = NULL;
    struct cu_stream *q[2] = {NULL, NULL};
    struct cu_buf *b[2] = {NULL, NULL};
    struct cu_event *made = NULL, *taken = NULL;
    void *pinned = NULL;
    uint8_t got[N];
    CHECK_OK(cu_open(&c, 0, &e));
    if (!c) return;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(cu_stream_new(&q[i], c, &e));
        CHECK_OK(cu_buf_new(&b[i], c, N, "bytes", &e));
    }
    CHECK_OK(cu_event_new(&made, c, &e));
    CHECK_OK(cu_event_new(&taken, c, &e));
    CHECK_OK(cu_host_new(&pinned, c, N, "bytes", &e));
    for (unsigned lags = 0; lags < (emu_defer ? 4 : 1); lags++) {
        if (emu_defer) emu_defer(lags);
        for (int turn = 0; turn < 3; turn++) {
            CHECK_OK(cu_event_sync(taken, &e)); /* the first time it is in the past */
            memset(pinned, 10 * turn + 1, N);
            CHECK_OK(cu_event_wait(taken, q[0], &e));
            CHECK_OK(cu_upload(q[0], cu_buf_ptr(b[0]), pinned, N, &e));
            CHECK_OK(cu_event_record(made, q[0], &e));
            CHECK_OK(cu_event_wait(made, q[1], &e));
            CHECK_OK(cu_copy(q[1], cu_buf_ptr(b[1]), cu_buf_ptr(b[0]), N, &e));
            CHECK_OK(cu_event_record(taken, q[1], &e));
            CHECK_OK(cu_event_wait(taken, q[0], &e));
            CHECK_OK(cu_fill(q[0], cu_buf_ptr(b[0]), 0, N, &e));
            CHECK_OK(cu_download(q[1], got, cu_buf_ptr(b[1]), N, &e));
            CHECK_OK(cu_sync(q[1], &e));
            CHECK_EQ_I64(got[0], 10 * turn + 1);
            CHECK_EQ_I64(got[N - 1], 10 * turn + 1);
        }
    }
    if (emu_defer) emu_defer(0);
    cu_event_free(made);
    cu_event_free(taken);
    cu_event_free(NULL);
    cu_host_free(c, pinned);
    for (int i = 0; i < 2; i++) {
        cu_buf_free(b[i]);
        cu_stream_free(q[i]);
    }
    cu_close(c);
}

/* What is held back has not happened: the emulation would show a missing wait. */
static void test_missing_wait(void) {
    struct err e = {0};
    struct cu_ctx *c = NULL;
    struct cu_stream *q = NULL;
    struct cu_buf *b = NULL;
    uint8_t got = 1;
    if (!emu_defer) return;
    CHECK_OK(cu_open(&c, 0, &e));
    CHECK_OK(cu_stream_new(&q, c, &e));
    CHECK_OK(cu_buf_new(&b, c, 1, "a byte", &e));
    emu_defer(1);
    CHECK_OK(cu_fill(q, cu_buf_ptr(b), 7, 1, &e));
    CHECK_OK(cu_download(q, &got, cu_buf_ptr(b), 1, &e));
    CHECK_EQ_I64(got, 1);
    CHECK_OK(cu_sync(q, &e));
    CHECK_EQ_I64(got, 7);
    emu_defer(0);
    cu_buf_free(b);
    cu_stream_free(q);
    cu_close(c);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    RUN(test_events);
    RUN(test_missing_wait);
    return check_done();
}
