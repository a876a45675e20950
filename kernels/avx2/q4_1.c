// SPDX-License-Identifier: MIT
/* kernels/avx2/q4_1.c - Q4_1 with AVX2: unsigned nibbles; the minimum multiplies the activation
 * sum. Loops: block32.h; layout: kernels/ref/q4_1.c. */
#include "kernels/avx2/block32.h"
#include "kernels/avx2/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_1.h"

INLINE __m256i codes(const void *w) {
    const struct blk_Q4_1 *x = w;
    return nibbles(x->qs);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    block32_decode_min(blk, sizeof(struct blk_Q4_1), dst, n, codes);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return block32_dot_min(w, sizeof(struct blk_Q4_1), a, n, codes);
}

const struct kern_ops kern_avx2_Q4_1 = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
