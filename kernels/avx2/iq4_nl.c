// SPDX-License-Identifier: MIT
/* kernels/avx2/iq4_nl.c - IQ4_NL with AVX2: a byte shuffle maps nibbles to levels. Loops:
 * block32.h; layout: kernels/ref/iq4_nl.c. */
#include "kernels/avx2/block32.h"
#include "kernels/codebook.h"
#include "kernels/avx2/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_nl.h"

INLINE __m256i codes(const void *w) {
    const struct blk_IQ4_NL *x = w;
    const __m256i level = _mm256_broadcastsi128_si256(load16(kern_iq4_level));
    return _mm256_shuffle_epi8(level, nibbles(x->qs));
}

INLINE float scale(const void *w) {
    const struct blk_IQ4_NL *x = w;
    return half(x->d);
}

/* Decodes n values, whole blocks, to floats. */
static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    block32_decode(blk, sizeof(struct blk_IQ4_NL), dst, n, codes, scale);
}

/* Returns the product of n weights w and rounded activations a, both whole blocks. */
static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return block32_dot(w, sizeof(struct blk_IQ4_NL), a, n, codes, scale);
}

const struct kern_ops kern_avx2_IQ4_NL = {
    .decode = decode, .dot = dot, .gemm = gemm, .rows = LANES};
