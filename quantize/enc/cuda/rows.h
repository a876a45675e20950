// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/rows.h - rows of f32 on a device to blocks there: the searches of
 * quantize/enc/lanes_*.h and grid_*.h, compiled for the device, with the bytes of enc_row,
 * enc_row_balanced and, for grid types, enc_grid_row and enc_grid_balance. Without nvcc none.c
 * answers; the tests compile the same .cu for the CPU. */
#ifndef HONE_QUANTIZE_ENC_CUDA_ROWS_H
#define HONE_QUANTIZE_ENC_CUDA_ROWS_H

#include "kernels/cuda/cuda.h"
#include "quantize/enc/super.h"

/* From this magnitude on an f16 scale may overflow: batch.c decodes the row and checks it. */
#define ENC_LARGE 65536.0f
enum { ENC_ROW_LARGE = 1 };
/* Pointers are device pointers. */
struct enc_cuda_rows {
    enum qtype type;
    enum search search;
    int64_t n, k;     /* rows, weights in one */
    const float *x;   /* [n][k] */
    const float *imp; /* importance [][k], or NULL */
    int64_t imp_rows; /* row r has that of (imp_first + r) / imp_rows */
    int64_t imp_first;
    bool balance;
    const void *tables; /* of grid types: enc_grid_tables */
    int wave;           /* and how many super-blocks at a time, at most; 0: 2048 */
    uint8_t *out;       /* [n] rows of blocks */
    /* [n]: 0; ENC_ROW_LARGE where a weight is ENC_LARGE or more; ENC_ROW_LARGE + k - c where c is
     * the first column that is NaN or infinite, and the row's blocks are invalid */
    int32_t *bad;
    void *work; /* enc_cuda_work(...) bytes */
};
/* Tells whether blocks of the type can be searched for on a device. */
bool enc_cuda_can(enum qtype t);
uint64_t enc_cuda_work(enum qtype t, enum search search, int64_t n, int64_t k); /* wave: 0 */
/* Queues the work. */
int enc_cuda_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e);

/* Tells the same for grid types (grid.cu), once rows that are not finite are known. */
bool enc_cuda_grid_can(enum qtype t);
uint64_t enc_cuda_grid_work(enum search search, int64_t n, int64_t k);
int enc_cuda_grid_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e);

#endif
