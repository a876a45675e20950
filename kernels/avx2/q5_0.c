// SPDX-License-Identifier: MIT
/* kernels/avx2/q5_0.c - Q5_0 with AVX2: nibbles plus fifth bits from qh, minus 16. Loops:
 * block32.h; layout: kernels/ref/q5_0.c. */
#include "kernels/avx2/block32.h"
#include "base/bytes.h"
#include "kernels/avx2/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_0.h"

INLINE __m256i codes(const void *w) {
    const struct blk_Q5_0 *x = w;
    const __m256i high = _mm256_and_si256(bit_mask(load_u32(x->qh)), _mm256_set1_epi8(16));
    return _mm256_sub_epi8(_mm256_or_si256(nibbles(x->qs), high), _mm256_set1_epi8(16));
}

INLINE float scale(const void *w) {
    const struct blk_Q5_0 *x = w;
    return half(x->d);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    block32_decode(blk, sizeof(struct blk_Q5_0), dst, n, codes, scale);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return block32_dot(w, sizeof(struct blk_Q5_0), a, n, codes, scale);
}

const struct kern_ops kern_avx2_Q5_0 = {.decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
