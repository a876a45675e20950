// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/feed.h - upload of large weights to a device through pinned memory. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_FEED_H
#define HONE_RUNTIME_ENGINE_CUDA_FEED_H

#include <stdint.h>

#include "base/pool.h"
#include "kernels/cuda/cuda.h"

struct cuda_feed {
    struct cu_ctx *ctx;
    void *pinned[2];            /* `piece` bytes each, owned */
    struct cu_event *copied[2]; /* the device has read pinned[i]; owned */
    uint64_t piece;
    unsigned turn; /* lowest bit: index of the next chunk to fill */
};

/* Creates a feed of two chunks of `piece` bytes. ERR_SYS: that much pinned memory is not available;
 * the caller then copies without a feed. */
int cuda_feed_open(struct cuda_feed *f, struct cu_ctx *c, uint64_t piece, struct err *e);

/* Copies n_bytes from src in main memory to dst on the device, in the order of stream q. src may be
 * changed as soon as the call returns. */
int cuda_feed_put(struct cuda_feed *f, struct cu_stream *q, struct pool *pool, void *dst,
                  const void *src, uint64_t n_bytes, struct err *e);

/* Waits for queued copies and frees both chunks. Accepts a zeroed feed. */
void cuda_feed_close(struct cuda_feed *f);

#endif
