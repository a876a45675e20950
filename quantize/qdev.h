// SPDX-License-Identifier: MIT
/* quantize/qdev.h - rows of a tensor searched and packed on a CUDA device: the bytes of the CPU's
 * encoders. Sources of any type that the device decodes; targets of blocks that are opened
 * (enc/open.h), in all searches. One thread at a time.
 *
 * Two chunks of about 2 million weights are under way: while one is computed, the other is copied.
 * Device memory: for each chunk its source, f32, blocks, open blocks (23 bytes per weight of types
 * with blocks of 32, 3 of others) and bytes; pinned host memory: source and bytes. */
#ifndef HONE_QUANTIZE_QDEV_H
#define HONE_QUANTIZE_QDEV_H

#include "core/err.h"
#include "core/pool.h"
#include "quantize/enc/enc.h"

struct qdev;
/* max_bytes: most of the device's memory that is taken; 0: what is free, less CU_KEEP_FREE. pool:
 * borrowed, copies into pinned memory. */
int qdev_open(struct qdev **out, int device, uint64_t max_bytes, struct pool *pool, struct err *e);
void qdev_close(struct qdev *d); /* NULL is fine */

struct qdev_tensor {
    enum qtype from, to;
    enum search search;
    bool balance;           /* enc_row_balanced, else enc_row */
    int64_t k, rows, n_mat; /* weights in a row, rows in a matrix, matrices */
    const float *imp;       /* NULL, or [n_mat][k] */
};
bool qdev_can(enum qtype from, enum qtype to);
/* What qdev_rows works on from here on; t->imp is read during the call. */
int qdev_tensor(struct qdev *d, const struct qdev_tensor *t, struct err *e);
/* Rows first .. first + n - 1 of the tensor, from src on, to dst. *row, *col: the first weight that
 * is NaN or infinite (dst then means nothing), row -1: none. */
int qdev_rows(struct qdev *d, const uint8_t *src, int64_t first, int64_t n, uint8_t *dst,
              int64_t *row, int64_t *col, struct err *e);

#endif
