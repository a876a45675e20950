// SPDX-License-Identifier: MIT
/* tests/kern/cuda_dev.h - a device for tests: buffers that live until the test ends, in every order
 * of threads that the emulation offers (once, on a device). */
#ifndef HONE_TESTS_KERN_CUDA_DEV_H
#define HONE_TESTS_KERN_CUDA_DEV_H

#include "kernels/cuda/cuda.h"
#include "tests/check.h"
#include "tests/cuda-emu/control.h"

enum { DEV_BUFS = 1024, DEV_GUARD = 256 };
struct dev {
    struct cu_ctx *c;
    struct cu_stream *s;
    struct cu_buf *buf[DEV_BUFS];
    int n_bufs;
};

/* Opens a device; returns false if there is no device to test on. */
static inline bool dev_open(struct dev *d) {
    struct err e;
    memset(d, 0, sizeof *d);
    if (!cu_built() || cu_count() == 0) return false;
    if (cu_open(&d->c, 0, &e) || cu_stream_new(&d->s, d->c, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        exit(1);
    }
    struct cu_info i;
    if (cu_get_info(d->c, &i, &e) == 0) printf("on %s\n", i.name);
    return true;
}
/* Allocates n bytes of device memory, all 0xff (NaN), followed by guard bytes that dev_end checks.
 */
static inline void *dev_new(struct dev *d, size_t n) {
    struct err e;
    if (d->n_bufs == DEV_BUFS || cu_buf_new(&d->buf[d->n_bufs], d->c, n + DEV_GUARD, "test", &e) ||
        cu_fill(d->s, cu_buf_ptr(d->buf[d->n_bufs]), 0xff, n + DEV_GUARD, &e)) {
        fprintf(stderr, "no device memory for a test\n");
        exit(1);
    }
    return cu_buf_ptr(d->buf[d->n_bufs++]);
}
static inline void *dev_put(struct dev *d, const void *host, size_t n) {
    struct err e;
    void *p = dev_new(d, n);
    CHECK_OK(cu_upload(d->s, p, host, n, &e));
    return p;
}
static inline void dev_get(struct dev *d, void *host, const void *p, size_t n) {
    struct err e;
    CHECK_OK(cu_download(d->s, host, p, n, &e));
    CHECK_OK(cu_sync(d->s, &e));
}
/* Ends a test: checks that everything ran and nothing wrote past its buffer. */
static inline void dev_end(struct dev *d) {
    unsigned char guard[DEV_GUARD];
    struct err e;
    CHECK_OK(cu_sync(d->s, &e));
    for (int i = 0; i < d->n_bufs; i++) {
        const size_t n = (size_t)cu_buf_bytes(d->buf[i]) - DEV_GUARD;
        dev_get(d, guard, (const char *)cu_buf_ptr(d->buf[i]) + n, DEV_GUARD);
        for (int b = 0; b < DEV_GUARD; b++)
            if (guard[b] != 0xff) {
                CHECK_FAIL("buffer %d of %zu bytes: written past its end", i, n);
                break;
            }
        cu_buf_free(d->buf[i]);
    }
    d->n_bufs = 0;
}
static inline void dev_close(struct dev *d) {
    cu_stream_free(d->s);
    cu_close(d->c);
}

/* Emulates a card with little shared memory, which every kernel for all cards must fit. Real
 * devices are unchanged. */
static inline void dev_small(struct dev *d, bool yes) {
    if (!emu_card) return;
    dev_close(d);
    emu_card(yes ? 86 : 90);
    dev_open(d);
}

#define EACH_ORDER(o)                                                                              \
    for (unsigned o = 0;                                                                           \
         o < (emu_shuffle ? 3u : 1u) && (emu_shuffle ? emu_shuffle(o) : (void)0, 1); o++)
#define RUN_DEV(test, d)                                                                           \
    do {                                                                                           \
        check_failed_here = 0;                                                                     \
        test(d);                                                                                   \
        dev_end(d);                                                                                \
        if (check_failed_here) {                                                                   \
            fprintf(stderr, "FAIL %s\n", #test);                                                   \
            check_n_failed++;                                                                      \
        } else                                                                                     \
            check_n_passed++;                                                                      \
    } while (0)

#endif
