// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/feed.c - uploads through pinned memory. The driver copies pageable memory
 * with a single thread through a small buffer; here all threads of the pool fill one of two pinned
 * chunks while the device fetches the other. */
#include "runtime/engine/cuda/feed.h"

#include <string.h>

#include "base/err.h"

void cuda_feed_close(struct cuda_feed *f) {
    for (int i = 0; i < 2; i++) {
        /* Errors that occur here are reported by the next call to the device. */
        struct err e = {0};
        /* The device may still be reading from it. */
        if (f->pinned[i]) (void)cu_event_sync(f->copied[i], &e);
        cu_event_free(f->copied[i]);
        cu_host_free(f->ctx, f->pinned[i]);
    }
    memset(f, 0, sizeof *f);
}

int cuda_feed_open(struct cuda_feed *f, struct cu_ctx *c, uint64_t piece, struct err *e) {
    memset(f, 0, sizeof *f);
    f->ctx = c;
    f->piece = piece;
    for (int i = 0; i < 2; i++) {
        int rc = cu_event_new(&f->copied[i], c, e);
        if (!rc) rc = cu_host_new(&f->pinned[i], c, piece, "weights on their way", e);
        if (!rc) continue;
        cuda_feed_close(f);
        return rc;
    }
    return 0;
}

int cuda_feed_put(struct cuda_feed *f, struct cu_stream *q, struct pool *pool, void *dst,
                  const void *src, uint64_t n_bytes, struct err *e) {
    for (uint64_t at = 0; at < n_bytes; at += f->piece) {
        const int i = f->turn++ & 1;
        const uint64_t left = n_bytes - at, n = left < f->piece ? left : f->piece;
        TRY(cu_event_sync(f->copied[i], e));
        pool_copy(pool, f->pinned[i], (const uint8_t *)src + at, n);
        TRY(cu_upload(q, (uint8_t *)dst + at, f->pinned[i], n, e));
        TRY(cu_event_record(f->copied[i], q, e));
    }
    return 0;
}
