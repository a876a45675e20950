// SPDX-License-Identifier: MIT
/* kernels/avx2/f32_weights.c - AVX2 version of kernels/f32/floats.h for f32 weights. */
#include "kernels/avx2/f8.h"
#include "containers/qtype.h"

#define WEIGHT struct blk_F32
INLINE f8 eight(const WEIGHT *x, int64_t i) {
    return f_load(&x[i].v);
}
INLINE float single(const WEIGHT *x, int64_t i) {
    return x[i].v;
}
#include "kernels/f32/floats.h"

const struct kern_ops kern_avx2_F32 = {.decode = decode, .dot = dot};
