// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/feed.h - copies of large weights to a device through pinned memory. */
#ifndef HONE_RUNTIME_ENGINE_CUDA_FEED_H
#define HONE_RUNTIME_ENGINE_CUDA_FEED_H

#include <stdint.h>

#include "base/pool.h"
#include "kernels/cuda/cuda.h"

struct cuda_feed {
    struct cu_ctx *ctx;
    void *pinned[2];            /* of `piece` bytes each, owned */
    struct cu_event *copied[2]; /* The device has what lay in pinned[i], owned. */
    uint64_t piece;
    unsigned turn; /* Its lowest bit says which piece is filled next. */
};

/* Makes a feed of two pieces of `piece` bytes. Fails where the system refuses so much pinned memory
 * (ERR_SYS): the caller then copies without a feed. */
int cuda_feed_open(struct cuda_feed *f, struct cu_ctx *c, uint64_t piece, struct err *e);

/* Copies n_bytes from src in main memory to dst on the device, in the order of stream q. The bytes
 * at src may be changed as soon as it returns. */
int cuda_feed_put(struct cuda_feed *f, struct cu_stream *q, struct pool *pool, void *dst,
                  const void *src, uint64_t n_bytes, struct err *e);

/* Waits for what is on its way and frees both pieces; a feed of zeros is fine. */
void cuda_feed_close(struct cuda_feed *f);

#endif
