// SPDX-License-Identifier: MIT
/* kernels/ref/bf16.c - reference kernels for bfloat16 weights, each the high half of an f32. The
 * dot takes f32 activations. */
#include "base/fp.h"
#include "kernels/ops.h"

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_BF16 *x = blk;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) /* the quantizer reads whole models through this loop */
        for (int k = 0; k < 16; k++) dst[i + k] = fp_bf16_to_f32(x[i + k].v);
    for (; i < n; i++) dst[i] = fp_bf16_to_f32(x[i].v);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_BF16 *x = w;
    const float *y = a;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)fp_bf16_to_f32(x[i].v) * (double)y[i];
    return (float)sum;
}

const struct kern_ops kern_ref_BF16 = {.decode = decode, .dot = dot};
