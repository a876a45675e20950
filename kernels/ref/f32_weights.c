// SPDX-License-Identifier: MIT
/* kernels/ref/f32_weights.c - reference kernels for f32 weights: decode is a copy, dot takes f32
 * activations. */
#include "base/fp.h"
#include "kernels/ops.h"

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_F32 *x = blk;
    for (int64_t i = 0; i < n; i++) dst[i] = x[i].v;
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_F32 *x = w;
    const float *y = a;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i].v * (double)y[i];
    return (float)sum;
}

const struct kern_ops kern_ref_F32 = {.decode = decode, .dot = dot};
