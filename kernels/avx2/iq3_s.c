// SPDX-License-Identifier: MIT
/* kernels/avx2/iq3_s.c - IQ3_S by AVX2; loops in iq.h, layout in kernels/ref/iq3_s.c. */
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"

INLINE struct iq_chunk chunk(const void *w, const struct kern_grid *g, int c) {
    const struct blk_IQ3_S *x = w;
    const uint8_t *q = x->qs + 8 * c;
    const unsigned h = x->qh[c];
    const __m256i level = _mm256_setr_epi32(
        load_i32(g->iq3_s[q[0] | (h << 8 & 256)]), load_i32(g->iq3_s[q[1] | (h << 7 & 256)]),
        load_i32(g->iq3_s[q[2] | (h << 6 & 256)]), load_i32(g->iq3_s[q[3] | (h << 5 & 256)]),
        load_i32(g->iq3_s[q[4] | (h << 4 & 256)]), load_i32(g->iq3_s[q[5] | (h << 3 & 256)]),
        load_i32(g->iq3_s[q[6] | (h << 2 & 256)]), load_i32(g->iq3_s[q[7] | (h << 1 & 256)]));
    const int s = 2 * ((x->scales[c / 2] >> (4 * (c % 2))) & 15) + 1;
    return (struct iq_chunk){level, bit_mask(load_u32(x->signs + 4 * c)), {s, s}};
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ3_S), 1.0f, dst, n, iq_first, chunk);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ3_S), 1.0f, a, n, iq_first, chunk);
}

const struct kern_ops kern_avx2_IQ3_S = {.decode = decode, .dot = dot};
