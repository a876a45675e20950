// SPDX-License-Identifier: MIT
/* kernels/neon/bf16.c - NEON version of kernels/f32/floats.h for bfloat16 weights, shifted into
 * the high half of an f32. */
#include "kernels/neon/f8.h"
#include "base/fp.h"
#include "containers/qtype.h"

#define WEIGHT struct blk_BF16
INLINE f8 eight(const WEIGHT *x, int64_t i) {
    return f_bf16(x + i);
}
INLINE float single(const WEIGHT *x, int64_t i) {
    return fp_bf16_to_f32(x[i].v);
}
#include "kernels/f32/floats.h"

const struct kern_ops kern_neon_BF16 = {.decode = decode, .dot = dot};
