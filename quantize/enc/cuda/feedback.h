// SPDX-License-Identifier: MIT
/* quantize/enc/cuda/feedback.h - error feedback on a device: rows of f32 in device memory become
 * blocks, with the bytes of feedback_rows (../../feedback.h).
 *
 * Without nvcc, none.c provides stubs; the tests compile feedback.cu for the CPU. */
#ifndef HONE_QUANTIZE_ENC_CUDA_FEEDBACK_H
#define HONE_QUANTIZE_ENC_CUDA_FEEDBACK_H

#include "kernels/cuda/cuda.h"
#include "quantize/enc/super.h"

/* All pointers are device pointers. */
struct enc_cuda_feedback {
    enum qtype type;
    enum search search;
    unsigned steps; /* FEEDBACK_... flags */
    int rounds;
    int64_t rows;
    struct fb_cols cols; /* the moments of the rows' columns */
    const float *x;      /* [rows][cols.n] targets, finite */
    uint8_t *out;        /* [rows] rows of blocks */
    void *work;          /* scratch of enc_cuda_feedback_work bytes, 256-byte aligned */
};
/* Returns whether a device can encode rows of the type with error feedback. */
bool enc_cuda_feedback_can(enum qtype t);
/* Returns the size of the work memory for rows of n weights: at 2048 columns 21 bytes per weight,
 * 29 for types with blocks of 32. */
uint64_t enc_cuda_feedback_work(enum qtype t, int64_t rows, int64_t n);
/* Queues the encoding on s. */
int enc_cuda_feedback(struct cu_stream *s, const struct enc_cuda_feedback *a, struct err *e);

#endif
