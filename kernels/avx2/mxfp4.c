// SPDX-License-Identifier: MIT
/* kernels/avx2/mxfp4.c - MXFP4 with AVX2: a byte shuffle maps nibbles to levels. Loops:
 * block32.h; layout: kernels/ref/mxfp4.c. */
#include "kernels/avx2/block32.h"
#include "kernels/codebook.h"
#include "kernels/avx2/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/mxfp4.h"

INLINE __m256i codes(const void *w) {
    const struct blk_MXFP4 *x = w;
    const __m256i level = _mm256_broadcastsi128_si256(load16(kern_fp4_level));
    return _mm256_shuffle_epi8(level, nibbles(x->qs));
}

INLINE float scale(const void *w) {
    const struct blk_MXFP4 *x = w;
    return kern_e8m0_half(x->e);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    block32_decode(blk, sizeof(struct blk_MXFP4), dst, n, codes, scale);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return block32_dot(w, sizeof(struct blk_MXFP4), a, n, codes, scale);
}

const struct kern_ops kern_avx2_MXFP4 = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
