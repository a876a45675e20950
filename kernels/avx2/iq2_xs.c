// SPDX-License-Identifier: MIT
/* kernels/avx2/iq2_xs.c - IQ2_XS by AVX2; loops in iq.h, layout in kernels/ref/iq2_xs.c. */
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"

INLINE struct iq_chunk chunk(const void *w, const struct kern_grid *g, int c) {
    const struct blk_IQ2_XS *x = w;
    const uint16_t *q = x->qs + 4 * c;
    const __m256i level =
        _mm256_setr_epi64x(load_i64(g->iq2_xs[q[0] & 511]), load_i64(g->iq2_xs[q[1] & 511]),
                           load_i64(g->iq2_xs[q[2] & 511]), load_i64(g->iq2_xs[q[3] & 511]));
    const __m256i sign =
        _mm256_setr_epi64x(load_i64(g->sign_mask[q[0] >> 9]), load_i64(g->sign_mask[q[1] >> 9]),
                           load_i64(g->sign_mask[q[2] >> 9]), load_i64(g->sign_mask[q[3] >> 9]));
    return (struct iq_chunk){
        level, sign, {2 * (x->scales[c] & 15) + 1, 2 * (x->scales[c] >> 4) + 1}};
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ2_XS), 0.125f, dst, n, iq_first, chunk);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ2_XS), 0.125f, a, n, iq_first, chunk);
}

const struct kern_ops kern_avx2_IQ2_XS = {.decode = decode, .dot = dot};
