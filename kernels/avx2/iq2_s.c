// SPDX-License-Identifier: MIT
/* kernels/avx2/iq2_s.c - IQ2_S by AVX2; loops in iq.h, layout in kernels/ref/iq2_s.c. */
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"

INLINE struct iq_chunk chunk(const void *w, const struct kern_grid *g, int c) {
    const struct blk_IQ2_S *x = w;
    const uint8_t *q = x->qs + 4 * c;
    const unsigned h = x->qh[c];
    const __m256i level = _mm256_setr_epi64x(
        load_i64(g->iq2_s[q[0] | (h << 8 & 0x300)]), load_i64(g->iq2_s[q[1] | (h << 6 & 0x300)]),
        load_i64(g->iq2_s[q[2] | (h << 4 & 0x300)]), load_i64(g->iq2_s[q[3] | (h << 2 & 0x300)]));
    return (struct iq_chunk){level,
                             bit_mask(load_u32(q + 32)),
                             {2 * (x->scales[c] & 15) + 1, 2 * (x->scales[c] >> 4) + 1}};
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ2_S), 0.125f, dst, n, iq_first, chunk);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ2_S), 0.125f, a, n, iq_first, chunk);
}

const struct kern_ops kern_avx2_IQ2_S = {.decode = decode, .dot = dot};
