// SPDX-License-Identifier: MIT
/* kernels/avx2/f32_weights.c - f32 weights: decode copies; the dot keeps four chains of FMA. */
#include <string.h>

#include "kernels/avx2/avx2.h"
#include "kernels/ops.h"

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    memcpy(dst, blk, (size_t)n * sizeof *dst);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const float *x = w, *y = a;
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        UNROLL for (int c = 0; c < 4; c++) acc[c] =
            _mm256_fmadd_ps(_mm256_loadu_ps(x + i + 8 * c), _mm256_loadu_ps(y + i + 8 * c), acc[c]);
    for (; i + 8 <= n; i += 8)
        acc[0] = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i), acc[0]);
    float tail = 0;
    for (; i < n; i++) tail += x[i] * y[i];
    const __m256 s = _mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3]));
    return hsum(s) + tail;
}

const struct kern_ops kern_avx2_F32 = {.decode = decode, .dot = dot};
