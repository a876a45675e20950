// SPDX-License-Identifier: MIT
/* kernels/avx2/f16.c - IEEE half weights, converted 8 at a time by F16C.
 * Any n; 2 bytes per weight; the dot keeps four chains of FMA. */
#include "core/fp.h"
#include "kernels/avx2/avx2.h"
#include "kernels/ops.h"

INLINE __m256 eight(const struct blk_F16 *x, int64_t i) {
    return _mm256_cvtph_ps(load16(x + i));
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const struct blk_F16 *x = blk;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, eight(x, i));
    for (; i < n; i++) dst[i] = half(x[i].v);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const struct blk_F16 *x = w;
    const float *y = a;
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        UNROLL for (int c = 0; c < 4; c++) acc[c] =
            _mm256_fmadd_ps(eight(x, i + 8 * c), _mm256_loadu_ps(y + i + 8 * c), acc[c]);
    for (; i + 8 <= n; i += 8)
        acc[0] = _mm256_fmadd_ps(eight(x, i), _mm256_loadu_ps(y + i), acc[0]);
    float tail = 0;
    for (; i < n; i++) tail += half(x[i].v) * y[i];
    return hsum(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3]))) + tail;
}

const struct kern_ops kern_avx2_F16 = {.decode = decode, .dot = dot};
