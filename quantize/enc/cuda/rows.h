// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/rows.h - device encoders: turn rows of f32 in device memory into blocks.
 *
 * They are the searches of quantize/enc/lanes_*.h and grid_*.h, compiled for the device. They
 * produce the same bytes as enc_row, enc_row_balanced and, for grid types, enc_grid_row and
 * enc_grid_balance. Without nvcc, none.c provides stubs; the tests compile the same .cu for the
 * CPU. */
#ifndef HONE_QUANTIZE_ENC_CUDA_ROWS_H
#define HONE_QUANTIZE_ENC_CUDA_ROWS_H

#include "kernels/cuda/cuda.h"
#include "quantize/enc/super.h"

/* Magnitude up to which every type's blocks hold weights; batch.c checks rows with larger ones. */
#define ENC_LARGE 65504.0f
enum { ENC_ROW_LARGE = 1 };
/* All pointers are device pointers. */
struct enc_cuda_rows {
    enum qtype type;
    enum search search;
    int64_t n, k;     /* rows; weights per row */
    const float *x;   /* [n][k] */
    const float *imp; /* importance [][k], or NULL */
    int64_t imp_rows; /* row r uses row (imp_first + r) / imp_rows of imp */
    int64_t imp_first;
    bool balance;
    const void *tables; /* grid types: enc_grid_tables */
    int wave;           /* grid types: maximum number of super-blocks at a time; 0: 2048 */
    uint8_t *out;       /* [n] rows of blocks */
    /* [n] 0: all weights are in range; ENC_ROW_LARGE: a weight is beyond ENC_LARGE;
     * ENC_ROW_LARGE + k - c: column c is the first that is NaN or infinite, and the row's blocks
     * are invalid. */
    int32_t *bad;
    void *work; /* scratch of enc_cuda_work(...) bytes */
};
/* Returns whether a device can search blocks of the type. */
bool enc_cuda_can(enum qtype t);
uint64_t enc_cuda_work(enum qtype t, enum search search, int64_t n, int64_t k); /* for wave 0 */
/* Queues the encoding on s. */
int enc_cuda_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e);

/* Do the same for grid types (grid.cu). */
bool enc_cuda_grid_can(enum qtype t);
/* Returns the size of the work memory for n rows of k values. */
uint64_t enc_cuda_grid_work(enum search search, int64_t n, int64_t k);
int enc_cuda_grid_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e);

#endif
