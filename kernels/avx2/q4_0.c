// SPDX-License-Identifier: MIT
/* kernels/avx2/q4_0.c - Q4_0 with AVX2: nibbles minus 8, byte products by the abs/sign method.
 * Loops: block32.h; layout: kernels/ref/q4_0.c. */
#include "kernels/avx2/block32.h"
#include "kernels/avx2/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_0.h"

INLINE __m256i codes(const void *w) {
    const struct blk_Q4_0 *x = w;
    return _mm256_sub_epi8(nibbles(x->qs), _mm256_set1_epi8(8));
}

INLINE float scale(const void *w) {
    const struct blk_Q4_0 *x = w;
    return half(x->d);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    block32_decode(blk, sizeof(struct blk_Q4_0), dst, n, codes, scale);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return block32_dot(w, sizeof(struct blk_Q4_0), a, n, codes, scale);
}

const struct kern_ops kern_avx2_Q4_0 = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
