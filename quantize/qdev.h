// SPDX-License-Identifier: MIT
/* quantize/qdev.h - rows of a tensor searched and packed on a CUDA device: the bytes of the CPU's
 * encoders. Sources of any type that the device decodes; targets of blocks that are opened
 * (enc/open.h) or of a grid (enc/gridq.h), in all searches. One thread at a time.
 *
 * Two chunks of about 2 million weights are under way: while one is computed, the other is copied.
 * Device memory: for each chunk its source, f32, blocks, open blocks (23 bytes per weight of types
 * with blocks of 32, 3 of others; grids: 4, and at most 160 MB of chains) and bytes; tables of a
 * grid once, 1.1 MB at most; pinned host memory: source and bytes. */
#ifndef HONE_QUANTIZE_QDEV_H
#define HONE_QUANTIZE_QDEV_H

#include "base/err.h"
#include "base/pool.h"
#include "quantize/enc/enc.h"

enum qdev_use { QDEV_NONE, QDEV_MUST, QDEV_TRY /* what it cannot take, the CPU does */ };
struct qdev_want {
    enum qdev_use use;
    int index;
    uint64_t max_bytes; /* of the device's memory; 0: what is free, less CU_KEEP_FREE */
    bool by_default;    /* chosen without --device; its use is logged */
};
struct qdev;
/* Opens a device. With QDEV_NONE, or with QDEV_TRY after a warning, there is none and *out is
 * NULL. pool is borrowed and copies into pinned memory. */
int qdev_open(struct qdev **out, const struct qdev_want *w, struct pool *pool, struct err *e);
void qdev_close(struct qdev *d); /* NULL is fine, here and below */
/* Makes the CPU go on alone: tensors are not taken any more. */
void qdev_give_up(struct qdev *d);

struct qdev_tensor {
    enum qtype from, to;
    enum search search;
    bool balance;           /* enc_row_balanced, else enc_row */
    int64_t k, rows, n_mat; /* weights in a row, rows in a matrix, matrices */
    const float *imp;       /* NULL, or [n_mat][k] */
};
/* Sets the tensor that qdev_rows works on from here on; t->imp is read during the call. *takes
 * is false where the CPU has to encode it. For lack of room, with QDEV_TRY and after a warning,
 * the CPU encodes all that follow too. */
int qdev_tensor(struct qdev *d, const struct qdev_tensor *t, bool *takes, struct err *e);
struct qdev_odd {     /* exceptional rows */
    int64_t row, col; /* the first weight that is NaN or infinite; row -1: none */
    void (*large)(void *ctx, int64_t row); /* a row with a very large weight, for the CPU */
    void *ctx;
};
/* Encodes rows first .. first + n - 1 of the tensor from src to dst. If odd->row is set, dst is
 * invalid. odd->large must encode the rows that it is called for. */
int qdev_rows(struct qdev *d, const uint8_t *src, int64_t first, int64_t n, uint8_t *dst,
              struct qdev_odd *odd, struct err *e);

#endif
