// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/rows.h - rows of f32 on a device to blocks there: the searches of
 * quantize/enc/lanes_*.h, compiled for the device, with the bytes of enc_row and enc_row_balanced.
 * Without nvcc none.c answers; the tests compile rows.cu for the CPU. */
#ifndef HONE_QUANTIZE_ENC_CUDA_ROWS_H
#define HONE_QUANTIZE_ENC_CUDA_ROWS_H

#include "kernels/cuda/cuda.h"
#include "quantize/enc/super.h"

/* Read during the call; pointers are device pointers. */
struct enc_cuda_rows {
    struct enc_how how; /* row_mean2 is found out here; how.s is host memory */
    int64_t n, k;       /* rows, weights in one */
    const float *x;     /* [n][k] */
    const float *imp;   /* importance [][k], or NULL */
    int64_t imp_rows;   /* row r has that of (imp_first + r) / imp_rows */
    int64_t imp_first;
    bool balance;
    uint8_t *out; /* [n] rows of blocks */
    int32_t *bad; /* [n]: k - c where column c is the first that is NaN or infinite; else 0. Such a
                     row's blocks mean nothing */
    void *work;   /* enc_cuda_work(...) bytes */
};
/* Blocks of the type can be searched for. */
bool enc_cuda_can(enum qtype t);
uint64_t enc_cuda_work(const struct enc_spec *s, int64_t n, int64_t k);
/* Queues the work. */
int enc_cuda_rows(struct cu_stream *s, const struct enc_cuda_rows *a, struct err *e);

#endif
