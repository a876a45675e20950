// SPDX-License-Identifier: MIT
/* quantize/qdev.h - search and packing of tensor rows on a CUDA device, with the same bytes as the
 * CPU's encoders.
 *
 * Accepts any source type that the device can decode. Targets are types with raw blocks (enc/raw.h)
 * or a grid (enc/gridq.h), in all search modes. Not thread-safe: one thread at a time.
 *
 * Two chunks of about 2 million weights alternate: one is computed while the other is copied.
 * Device memory per chunk: source, f32, raw blocks (23 bytes per weight for types with blocks of
 * 32, 3 for other types; for grids 4, plus at most 160 MB of chains) and output bytes. A grid's
 * tables are stored once, at most 1.1 MB. Pinned host memory: source and output. */
#ifndef HONE_QUANTIZE_QDEV_H
#define HONE_QUANTIZE_QDEV_H

#include "base/err.h"
#include "base/pool.h"
#include "quantize/enc/enc.h"

enum qdev_use { QDEV_NONE, QDEV_MUST, QDEV_TRY /* the CPU encodes tensors the device cannot */ };
struct qdev_want {
    enum qdev_use use;
    int index;
    uint64_t max_bytes; /* device memory limit; 0: free memory minus CU_KEEP_FREE */
    bool by_default;    /* chosen without --device; logged when used */
};
struct cu_ctx;
struct qdev;
/* Opens a device. Sets *out to NULL with QDEV_NONE, or after a warning if QDEV_TRY fails. pool
 * (borrowed) is used to copy into pinned memory. */
int qdev_open(struct qdev **out, const struct qdev_want *w, struct pool *pool, struct err *e);
void qdev_close(struct qdev *d); /* d may be NULL, here and below */
/* Disables the device: the CPU encodes all further tensors. */
void qdev_give_up(struct qdev *d);
/* Returns whether there is a device that was not given up. */
bool qdev_is_on(const struct qdev *d);
/* Handles a failure of the device, described by e: with QDEV_MUST returns rc, else logs a warning,
 * gives up the device and returns 0. */
int qdev_failed(struct qdev *d, int rc, const struct err *e);
/* Logs that the CPU does part of the work, for the reason in e: a warning, the first time. */
void qdev_refused(struct qdev *d, const char *part, const struct err *e);
/* Returns the open device, for fb_dev.h. */
struct cu_ctx *qdev_ctx(struct qdev *d);
/* Returns max_bytes of struct qdev_want. */
uint64_t qdev_max_bytes(const struct qdev *d);
/* Frees all buffers, which the next tensor allocates again. */
void qdev_trim(struct qdev *d);

struct qdev_tensor {
    enum qtype from, to;
    enum search search;
    bool balance;           /* true: as enc_row_balanced; false: as enc_row */
    int64_t k, rows, n_mat; /* columns, rows per matrix, matrices */
    const float *imp;       /* [n_mat][k], or NULL */
};
/* Selects the tensor for qdev_rows; t->imp is read only during the call. *takes: the device encodes
 * the tensor, not the CPU. If the device lacks memory and use is QDEV_TRY, logs a warning and
 * leaves this tensor and all later ones to the CPU. */
int qdev_tensor(struct qdev *d, const struct qdev_tensor *t, bool *takes, struct err *e);
/* Exceptional rows. */
struct qdev_odd {
    int64_t row, col;                      /* first NaN or infinite weight; row -1: none */
    void (*large)(void *ctx, int64_t row); /* encodes a row with a very large weight on the CPU */
    void *ctx;
};
/* Encodes rows first .. first + n - 1 of the tensor from src to dst. If odd->row is set on return,
 * dst is invalid. odd->large is called for each row with a very large weight, and must encode that
 * row itself. */
int qdev_rows(struct qdev *d, const uint8_t *src, int64_t first, int64_t n, uint8_t *dst,
              struct qdev_odd *odd, struct err *e);

#endif
