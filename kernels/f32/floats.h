// SPDX-License-Identifier: MIT
/* kernels/f32/floats.h - decode and dot for float weights, for any n; the dot keeps four FMA
 * chains. Included once by a type's file, after an ISA's f8.h and these definitions:
 *   WEIGHT        the type of a weight
 *   eight(x, i)   weights i to i + 7 as f32
 *   single(x, i)  weight i as f32 */
#include "kernels/ops.h"

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    const WEIGHT *x = blk;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) f_store(dst + i, eight(x, i));
    for (; i < n; i++) dst[i] = single(x, i);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    const WEIGHT *x = w;
    const float *y = a;
    f8 acc[4] = {f_set(0), f_set(0), f_set(0), f_set(0)};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        UNROLL for (int c = 0; c < 4; c++) acc[c] =
            f_fma(eight(x, i + 8 * c), f_load(y + i + 8 * c), acc[c]);
    for (; i + 8 <= n; i += 8) acc[0] = f_fma(eight(x, i), f_load(y + i), acc[0]);
    float tail = 0;
    for (; i < n; i++) tail = __builtin_fmaf(single(x, i), y[i], tail);
    return hsum(f_add(f_add(acc[0], acc[1]), f_add(acc[2], acc[3]))) + tail;
}
