// SPDX-License-Identifier: MIT
/* tests/unit/test_writer.c - the writer thread: order, bounded buffers, errors that arrive late. */
#include <stdatomic.h>
#include <string.h>

#include "base/writer.h"
#include "tests/check.h"

enum { N = 500 };
struct log {
    int64_t tag[N];
    uint8_t first[N];
    uint64_t bytes[N];
    int n, fail_at;
    atomic_int n_put; /* buffers queued by the caller */
    int most_behind;
};

static int note(void *ctx, int64_t tag, const uint8_t *p, uint64_t n, struct err *e) {
    struct log *l = ctx;
    int behind = atomic_load(&l->n_put) - l->n;
    if (behind > l->most_behind) l->most_behind = behind;
    if (l->n == l->fail_at) return err_set(e, ERR_SYS, "the disk is full");
    l->tag[l->n] = tag;
    l->first[l->n] = p[0];
    l->bytes[l->n++] = n;
    return 0;
}

static int put(struct writer *w, struct log *l, int i, struct err *e) {
    uint8_t *p, *again;
    uint64_t n = 1 + (uint64_t)(i * 37 % 1000);
    TRY(writer_buffer(w, n, &p, e));
    TRY(writer_buffer(w, n, &again, e));
    CHECK(p == again);
    memset(p, i & 0xff, (size_t)n);
    atomic_fetch_add(&l->n_put, 1);
    writer_put(w, n, note, l, 1000 + i);
    return 0;
}

static void test_order(void) {
    static struct log l = {.fail_at = -1};
    struct err e;
    struct writer *w;
    CHECK_OK(writer_new(&w, &e));
    CHECK_OK(writer_flush(w, &e));
    for (int i = 0; i < N; i++) CHECK_OK(put(w, &l, i, &e));
    CHECK_OK(writer_flush(w, &e));
    CHECK_EQ_I64(l.n, N);
    for (int i = 0; i < l.n; i++) {
        CHECK_EQ_I64(l.tag[i], 1000 + i);
        CHECK_EQ_I64(l.first[i], i & 0xff);
        CHECK_EQ_I64(l.bytes[i], 1 + i * 37 % 1000);
    }
    CHECK(l.most_behind <= WRITER_BUFFERS);
    writer_free(w);
}

static void test_free_writes_the_rest(void) {
    static struct log l = {.fail_at = -1};
    struct err e;
    struct writer *w;
    CHECK_OK(writer_new(&w, &e));
    for (int i = 0; i < WRITER_BUFFERS; i++) CHECK_OK(put(w, &l, i, &e));
    writer_free(w);
    CHECK_EQ_I64(l.n, WRITER_BUFFERS);
    writer_free(NULL);
}

/* Checks that a write error is returned by a later call and by all calls after it, and that nothing
 * more is written. */
static void test_error(void) {
    static struct log l = {.fail_at = 7};
    struct err e;
    struct writer *w;
    int i = 0, rc = 0;
    CHECK_OK(writer_new(&w, &e));
    while (i < N && rc == 0) rc = put(w, &l, i++, &e);
    CHECK_EQ_I64(rc, ERR_SYS);
    CHECK(i <= 8 + WRITER_BUFFERS + 1);
    CHECK_ERR(put(w, &l, i, &e), ERR_SYS, "disk is full");
    CHECK_ERR(writer_flush(w, &e), ERR_SYS, "disk is full");
    writer_free(w);
    CHECK_EQ_I64(l.n, 7);
}

int main(void) {
    RUN(test_order);
    RUN(test_free_writes_the_rest);
    RUN(test_error);
    return check_done();
}
