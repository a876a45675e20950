// SPDX-License-Identifier: MIT
/* kernels/neon/f16.c - NEON version of kernels/f32/floats.h for half-precision weights,
 * converted 8 at a time. */
#include "kernels/neon/f8.h"
#include "containers/qtype.h"

#define WEIGHT struct blk_F16
INLINE f8 eight(const WEIGHT *x, int64_t i) {
    return f_half(x + i);
}
INLINE float single(const WEIGHT *x, int64_t i) {
    return half(x[i].v);
}
#include "kernels/f32/floats.h"

const struct kern_ops kern_neon_F16 = {.decode = decode, .dot = dot};
