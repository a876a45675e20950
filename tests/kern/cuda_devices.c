// SPDX-License-Identifier: MIT
/* tests/kern/cuda_devices.c - several devices: each has separate memory, one thread uses them in
 * turn, copies between them wait for the producer of their bytes. Also checks that the emulation
 * catches every access to another device's memory by a kernel or a copy. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/kern/cuda_dev.h"

enum { N = 3, WORDS = 300 };
static const struct emu_device cards[N] = {
    {(size_t)2 << 30, 384}, {(size_t)1 << 30, 256}, {(size_t)3 << 30, 512}};

struct card {
    struct cu_ctx *c;
    struct cu_stream *s;
    struct cu_buf *buf;
    float *x, *y;
};

static void open_all(struct card *d) {
    struct err e;
    for (int i = 0; i < N; i++) {
        CHECK_OK(cu_open(&d[i].c, i, &e));
        CHECK_OK(cu_stream_new(&d[i].s, d[i].c, &e));
        CHECK_OK(cu_buf_new(&d[i].buf, d[i].c, 2 * WORDS * sizeof(float), "test", &e));
        d[i].x = cu_buf_ptr(d[i].buf);
        d[i].y = d[i].x + WORDS;
    }
    for (int i = 1; i < N; i++) cu_pair(d[0].c, d[i].c);
}
static void close_all(struct card *d) {
    for (int i = 0; i < N; i++) {
        cu_buf_free(d[i].buf);
        cu_stream_free(d[i].s);
        cu_close(d[i].c);
    }
}

/* Checks that memory allocated on one device does not reduce that of a different device. */
static void test_memory(void) {
    struct card d[N];
    struct cu_info before[N], after;
    struct cu_buf *b = NULL;
    struct err e;
    open_all(d);
    for (int i = 0; i < N; i++) {
        CHECK_OK(cu_get_info(d[i].c, &before[i], &e));
        CHECK_EQ_I64(before[i].index, i);
        CHECK_EQ_I64(before[i].mem_total, cards[i].n_bytes);
        CHECK_EQ_I64(before[i].bandwidth, 20000000000U / 8 * (unsigned)cards[i].bus);
    }
    CHECK_OK(cu_buf_new(&b, d[1].c, 100 << 20, "test", &e));
    for (int i = 0; i < N; i++) {
        CHECK_OK(cu_get_info(d[i].c, &after, &e));
        CHECK_EQ_I64(before[i].mem_free - after.mem_free, i == 1 ? 100 << 20 : 0);
    }
    cu_buf_free(b);
    CHECK_ERR(cu_buf_new(&b, d[1].c, (uint64_t)1 << 30, "much", &e), ERR_SYS, "much");
    CHECK_ERR(cu_open(&d[0].c, N, &e), ERR_SYS, "no CUDA device 3");
    close_all(d);
}

/* Passes numbers around: each device doubles those of the previous one. Whichever stream lags, a
 * copy must get the finished values. */
static void test_round(void) {
    float x[WORDS], y[WORDS];
    struct card d[N];
    struct err e;
    open_all(d);
    for (int i = 0; i < WORDS; i++) x[i] = (float)i;
    for (unsigned lags = 0; lags < 8; lags++) {
        emu_defer(lags);
        CHECK_OK(cu_upload(d[0].s, d[0].x, x, sizeof x, &e));
        for (int k = 0; k < 2 * N; k++) {
            struct card *at = &d[k % N], *next = &d[(k + 1) % N];
            CHECK_OK(cu_add(at->s, at->x, at->x, at->y, WORDS, &e));
            CHECK_OK(cu_move(next->s, next->x, at->s, at->y, sizeof x, &e));
        }
        CHECK_OK(cu_download(d[0].s, y, d[0].x, sizeof y, &e));
        CHECK_OK(cu_sync(d[0].s, &e));
        for (int i = 0; i < WORDS; i++) CHECK(y[i] == 64 * x[i]);
    }
    emu_defer(0);
    close_all(d);
}

/* ---- what must be noticed ---- */

enum mistake { RIGHT, KERNEL, TABLE, COPY, FILL, UPLOAD, DOWNLOAD, MISTAKES };

/* Makes a mistake: a gather with its output or its index on the wrong device, or a wrong copy. */
static int make(struct card *d, enum mistake m) {
    struct card *far = &d[1], *at = &d[0];
    float host[4] = {0};
    struct err e;
    int rc = cu_fill(far->s, far->x, 0, WORDS * sizeof(float), &e);
    if (m == KERNEL) rc |= cu_add(at->s, at->x, at->x, far->y, WORDS, &e);
    if (m == TABLE)
        rc |= cu_decode_rows(at->s, QT_F32, at->x, 4, (const int32_t *)(const void *)far->x, 1, 1,
                             at->y, 4, &e);
    if (m == COPY) rc |= cu_copy(at->s, at->x, far->x, 16, &e);
    if (m == FILL) rc |= cu_fill(at->s, far->x, 0, 16, &e);
    if (m == UPLOAD) rc |= cu_upload(at->s, far->x, host, 16, &e);
    if (m == DOWNLOAD) rc |= cu_download(at->s, host, far->x, 16, &e);
    return rc | cu_sync(at->s, &e);
}

static void test_mistakes(void) {
    struct card d[N];
    open_all(d);
    for (int m = RIGHT; m < MISTAKES; m++) {
        int status = -1;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr)) _exit(2);
            signal(SIGABRT, SIG_DFL);
            _exit(make(d, (enum mistake)m) ? 1 : 0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        const bool aborts = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        if (aborts != (m != RIGHT)) CHECK_FAIL("mistake %d: status %d", m, status);
    }
    close_all(d);
}

int main(void) {
    if (!emu_devices) return check_skip("not the emulation");
    emu_devices(N, cards);
    RUN(test_memory);
    RUN(test_round);
    RUN(test_mistakes);
    return check_done();
}
